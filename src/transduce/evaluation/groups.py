"""Results by groups of sources: by corpus, by length, by the frequency of the rarest word, by presence in the training
set.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from transduce.core.types import Example
from transduce.data.corpora import DataError
from transduce.data.frequencies import Frequencies, frequencies
from transduce.metrics.bins import Bin, binned, lengths, rarities, unit_of, units
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import Statistics
from transduce.runs.run import Run

log = logging.getLogger("transduce")
EACH = 2**31  # groups: more than there are corpora, so that each has its own


@dataclass(frozen=True)
class Grouping:
    """The results of all examples, divided into groups by one property of their sources. ``bins`` are the groups, and
    ``labels`` their names, in the same order.

    ``key`` names the property in JSON, ``title`` in tables.
    """

    key: str
    title: str
    labels: tuple[str, ...]
    bins: tuple[Bin, ...]

    def record(self) -> dict[str, object]:
        """The groups as values for JSON."""
        groups = [
            {"label": label, "low": each.low, "high": each.high, "mean": each.mean, "examples": each.examples}
            | {"metrics": each.scores, "intervals": each.intervals}
            for label, each in zip(self.labels, self.bins, strict=True)
        ]
        return {"title": self.title, "groups": groups}


def groupings(
    statistics: Sequence[Statistics],
    examples: Sequence[Example],
    training: Frequencies | None,
    bins: int = 6,
    resampling: Resampling | None = None,
    steps: Sequence[int] | None = None,
) -> list[Grouping]:
    """The results in groups of sources: by length and, if ``training`` is given, also by rarest word and by presence in
    training. Returns one ``Grouping`` for each of these.

    ``training`` has the frequencies of words in the training set. If no source has two words, characters are counted
    instead of words. Each grouping has at most ``bins`` groups. Signals have no words: if ``steps`` gives the length of
    each source in steps, the only grouping is by that length. If ``resampling`` is given, each group's scores have
    intervals.
    """
    unit = unit_of(examples)

    def grouped(key: str, title: str, counts: Sequence[int], label: Callable[[Bin], str], zero: bool) -> Grouping:
        found = binned(statistics, counts, bins, zero, resampling)
        return Grouping(key, title, tuple(map(label, found)), tuple(found))

    if steps is not None:
        return [grouped("length", "steps of the source", steps, _length_label, False)]
    found = [grouped("length", f"{unit} in the source", lengths(examples, unit), _length_label, False)]
    if training is not None:
        word = unit.removesuffix("s")
        rarest, seen = (
            rarities(examples, unit, training.words),
            [example.source in training.seen for example in examples],
        )
        found += [
            grouped(
                "rarest", f"times the rarest {word} of the source stands in training", rarest, _frequency_label, True
            ),
            grouped("seen", "whole source in training", [*map(int, seen)], _seen_label, True),
        ]
    return found


def by_corpus(
    statistics: Sequence[Statistics], examples: Sequence[Example], resampling: Resampling | None = None
) -> list[Grouping]:
    """The results for each corpus of the split, such as each direction of translation, in the order of the corpora.
    Empty unless there are several.
    """
    names = list(dict.fromkeys(example.corpus for example in examples))
    if len(names) < 2:
        return []
    numbers = {name: number for number, name in enumerate(names)}
    found = binned(statistics, [numbers[example.corpus] for example in examples], EACH, resampling=resampling)
    return [Grouping("corpus", "corpus", tuple(names), tuple(found))]


def training_frequencies(run: Path, examples: Sequence[Example]) -> Frequencies | None:
    """Counts in a run's training set how often each word of the examples' sources occurs, and finds which of these
    sources occur whole. If no source has two words, characters are counted instead of words.

    Returns None and logs a warning if the training set cannot be read any more.
    """
    opened = Run.open(run)
    cut = partial(units, unit=unit_of(examples))
    try:
        return frequencies(opened.data, opened.cache, [example.source for example in examples], cut)
    except (DataError, OSError) as error:
        log.warning("no results by what was seen in training: %s", error)
        return None


def _length_label(each: Bin) -> str:
    return f"{each.low:,}" if each.low == each.high else f"{each.low:,}–{each.high:,}"


def _seen_label(each: Bin) -> str:
    return ["new", "seen"][each.low] if each.low == each.high else "new or seen"


def _frequency_label(each: Bin) -> str:
    return "unseen" if each.high == 0 else _length_label(each)
