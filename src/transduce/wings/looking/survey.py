"""Summarises the data of a run: lengths, unknown tokens, duplicates, overlap between splits, and a few samples."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transduce.core.types import SPECIALS
from transduce.data.base import Removed
from transduce.data.cleaning import Account, Tally, untrained_unknowns, usable
from transduce.data.corpora import Files, Side, Splits, present
from transduce.data.encoding import Chunk, chunks
from transduce.data.notices import notices, unspaced
from transduce.data.preparation import Tokenizers, locate, prepare
from transduce.data.settings import Data
from transduce.data.tokenizers.base import Tokenizer

SAMPLES = 3


@dataclass(frozen=True)
class Lengths:
    """A distribution of lengths: the mean, the median, the 95th and 99th percentile and the maximum. A percentile is a
    length that occurs, the lower one between two. All are 0 without lengths.
    """

    mean: float
    median: int
    p95: int
    p99: int
    longest: int

    @classmethod
    def of(cls, lengths: NDArray[np.int64]) -> Lengths:
        if not len(lengths):
            return cls(0.0, 0, 0, 0, 0)
        return cls(float(lengths.mean()), *map(int, np.percentile(lengths, [50, 95, 99, 100], method="lower")))


@dataclass(frozen=True)
class SideSurvey:
    """Statistics of one side of a split: the lengths of its texts in ``characters`` and in ``tokens`` (ids, EOS
    included).

    ``special`` counts the texts that contain the name of a special token, such as "</s>", which is read as text. It is
    0 for numbers and signals. For a ``signal``, tokens are steps, and characters count the letters of paths,
    which say nothing.
    """

    characters: Lengths
    tokens: Lengths
    signal: bool = False
    special: int = 0


@dataclass(frozen=True)
class Sample:
    """A pair for people to look at: as text, and as the tokens that the model reads. A signal has its path and a
    description of its steps instead of tokens.
    """

    source: str
    target: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]


@dataclass(frozen=True)
class SplitSurvey:
    """Statistics of one split.

    ``tally`` counts the pairs kept, their unknown tokens, and the problems found. All other numbers cover all readable
    lines, including over-long ones. ``duplicates`` is the number of pairs that repeat an earlier pair of this split.
    ``seen_pairs`` and ``seen_sources`` count the rows whose pair or source also occurs in the training set; both are 0
    for the training set itself. ``samples`` are the first ``SAMPLES`` pairs, or fewer.
    """

    tally: Tally
    source: SideSurvey
    target: SideSurvey
    duplicates: int
    seen_pairs: int
    seen_sources: int
    samples: tuple[Sample, ...]

    @property
    def length_ratio(self) -> float:
        """The mean target length divided by the mean source length, in tokens including EOS. A mean source length below
        1 counts as 1.
        """
        return self.target.tokens.mean / max(1.0, self.source.tokens.mean)

    def lines(self, side: str) -> Iterable[str]:
        """The statistics of one ``side``, "source" or "target", as lines for people."""
        survey: SideSurvey = getattr(self, side)
        for unit in ("steps",) if survey.signal else ("characters", "tokens"):
            lengths: Lengths = survey.characters if unit == "characters" else survey.tokens
            yield (
                f"  {side} {unit}: mean {lengths.mean:.1f}, median {lengths.median}, 95 % {lengths.p95}, "
                f"99 % {lengths.p99}, longest {lengths.longest}"
            )
        if survey.special:
            names = f"{', '.join(SPECIALS[:-1])} or {SPECIALS[-1]}"
            yield (
                f"  {side} lines with {names}: {survey.special:,}; what is a special token's name is cut in two in a "
                "text, so give it another one (<unk>: UNK)"
            )


@dataclass(frozen=True)
class Survey:
    """Statistics of all splits, by name, and the sizes of both vocabularies. If a side is numbers, its size is the
    number of channels; if the source is a signal, the number of values in a step. ``notices`` are lines about the
    user's files, and ``unspaced`` has a line for each side without spaces whose unit expects them.

    ``joint`` is True if the settings ask for one vocabulary for both sides.
    """

    source_vocabulary: int
    target_vocabulary: int
    joint: bool
    splits: dict[str, SplitSurvey]
    notices: tuple[str, ...] = ()
    unspaced: dict[Side, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The survey as lines of plain text for people."""
        kind = "one vocabulary for both sides" if self.joint else "a vocabulary for each side"
        text = [f"{kind}: {self.source_vocabulary:,} source, {self.target_vocabulary:,} target"]
        sides: tuple[str, ...] = ("source", "target")
        if self.splits["train"].source.signal:
            size = self.source_vocabulary
            text = [f"a signal of {size:,} numbers a step, a vocabulary of {self.target_vocabulary:,}"]
        elif self.source_vocabulary == len(SPECIALS):  # there is none
            text, sides = [f"a vocabulary of {self.target_vocabulary:,}"], ("target",)
        for name, split in self.splits.items():
            text += ["", *split.tally.lines(name)]
            for side in sides:
                text += split.lines(side)
            text.append(f"  {split.duplicates:,} duplicate pairs")
            if name != "train":
                text[-1] += f"; in the training set too: {split.seen_pairs:,} pairs, {split.seen_sources:,} sources"
            elif "source" in sides:
                text.append(f"  target tokens for each source token, ends counted: {split.length_ratio:.3f}")
            for sample in split.samples:
                text += [f"  {' '.join(sample.source_tokens)}", f"    -> {' '.join(sample.target_tokens)}"]
        tallies = {name: split.tally for name, split in self.splits.items()}
        return [*text, *untrained_unknowns(tallies, self.unspaced), *self.notices, *self.unspaced.values()]


def survey(data: Data, cache: Path) -> Survey:
    """Summarises all splits of the data, the test set included. First prepares the data in ``cache``, where a run finds
    them. Raises DataError as ``prepare`` does.
    """
    prepared = prepare(data, cache)
    gathered = {
        name: _Gathering(files, data, prepared.tokenizers, prepared.removed if name == "train" else {})
        for name, files in present(locate(data, cache)).items()
    }
    train = gathered["train"]
    given = present(Splits(data.train, data.valid, data.test))
    return Survey(
        source_vocabulary=len(prepared.source_tokenizer),
        target_vocabulary=len(prepared.target_tokenizer),
        joint=data.units.joint is not None,
        splits={name: one.result(train) for name, one in gathered.items()},
        notices=tuple(each for name, files in given.items() for each in notices(data, name, files)),
        unspaced=unspaced(data, prepared.tokenizers.both),
    )


class _Gathering:
    """Collects the statistics of a split in one pass over its lines. Keeps numbers and 64-bit hashes, but no text
    except the samples.
    """

    def __init__(self, files: Files, data: Data, tokenizers: Tokenizers, removed: Removed) -> None:
        source, target = tokenizers.both
        self.account = Account(files, data.lines, removed=removed)
        self.samples: list[Sample] = []
        self.source, self.target = _SideGathering(source), _SideGathering(target)
        self._pairs, self._sources = array("Q"), array("Q")
        rows = usable(data.rows(files), self.account)
        for chunk in chunks(rows, (source, target), self.account):
            self._add(chunk, files, data)
        self.pairs, self.sources = (np.array(hashes, np.uint64) for hashes in (self._pairs, self._sources))

    def _add(self, chunk: Chunk, files: Files, data: Data) -> None:
        texts = [(row.source or "", row.target or "") for row in chunk.rows]
        self.source.add([source for source, _ in texts], chunk.sources)
        self.target.add([target for _, target in texts], chunk.targets)
        both = self.source.tokenizer, self.target.tokenizer
        chunk.fitting(both, self.account)  # for its tally, which counts them
        self._sources.extend(_hash(source) for source, _ in texts)
        self._pairs.extend(_hash(f"{source}\n{target}") for source, target in texts)
        for (source, target), ids, labels in islice(
            zip(texts, chunk.sources, chunk.targets, strict=True), SAMPLES - len(self.samples)
        ):
            tokens = self.source.tokenizer.tokens(ids)
            if self.source.tokenizer.signal:
                tokens = [source, f"({len(ids)} steps, the last at {tokens[-1]})"]
            self.samples.append(Sample(source, target, tuple(tokens), tuple(self.target.tokenizer.tokens(labels))))

    def result(self, train: _Gathering) -> SplitSurvey:
        """The statistics of the split. ``train`` is the gathering of the training set, to find what also
        occurs there.
        """
        return SplitSurvey(
            tally=self.account.tally,
            source=self.source.result(),
            target=self.target.result(),
            duplicates=len(self.pairs) - len(np.unique(self.pairs)),
            seen_pairs=0 if self is train else int(np.isin(self.pairs, train.pairs).sum()),
            seen_sources=0 if self is train else int(np.isin(self.sources, train.sources).sum()),
            samples=tuple(self.samples),
        )


@dataclass
class _SideGathering:
    tokenizer: Tokenizer
    characters: array[int] = field(default_factory=lambda: array("q"))
    tokens: array[int] = field(default_factory=lambda: array("q"))
    special: int = 0

    def add(self, texts: Sequence[str], ids: Sequence[Sized]) -> None:
        self.characters.extend(map(len, texts))
        self.tokens.extend(map(len, ids))
        if not self.tokenizer.numeric:  # where 3 is a number like another
            self.special += sum(any(name in text for name in SPECIALS) for text in texts)

    def result(self) -> SideSurvey:
        characters, tokens = np.array(self.characters, np.int64), np.array(self.tokens, np.int64)
        return SideSurvey(Lengths.of(characters), Lengths.of(tokens), self.tokenizer.signal, self.special)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
