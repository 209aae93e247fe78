"""Counts n-grams in chunks, so that memory does not grow with the length of the text.

N sequences, W words, M n-grams of one order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import IO

import numpy as np
from numpy.typing import NDArray

from transduce.compute.cluster import AnyWorkers
from transduce.wings.counted.ngrams import Ids, Truths

CHUNK = 2**20  # words of the text at a time
PART = 2**22  # words that a worker counts at a time


@dataclass(frozen=True)
class Sequences:
    """N sequences of words in one flat array, which may be mapped from a file.

    Sequence n is ``flat[offsets[n]:offsets[n + 1]] - shift``. Its last item stands for its end, and may have any value.
    """

    flat: NDArray[np.integer]
    offsets: Ids
    shift: int = 0

    @classmethod
    def of(cls, rows: Sequence[Ids]) -> Sequences:
        """Makes ``Sequences`` of arrays that have no item for their ends: adds one to each."""
        offsets = np.cumsum([0, *(len(row) + 1 for row in rows)])
        flat = np.zeros(offsets[-1], np.int64)
        own = np.ones(len(flat), bool)
        own[offsets[1:] - 1] = False
        flat[own] = np.concatenate([np.zeros(0, np.int64), *rows])
        return cls(flat, offsets)

    @property
    def total(self) -> int:
        """The number of words of all sequences, with one end and one begin for each."""
        return int(self.offsets[-1]) + len(self.offsets) - 1

    def divided(self, tokens: int) -> Iterator[Sequences]:
        """Yields the sequences in order, in parts of about ``tokens`` words, as arrays in memory."""
        bounds = np.unique(np.searchsorted(self.offsets, np.arange(0, self.offsets[-1] + tokens, tokens)))
        for first, stop in pairwise(bounds.clip(max=len(self.offsets) - 1)):
            if first < stop:
                begin, end = self.offsets[first], self.offsets[stop]
                yield Sequences(np.array(self.flat[begin:end]), self.offsets[first : stop + 1] - begin, self.shift)

    def chunks(self, words: int) -> Iterator[tuple[Ids, Ids]]:
        """Yields the text in chunks of whole sequences, about ``CHUNK`` words each: the words of the text, and the
        place of each word in its sequence, counted from its begin (0).

        Each sequence has a begin (the word ``words`` + 1) before it and an end (the word ``words``) after it.
        """
        sizes = self.offsets + np.arange(len(self.offsets))
        bounds = np.unique(np.searchsorted(sizes, np.arange(0, self.total + CHUNK, CHUNK)).clip(max=len(sizes) - 1))
        for first, stop in pairwise(bounds):
            starts, lengths = sizes[first:stop] - sizes[first], np.diff(self.offsets[first : stop + 1])
            text = np.full(int(sizes[stop] - sizes[first]), words + 1, np.int64)
            inner = np.ones(len(text), bool)
            inner[starts] = False
            text[inner] = self.flat[self.offsets[first] : self.offsets[stop]]
            text[inner] -= self.shift
            text[starts + lengths] = words
            yield text, np.arange(len(text)) - np.repeat(starts, lengths + 1)


@dataclass(frozen=True)
class Counts:
    """The n-grams of each order by key (``NGrams.keys``): their suffixes, their counts, and whether they begin a
    sequence.

    An n-gram that begins a sequence has no predecessor. The first array of ``suffixes`` is for the empty n-gram.
    """

    keys: list[Ids] = field(default_factory=list)
    suffixes: list[Ids] = field(default_factory=list)
    counts: list[Ids] = field(default_factory=list)
    first: list[Truths] = field(default_factory=list)


def count(sequences: Sequences, words: int, order: int) -> Counts:
    """Counts all n-grams of up to ``order`` words.

    The text is read once or twice for each order. Which shorter n-gram ends at each place is kept in a temporary file,
    8 bytes for each word of the text. The memory is a constant for each word of ``CHUNK``, and 40 bytes for each
    different n-gram: 16 for its key and count, and the rest while another chunk is added.
    """
    W = words + 2
    every = np.arange(W)  # of one word there is each, seen or not
    seen = np.zeros(W, np.int64)
    found = Counts([every], [np.zeros(1, np.int64), np.zeros(W, np.int64)], [seen], [every == W - 1])
    known, before = 1 + W, 1  # the number of n-grams so far, and the index of the first of the order before
    with _Scratch() as shorter:
        for text, _ in sequences.chunks(words):
            seen += np.bincount(text, minlength=W)
            shorter.write(1 + text)
        for n in range(2, order + 1):
            keys, counts = _of_order(sequences, words, n, shorter)
            parent, word = np.divmod(keys, W)
            suffix = found.suffixes[n - 1][parent - before]
            found.suffixes.append(before + np.searchsorted(found.keys[n - 2], suffix * W + word))
            found.keys.append(keys)
            found.counts.append(counts)
            found.first.append(found.first[n - 2][parent - before])
            if n < order:
                _lengthen(sequences, words, n, shorter, keys, known)
            known, before = known + len(keys), known
    return found


def count_by(workers: AnyWorkers, sequences: Sequences, words: int, order: int) -> Counts:
    """The result of ``count``, from parts of the text that workers count. Their counts are added here."""
    parts = ((part, words, order) for part in sequences.divided(PART))
    return reduce(lambda found, more: merged((found, more), words), workers(_counted, parts))


def _counted(_: None, job: tuple[Sequences, int, int]) -> Counts:
    return count(*job)


def merged(parts: Sequence[Counts], words: int) -> Counts:
    """Adds the counts of the parts of a text. Each part has whole sequences. Equal to ``count`` of the whole text.

    The number of an n-gram in a part is changed to its number in the whole, order by order: a key has the number of its
    parent, which is one word shorter.
    """
    W = words + 2
    found = Counts(
        [parts[0].keys[0]], [*parts[0].suffixes[:2]], [_sum(part.counts[0] for part in parts)], [parts[0].first[0]]
    )
    known, before = 1 + W, 1
    own_before, numbers = [1] * len(parts), [np.arange(W) + 1] * len(parts)  # of each part's n-grams of the last order
    for n in range(1, len(parts[0].keys)):
        translated = []
        for part, first, number in zip(parts, own_before, numbers, strict=True):
            parent, word = np.divmod(part.keys[n], W)
            translated.append(number[parent - first] * W + word)
        keys, place = np.unique(np.concatenate(translated), return_inverse=True)
        counts = np.bincount(place, np.concatenate([part.counts[n] for part in parts]), len(keys)).astype(np.int64)
        parent, word = np.divmod(keys, W)
        suffix = found.suffixes[n][parent - before]
        found.suffixes.append(before + np.searchsorted(found.keys[n - 1], suffix * W + word))
        found.first.append(found.first[n - 1][parent - before])
        found.keys.append(keys)
        found.counts.append(counts)
        numbers = [known + np.searchsorted(keys, each) for each in translated]
        own_before = [first + len(part.keys[n - 1]) for part, first in zip(parts, own_before, strict=True)]
        known, before = known + len(keys), known
    return found


def _sum(counts: Iterable[Ids]) -> Ids:
    total: Ids = np.sum(list(counts), axis=0, dtype=np.int64)
    return total


def _of_order(sequences: Sequences, words: int, n: int, shorter: _Scratch) -> tuple[Ids, Ids]:
    """The keys of the n-grams of ``n`` words, ascending, and their counts."""
    keys, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for (text, place), ends in zip(sequences.chunks(words), shorter, strict=True):
        there = np.flatnonzero(place >= n - 1)
        here: Ids = ends[there - 1] * (words + 2) + text[there]
        new, amount = np.unique(here, return_counts=True)
        at = keys.searchsorted(new)
        old: Truths = np.append(keys, -1)[at] == new  # a place at the end has no key
        counts[at[old]] += amount[old]
        at, new, amount = at[~old], new[~old], amount[~old]
        keys, counts = np.insert(keys, at, new), np.insert(counts, at, amount)
    return keys, counts


def _lengthen(sequences: Sequences, words: int, n: int, shorter: _Scratch, keys: Ids, known: int) -> None:
    """Writes to ``shorter``, for each place, the n-gram of ``n`` words that ends there, instead of the shorter one."""
    for (text, place), ends in zip(sequences.chunks(words), shorter, strict=True):
        there = np.flatnonzero(place >= n - 1)
        longer = np.zeros(len(text), np.int64)
        longer[there] = known + np.searchsorted(keys, ends[there - 1] * (words + 2) + text[there])
        shorter.write(longer)


class _Scratch:
    """Chunks of numbers in a temporary file: reads all of them in order, and writes others of the same sizes in their
    places. Iteration may write each chunk after it was read.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._sizes, self._written = list[int](), 0

    def __enter__(self) -> _Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, numbers: Ids) -> None:
        if self._written == len(self._sizes):
            self._sizes.append(len(numbers))
        self._file.seek(8 * sum(self._sizes[: self._written]))
        self._file.write(np.ascontiguousarray(numbers, np.int64).data)
        self._written += 1

    def __iter__(self) -> Iterator[Ids]:
        self._written = 0
        begin = 0
        for size in self._sizes:
            self._file.seek(begin)
            yield np.frombuffer(self._file.read(8 * size), np.int64)
            begin += 8 * size
