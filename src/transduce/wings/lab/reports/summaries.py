"""The sentences at the top of a report: what a reader should know first, computed from the results."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence

from transduce.evaluation.groups import Grouping
from transduce.evaluation.system_results import SystemResults
from transduce.metrics.calibration import Calibration, ConfidenceBin
from transduce.metrics.confusions import LabelBreakdown
from transduce.metrics.error_breakdown import ErrorBreakdown
from transduce.metrics.units import shown
from transduce.wings.lab.comparison import Comparison
from transduce.wings.lab.reports.passages import first

VOWELS = frozenset("aeiouyøœæɐɑɒɔəɛɜɪʊʌɨʉɯɤɵʏɘɞɶαεηιουωаеиоуыэюяё")
MANY = 0.6  # a share of errors above this is worth a sentence
APART = 0.05  # a model is too sure where its confidence is above its accuracy by more
FEW = 10  # errors or tokens; fewer show nothing


def evaluation_summary(results: SystemResults, against: Comparison | None = None) -> str:
    """What the page of an evaluation shows: the score, the errors, the worst group, and where the model is too sure."""
    statistics = first(results.system)
    name, score = statistics.name, statistics.score
    if not math.isfinite(score):
        return f"The examples give no {name}."
    interval = results.intervals[name]
    less = "" if statistics.metric.higher_is_better else "; less is better"
    told = [
        f"The {name} is {score:.1f} on {len(results.examples):,} examples (95 %: {interval.low:.1f} to "
        f"{interval.high:.1f}{less})."
    ]
    if against is not None:
        told.append(comparison_summary(against))
    told += [sentence for each in results.errors[:1] if (sentence := errors_sentence(each))]
    told += [sentence for each in results.labels[:1] if (sentence := confusion_sentence(each))]
    told += worst_group(results.groupings, name, score, statistics.metric.higher_is_better)
    if results.calibration is not None:
        told.append(calibration_sentence(results.calibration))
    return " ".join(told)


def comparison_summary(found: Comparison) -> str:
    """Which system is best by the first metric, and beside which others the difference is more than chance."""
    statistics = {system.name: first(system) for system in found.systems}
    name = first(found.systems[0]).name
    finite = {key: each for key, each in statistics.items() if math.isfinite(each.score) and each.name == name}
    if len(finite) < 2:
        return f"The systems cannot be compared by {name}."
    sign = 1 if next(iter(finite.values())).metric.higher_is_better else -1
    best = max(finite, key=lambda key: sign * finite[key].score)
    pairs = [pair for pair in found.pairs if pair.metric == name and best in (pair.one, pair.other)]
    if not pairs:
        return f"{found.display_names[best]} has the best {name}, {finite[best].score:.1f}; it was not tested."

    def other(pair: object) -> str:
        return pair.other if pair.one == best else pair.one  # type: ignore[attr-defined, no-any-return]

    real = [found.display_names[other(pair)] for pair in pairs if pair.real]
    chance = [found.display_names[other(pair)] for pair in pairs if not pair.real]
    told = f"{found.display_names[best]} has the best {name}, {finite[best].score:.1f}"
    if real:
        told += f": better than {_listed(real)} by more than chance"
    if chance:
        told += f"{';' if real else ':'} the difference from {_listed(chance)} may be chance"
    return f"{told}."


def errors_sentence(found: ErrorBreakdown) -> str:
    """The kind of most errors: vowels or consonants for letters and phonemes, else substituted, missing or extra units.
    Then the most frequent error. Empty without errors.
    """
    concerned = Counter[str]()
    for (reference, _), count in found.substitutions.items():
        concerned[reference] += count
    concerned.update(found.deletions)
    concerned.update(found.insertions)
    every = concerned.total()
    if not every:
        return f"No {found.unit} is wrong."
    kinds = {kind: count for kind, count in found.counts.items() if kind != "right"}
    words = {"substitutions": "substituted", "deletions": "missing", "insertions": "extra"}
    kind, most = max(kinds.items(), key=lambda each: each[1])
    told = f"{in_ten(most, every)} errors are {words[kind]} {found.unit}s"
    sounds = Counter[bool | None]()
    for unit, count in concerned.items():
        sounds[vowel(unit)] += count
    if found.unit != "word" and every >= FEW and sounds[None] < every / 10:
        is_vowel, count = max(((each, sounds[each]) for each in (True, False)), key=lambda each: each[1])
        if count >= MANY * every:
            told = f"{in_ten(count, every)} errors are {'vowels' if is_vowel else 'consonants'}"
    pairs = [(count, f"{shown(one)} → {shown(two)}") for (one, two), count in found.substitutions.items()]
    if pairs and (top := max(pairs))[0] > 1:
        told += f", most often {top[1]} ({top[0]:,} times)"
    return f"{told}."


def confusion_sentence(found: LabelBreakdown) -> str:
    """The label that is most often taken for another. Empty if there is none."""
    wrong = {pair: count for pair, count in found.confusions.items() if pair[0] != pair[1]}
    if not wrong:
        return ""
    (reference, predicted), count = max(wrong.items(), key=lambda each: each[1])
    every = sum(wrong.values())
    return (
        f"Of {every:,} errors, {count:,} {'are' if count != 1 else 'is'} {shown(reference) or 'no label'} taken for "
        f"{shown(predicted) or 'no label'}."
    )


def worst_group(groupings: Sequence[Grouping], name: str, score: float, higher: bool) -> list[str]:
    """A sentence about the group of sources that is worse than the whole by more than its interval, if there is one."""
    sign, found = (1 if higher else -1), []
    for grouping in groupings:
        for label, each in zip(grouping.labels, grouping.bins, strict=True):
            interval = each.intervals.get(name)
            if interval is None or not math.isfinite(each.scores[name]) or each.examples < FEW:
                continue
            if sign * (interval.high if higher else interval.low) < sign * score:
                found.append((sign * (score - each.scores[name]), grouping.title, label, each.scores[name]))
    if not found:
        return []
    _, title, label, value = max(found)
    return [f"It is worst where “{title}” is {label}: {value:.1f}."]


def calibration_sentence(found: Calibration) -> str:
    """Where the model is too sure or not sure enough: below or above a confidence, or on average."""
    bins = [each for each in found.bins if each.tokens >= FEW]
    for sign, words in ((1, "too sure"), (-1, "not sure enough")):
        off = [_off(each) * sign > APART for each in bins]
        if not any(off) or all(off):
            continue
        low = next((place for place, each in enumerate(off) if not each), len(off))
        high = next((place for place, each in enumerate(reversed(off)) if not each), len(off))
        if low and not any(off[low:]):
            return f"The model is {words} below {100 * bins[low - 1].high:.0f} %."
        if high and not any(off[: len(off) - high]):
            return f"The model is {words} above {100 * bins[-high].low:.0f} %."
    apart = found.confidence - found.accuracy
    sure = f"it is {100 * found.confidence:.0f} % sure and right in {100 * found.accuracy:.0f} %"
    if abs(apart) > APART:
        return f"The model is {'too sure' if apart > 0 else 'not sure enough'}: {sure}."
    return f"The model knows how sure it can be: {sure}."


def vowel(unit: str) -> bool | None:
    """True for a vowel, False for a consonant, and None for what is no single letter or phoneme.

    Knows letters of the Latin, Greek and Cyrillic alphabets, IPA, and ARPAbet such as "AH0".
    """
    letters = [
        letter
        for letter in unicodedata.normalize("NFD", unit.rstrip("012")).lower()
        if unicodedata.category(letter) in ("Ll", "Lo")
    ]
    if not letters or len(letters) > 3:
        return None
    return letters[0] in VOWELS


def in_ten(count: int, every: int) -> str:
    """A count as people say it: "7 of 10", "all 12", "2 of 5"; small numbers stay as they are."""
    if count == every:
        return f"All {every:,}"
    if every <= 20:
        return f"{count} of {every}"
    tenth = round(10 * count / every)
    return f"{tenth} of 10" if 0 < tenth < 10 else f"{count:,} of {every:,}"


def _off(each: ConfidenceBin) -> float:
    return each.confidence - each.accuracy


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
