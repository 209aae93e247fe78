"""A survey of a user's data: the kind of task, and facts that a person should know before training."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from rapidfuzz.distance import LCSseq

from transduce.wings.fitting.column_roles import FEW
from transduce.wings.fitting.given import Given, Pair

LOOKED_AT = 5000  # pairs that shares are taken of, evenly spaced
MIXED = 0.1  # share of the letters of a second script that is told as a mixture
SMALL = 500  # fewer pairs than this are judged by cross-validation


@dataclass(frozen=True)
class Survey:
    """Facts about the training pairs. Lengths are medians, in characters and in words. ``copied`` is the mean share of
    a target's words (or characters, where sources are single words) that its source has in the same order; ``kept`` is
    the share of these among all that the source and the target have in common.
    """

    task: str
    pairs: int
    sources: int
    repeated: int
    several: int
    targets: int
    source_characters: float
    target_characters: float
    source_words: float
    target_words: float
    copied: float
    kept: float
    scripts: Mapping[str, Mapping[str, float]]
    decomposed: float

    def lines(self) -> list[str]:
        """What the data are, for people."""
        if self.task == "text":
            told = [f"{self.pairs:,} lines of text, of {self.target_words:g} words each (median)"]
        else:
            told = [f"{self.pairs:,} pairs, {self.sources:,} different sources and {self.targets:,} different targets"]
            if not self.signal:
                source = f"{_many(self.source_words, 'word')} and {_many(self.source_characters, 'character')}"
                target = f"{_many(self.target_words, 'word')} and {_many(self.target_characters, 'character')}"
                told.append(f"median length of a source: {source}; of a target: {target}")
        told += [
            f"{side}s are in {_listed(found)}" for side, found in self.scripts.items() if found and self.shows(side)
        ]
        mixed = [script for script, share in self.scripts.get("source", {}).items() if share >= MIXED]
        if len(mixed) > 1:
            told.append(
                f"warning: sources are in {len(mixed)} scripts: if these are several languages, fit each alone, "
                "or put a mark of its language before each source"
            )
        if self.several:
            told.append(f"{self.several:,} sources have several targets; each is right in evaluation")
        if self.repeated:
            told.append(f"{self.repeated:,} pairs occur more than once")
        if self.decomposed > 0.01:
            told.append(
                f"{_percent(self.decomposed)} of the texts have accents as characters of their own (Unicode NFD)"
            )
        if self.copied > 0.05 and self.task not in ("pronunciation", "labels", "tags", "entities", "text", "trees"):
            order = "in the same order" if self.kept > 0.9 else "often in another order"
            told.append(f"{_percent(self.copied)} of a target is copied from its source, {order}")
        return told

    def shows(self, side: str) -> bool:
        """False for the side whose script says nothing: tags, labels, paths."""
        return not (side == "target" and self.task in ("labels", "tags", "entities", "trees"))

    @property
    def signal(self) -> bool:
        return self.task.startswith(("sound", "picture"))


def survey(train: Given) -> Survey:
    """The facts about the pairs, and the task that they are an example of. Shares are of evenly spaced pairs."""
    pairs = train.pairs
    some = pairs[:: max(1, len(pairs) // LOOKED_AT)]
    bare = [(source.rpartition("\t")[2], target) for source, target in some] if train.form == "features" else some
    by_source: dict[str, set[str]] = {}
    for source, target in pairs:
        by_source.setdefault(source, set()).add(target)
    alone = _single(source for source, _ in bare)
    likeness = [_common(source, target, alone > 0.9) for source, target in bare if source]
    text = [text for pair in bare for text in pair]
    signal = train.form in ("sound", "picture")
    sides = {"target": [target for _, target in bare]} | ({} if signal else {"source": [source for source, _ in bare]})
    return Survey(
        task=task_of(train, bare, alone, likeness),
        pairs=len(pairs),
        sources=len(by_source),
        repeated=sum(count > 1 for count in Counter(pairs).values()),
        several=sum(len(targets) > 1 for targets in by_source.values()) if any(by_source) else 0,
        targets=len({target for _, target in pairs}),
        source_characters=median(len(source) for source, _ in bare),
        target_characters=median(len(target) for _, target in bare),
        source_words=median(len(source.split()) for source, _ in bare),
        target_words=median(len(target.split()) for _, target in bare),
        copied=fmean(copied for copied, _ in likeness) if likeness and not signal else 0.0,
        kept=fmean(kept for _, kept in likeness) if likeness and not signal else 1.0,
        scripts={side: scripts(texts) for side, texts in sorted(sides.items())},
        decomposed=fmean(unicodedata.normalize("NFC", each) != each for each in text),
    )


def task_of(given: Given, pairs: Sequence[Pair], alone: float, likeness: Sequence[tuple[float, float]]) -> str:
    """The name of the task in tasks.toml. ``alone`` is the share of sources without a space, and ``likeness`` the
    shares of ``_common``.
    """
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    kinds, copied = len(set(targets)), fmean(copied for copied, _ in likeness) if likeness else 0.0
    labels = kinds <= min(FEW, len(targets) / 4) and fmean(len(target.split()) for target in targets) < 4
    if given.form in ("sound", "picture"):
        return f"{given.form}-{'labels' if labels else 'text'}"
    if given.form == "tokens":
        return _tags(targets)
    if given.form in ("trees",):
        return "trees"
    if given.form == "features":
        return "inflection"
    if not any(sources):
        return "text"
    if labels and copied < 0.5:
        return "labels"
    lengths = [(len(source.split()), len(target.split())) for source, target in pairs]
    words_in, words_out = fmean(one for one, _ in lengths), fmean(other for _, other in lengths)
    vocabulary = len({word for target in targets for word in target.split()})
    aligned = sum(one == other for one, other in lengths) / len(lengths)
    if fmean(_bare(target) == source for source, target in pairs) > 0.9 and any(s != t for s, t in pairs):
        return "accents"
    read = len({word for source in sources for word in source.split()})
    if aligned > 0.98 and words_in >= 2 and vocabulary <= min(1000, read / 4):
        return _tags(targets)
    if alone > 0.9:
        return _words(pairs, words_out, copied)
    if words_in > 60 and words_in > 3 * words_out:
        return "summaries"
    shorter = fmean(_within(source, target) for source, target in pairs)
    return "compression" if shorter > 0.9 and words_out < 0.9 * words_in else "translation"


def _words(pairs: Sequence[Pair], words_out: float, copied: float) -> str:
    """The task of single words: phonemes with spaces between them, the same word spelt otherwise, or other letters."""
    symbols = Counter(symbol for _, target in pairs for symbol in target.split())
    short = fmean(len(symbol) for symbol in symbols.elements()) <= 4
    if words_out > 1.5 and short and len(symbols) <= 500:
        return "pronunciation"
    if words_out > 1.5 and not short:
        return "translation"
    return "spelling" if copied > 0.5 else "transliteration"


def _tags(targets: Iterable[str]) -> str:
    """Entities have tags that begin with B- and I-; other tags are tags."""
    tags = {tag for target in targets for tag in target.split()}
    return "entities" if any(tag.startswith("B-") for tag in tags) else "tags"


def scripts(texts: Iterable[str]) -> dict[str, float]:
    """The share of each script among the letters, the most frequent first."""
    letters = Counter(c for text in texts for c in text if c.isalpha())
    found = Counter[str]()
    for letter, count in letters.items():
        found[unicodedata.name(letter, "UNKNOWN").partition(" ")[0].capitalize()] += count
    total = found.total() or 1
    return {script: count / total for script, count in found.most_common() if count / total >= 0.002}


def _many(number: float, name: str) -> str:
    return f"{number:g} {name}{'' if number == 1 else 's'}"


def _listed(found: Mapping[str, float]) -> str:
    if len(found) == 1:
        return f"{next(iter(found))} letters"
    return ", ".join(f"{script} ({_percent(share)})" for script, share in found.items()) + " letters"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1f} %"


def _single(sources: Iterable[str]) -> float:
    every = [source for source in sources if source]
    return fmean(len(source.split()) == 1 for source in every) if every else 0.0


def _common(source: str, target: str, letters: bool) -> tuple[float, float]:
    """The share of the target that the source has in the same order, and the share of what both have in common that is
    in the same order. In ``letters``, or else in words.
    """
    one, other = (list(source), list(target)) if letters else (source.split(), target.split())
    both = (Counter(one) & Counter(other)).total()
    same = LCSseq.similarity(one, other)
    return same / max(1, len(other)), same / both if both else 1.0


def _bare(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def _within(source: str, target: str) -> bool:
    words = target.split()
    return bool(words) and LCSseq.similarity(source.split(), words) == len(words)
