"""Filters of pairs of texts, from the cheapest to the one that reads them: each pair goes for one reason."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from transduce.core.errors import DataError
from transduce.data.base import Removed
from transduce.data.cleaning import PLACES, SIDES
from transduce.data.corpora import Side
from transduce.data.rows import CorpusRow
from transduce.wings.filtering.improbable import Judge, apart, chunks, of_strangers
from transduce.wings.filtering.texts import script, words

log = logging.getLogger("transduce")
Rows = Callable[[], Iterator[CorpusRow]]

FEWEST = 1000  # pairs that an aligner must see
STRANGERS = 5000  # random pairs
HOPELESS = 0.5  # of all pairs: if more of them look like random pairs, the aligner knows nothing
USUAL = 10  # a word belongs to a side if it is this many times as frequent there
SHARE = 0.5  # of the words of a text, or of the pairs of a corpus


@dataclass(frozen=True)
class PairFilters:
    """Leaves pairs out of the training set, each for the first of these reasons.

    ``duplicates``: the pair repeats an earlier one. ``copied``: source and target are equal, apart from case and white
    space. ``scripts``: most letters of a side are of another script than in most pairs. ``languages``: most words of a
    side are words of the other side's language. ``ratio``: one side is longer than this many times what the other side
    predicts, in characters; the corpus's mean predicts. Differences below 20 characters do not count. 0 allows
    all.

    ``improbable``: the words of the pair explain each other as little as the words of random pairs do. The score of a
    pair comes from a word aligner (IBM model 1) that has learned from other pairs, at most ``sample``. A pair goes if
    its score is below the scores of this share of random pairs; 0.95 finds 95 % of pairs that do not belong together. 0
    leaves the aligner out. It needs 1,000 pairs, and cannot judge pairs without words in common use, such as
    pronunciations: if half of all pairs would go, none goes, and a warning says so.

    Raises DataError if ``ratio`` is not 0 or above 1, ``improbable`` is not below 1, or ``sample`` is below 1,000.
    """

    duplicates: bool = True
    copied: bool = True
    scripts: bool = True
    languages: bool = True
    ratio: float = 3.0
    improbable: float = 0.95
    sample: int = 100_000

    def __post_init__(self) -> None:
        if self.ratio and not self.ratio > 1:
            raise DataError(f"filters.ratio = {self.ratio}: more than 1 was expected, such as 3")
        if not 0 <= self.improbable < 1:
            raise DataError(
                f"filters.improbable = {self.improbable}: a share between 0 and 1 was expected, such as 0.95"
            )
        if self.sample < FEWEST:
            raise DataError(f"filters.sample = {self.sample}: at least {FEWEST} pairs are needed to learn from")

    def removed(self, rows: Rows) -> Removed:
        """The rows to leave out. Reads all rows twice, and a third time if an aligner judges them.

        Raises DataError if a side of the rows is missing.
        """
        found = _Found()
        facts = self._facts(rows())
        seen = set[bytes]()
        for row in rows():
            if (reason := self._reason(row, facts, seen)) is not None:
                found.add(row, *reason)
        if self.improbable and facts.pairs >= FEWEST:
            self._add_improbable(rows, facts, found, self.improbable)
        return found.rows

    def _facts(self, rows: Iterator[CorpusRow]) -> _Facts:
        facts = _Facts()
        for row in rows:
            if row.source is None or row.target is None:
                raise DataError("data.filters are for pairs, and these data have one side: leave them out")
            facts.add(row.source, row.target, self)
        return facts

    def _reason(self, row: CorpusRow, facts: _Facts, seen: set[bytes]) -> tuple[str, str] | None:
        """The kind of problem of a row, with a description; None if the cheap filters keep it."""
        source, target = row.source or "", row.target or ""
        if self.duplicates:
            pair = blake2b(f"{source}\n{target}".encode(), digest_size=8).digest()
            if pair in seen:
                return "duplicate", ""
            seen.add(pair)
        if self.copied and facts.copies < SHARE * facts.pairs and _folded(source) == _folded(target):
            return "copied", ""
        if self.scripts and (wrong := facts.wrong_script(source, target)) is not None:
            return "in another script", wrong
        if self.languages and (side := facts.wrong_language(source, target)) is not None:
            return "in the other language", side
        if self.ratio and facts.ratio(source, target) > self.ratio:
            return "of unlike lengths", f"{len(source)} and {len(target)} characters"
        return None

    def _add_improbable(self, rows: Rows, facts: _Facts, found: _Found, share: float) -> None:
        def remaining() -> Iterator[CorpusRow]:
            return (row for row in rows() if row.key not in found.rows)

        count = facts.pairs - len(found.rows)
        stride = max(1, -(-count // self.sample))
        halves: list[tuple[list[list[str]], list[list[str]]]] = [([], []), ([], [])]
        for number, row in enumerate(remaining()):
            if number // 2 % stride == 0:
                for side, text in zip(halves[number % 2], (row.source, row.target), strict=True):
                    side.append(words(text or ""))
        if min(len(half[0]) for half in halves) < FEWEST // 2:
            return
        judges = [Judge.of(*half) for half in halves]
        limit = float(np.quantile(of_strangers(judges[1], *(side[:STRANGERS] for side in halves[0])), share))
        del halves
        texts = ((words(row.source or ""), words(row.target or "")) for row in remaining())
        scores = np.concatenate([apart(judges[::-1], *each) for each in chunks(texts)])
        doubtful = float((scores < limit).mean())
        if doubtful > HOPELESS:
            log.warning(
                "data.filters.improbable is not applied: %.0f %% of the pairs look like random ones to a word aligner, "
                "so it cannot tell them apart; set it to 0, or give more pairs",
                100 * doubtful,
            )
            return
        earlier = frozenset(found.rows)
        kept = (row for row in rows() if row.key not in earlier)
        for row, score in zip(kept, scores.tolist(), strict=True):
            if score < limit:
                found.add(row, "improbable", f"score {score:.2f}; {share:.0%} of random pairs are below {limit:.2f}")


@dataclass
class _Found:
    """The rows that go, with descriptions of the first few of each kind."""

    rows: dict[str, tuple[str, str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, row: CorpusRow, kind: str, detail: str) -> None:
        self.counts[kind] += 1
        self.rows[row.key] = kind, detail if self.counts[kind] <= PLACES else ""


@dataclass
class _Facts:
    """The usual facts of a corpus: the scripts, the words and the lengths of each side."""

    pairs: int = 0
    copies: int = 0
    lengths: list[int] = field(default_factory=lambda: [0, 0])
    scripts: dict[Side, Counter[str]] = field(default_factory=lambda: {side: Counter() for side in SIDES})
    words: dict[Side, Counter[str]] = field(default_factory=lambda: {side: Counter() for side in SIDES})

    def add(self, source: str, target: str, asked: PairFilters) -> None:
        self.pairs += 1
        self.copies += asked.copied and _folded(source) == _folded(target)
        self.lengths[0] += len(source)
        self.lengths[1] += len(target)
        for side, text in zip(SIDES, (source, target), strict=True):
            if asked.scripts:
                self.scripts[side][script(text)] += 1
            if asked.languages and self.pairs <= asked.sample:
                self.words[side].update(filter(str.isalpha, words(text)))

    def wrong_script(self, source: str, target: str) -> str | None:
        for side, text in zip(SIDES, (source, target), strict=True):
            usual, count = self.scripts[side].most_common(1)[0]
            own = script(text)
            if own and own != usual and count > SHARE * self.pairs:
                return f"the {side} is {own.lower()}"
        return None

    def wrong_language(self, source: str, target: str) -> str | None:
        for side, other, text in (("source", "target", source), ("target", "source", target)):
            mine, theirs = self.words[side], self.words[other]  # type: ignore[index]
            known = [word for word in words(text) if mine[word] + theirs[word] >= USUAL]
            foreign = sum(theirs[word] > USUAL * mine[word] for word in known)
            if len(known) > 2 and foreign > SHARE * len(known):
                return f"the {side} has words of the {other}"
        return None

    def ratio(self, source: str, target: str) -> float:
        usual = self.lengths[1] / max(1, self.lengths[0])
        lengths = len(source) * usual, float(len(target))
        if abs(lengths[0] - lengths[1]) < 20:
            return 1.0
        return max(lengths) / max(1.0, min(lengths))


def _folded(text: str) -> str:
    return " ".join(text.lower().split())
