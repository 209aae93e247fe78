"""Encoded pairs on disk: memory-mapped .npy files of flat ids, numbers or steps, with int64 offsets.

Loading maps the files and does not read them into memory; a batch copies its own rows. Signals are stored in half
precision (float16: eleven bits) and returned as float32. This halves the disk space and the reading time of each epoch.
The relative error is at most one part in 2,000, less than one of a pixel's 256 shades.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from types import TracebackType

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.core.types import PAD, Batch, Padded
from transduce.data.tokenizers.base import Rows, Tokenizer

Array = np.ndarray
CORPORA = "corpora.npy"  # the number of pairs of each corpus


class Ragged:
    """N rows of unequal length in two flat arrays. Rows consist of ids, of numbers, or of steps [D]. Row n is
    ``ids[offsets[n]:offsets[n + 1]]``.

    ``ids`` [total] or [total, D] has all rows one after the other; ``offsets`` is [N + 1].
    """

    def __init__(self, ids: Array, offsets: Array) -> None:
        self.ids, self.offsets = ids, offsets

    @classmethod
    def load(cls, folder: Path, side: str) -> Ragged:
        """Maps the files of one ``side`` ("source" or "target") that ``PairsWriter`` wrote into ``folder``."""
        files = (folder / f"{side}.ids.npy", folder / f"{side}.offsets.npy")
        ids, offsets = (np.load(file, mmap_mode="r", allow_pickle=False) for file in files)
        return cls(ids, offsets)

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """The length of each row, [N], as int32: the number of its ids or numbers, including EOS; for a signal the
        number of its steps.
        """
        return np.diff(self.offsets).astype(np.int32)

    def unclosed(self) -> list[Array]:
        """A list of all rows, copied as int64, without their last id, which is EOS. For rows of ids only."""
        return [self.ids[first : last - 1].astype(np.int64) for first, last in pairwise(self.offsets)]

    def select(self, rows_B: Array) -> Ragged:
        """The rows with the indices ``rows_B``, in this order, in memory."""
        starts_B, lengths_B = self.offsets[rows_B], self.lengths[rows_B].astype(np.int64)
        offsets = np.cumsum([0, *lengths_B])
        places = np.arange(offsets[-1]) + np.repeat(starts_B - offsets[:-1], lengths_B)
        return Ragged(np.array(self.ids[places]), offsets)

    def padded(self, rows_B: Array) -> Padded:
        """The rows with the indices ``rows_B``, in this order, as one tensor [B, S] (signals: [B, S, D]) with their
        lengths [B]. Ids are int64; numbers and steps are float32.

        S is the length of the longest of these rows; shorter rows end with PAD (0).
        """
        starts_B, lengths_B = self.offsets[rows_B], self.lengths[rows_B].astype(np.int64)
        places_S = np.arange(lengths_B.max(initial=0))
        real_BS = places_S < lengths_B[:, None]
        dtype = np.float32 if self.ids.dtype.kind == "f" else np.int64
        values_BS = np.full((*real_BS.shape, *self.ids.shape[1:]), PAD, dtype)
        values_BS[real_BS] = self.ids[(starts_B[:, None] + places_S)[real_BS]]
        return Padded(torch.from_numpy(values_BS), torch.from_numpy(lengths_B))


class Pairs:
    """Encoded pairs of a split. A pair is identified by its index in the split, from 0. Both sides end with EOS, except
    a signal.

    The split may consist of several corpora. Their pairs follow each other, and ``corpora`` has the number of pairs of
    each (default: all pairs are of one corpus).
    """

    def __init__(self, source: Ragged, target: Ragged, corpora: Sequence[int] | None = None) -> None:
        self.source, self.target = source, target
        self.corpora = (len(self),) if corpora is None else tuple(corpora)

    @classmethod
    def load(cls, folder: Path) -> Pairs:
        sides = Ragged.load(folder, "source"), Ragged.load(folder, "target")
        sizes = folder / CORPORA
        return cls(*sides, np.load(sizes, allow_pickle=False).tolist() if sizes.exists() else None)

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    @property
    def source_lengths(self) -> NDArray[np.int32]:
        return self.source.lengths

    @property
    def target_lengths(self) -> NDArray[np.int32]:
        return self.target.lengths

    def select(self, rows_B: Array) -> Pairs:
        """The pairs with these indices [B], in this order, in memory."""
        return Pairs(self.source.select(rows_B), self.target.select(rows_B))

    def in_turn(self, size: int) -> Iterator[Batch]:
        """Yields all pairs once, in file order, in batches of ``size`` pairs; the last one may be smaller."""
        for first in range(0, len(self), size):
            yield self.batch(np.arange(first, min(first + size, len(self))))

    def batch(self, ids: Array) -> Batch:
        """The pairs with these indices [B], in this order, as a padded batch."""
        rows_B = np.asarray(ids, np.int64)
        return Batch(self.source.padded(rows_B), self.target.padded(rows_B), torch.from_numpy(rows_B))


@dataclass(frozen=True)
class Flat:
    """Rows one after the other in one array, ``values`` [total] or [total, D], and their ``lengths`` [N]."""

    values: Array
    lengths: NDArray[np.int64]


@dataclass(frozen=True)
class RowType:
    """What rows consist of: values of ``dtype``, or steps of ``step`` such values."""

    dtype: np.dtype[np.generic]
    step: tuple[int, ...] = ()

    @classmethod
    def of_ids(cls, vocabulary: int) -> RowType:
        """Ids of a vocabulary: 2 bytes each up to 65,536 ids, otherwise 4."""
        return cls(np.dtype(np.uint16 if vocabulary <= 2**16 else np.int32))

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> RowType:
        """What the rows of a tokenizer consist of. Numbers have float32, the steps of a signal float16."""
        if tokenizer.signal:
            return cls(np.dtype(np.float16), (tokenizer.factors,))
        return cls(np.dtype(np.float32)) if tokenizer.numeric else cls.of_ids(len(tokenizer))


def flattened(rows: Rows, kind: RowType) -> Flat:
    """The rows in one array. Rows of steps are arrays [S, D]."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    if kind.step:
        return Flat(np.concatenate([*rows, np.zeros((0, *kind.step), kind.dtype)], dtype=kind.dtype), lengths)
    return Flat(np.fromiter(chain.from_iterable(rows), kind.dtype, int(lengths.sum())), lengths)


class PairsWriter:
    """Writes encoded pairs into a new folder, chunk by chunk. The files are complete when its ``with`` block ends.

    ``types`` says what the rows of source and target consist of. Raises FileExistsError if the folder exists.
    """

    def __init__(self, folder: Path, types: tuple[RowType, RowType]) -> None:
        folder.mkdir()
        self._folder, self._corpora = folder, [0]
        self._sides = [
            _RaggedWriter(folder, side, kind) for side, kind in zip(("source", "target"), types, strict=True)
        ]

    def append(self, sides: tuple[Flat, Flat]) -> None:
        """Adds pairs at the end: equally many rows of source and target."""
        for writer, rows in zip(self._sides, sides, strict=True):
            writer.append(rows)

    def end_corpus(self) -> None:
        """Tells that the next pairs belong to another corpus."""
        self._corpora.append(self._sides[1].rows)

    def __enter__(self) -> PairsWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for writer in self._sides:
            writer.close()
        if self._corpora[1:]:
            np.save(self._folder / CORPORA, np.diff(self._corpora))


class _RaggedWriter:
    def __init__(self, folder: Path, side: str, kind: RowType) -> None:
        self._ids = _ArrayWriter(folder / f"{side}.ids.npy", kind.dtype, kind.step)
        self._offsets = _ArrayWriter(folder / f"{side}.offsets.npy", np.dtype(np.int64))
        self._offsets.append(np.zeros(1, np.int64))

    def append(self, rows: Flat) -> None:
        offsets = self._ids.length + np.cumsum(rows.lengths)
        self._ids.append(rows.values)
        self._offsets.append(offsets)

    @property
    def rows(self) -> int:
        """The number of rows written so far."""
        return self._offsets.length - 1

    def close(self) -> None:
        self._ids.close()
        self._offsets.close()


class _ArrayWriter:
    """Writes a .npy file whose length is known only at the end.

    NumPy's header has room for any length, so it can be overwritten in place.
    """

    def __init__(self, path: Path, dtype: np.dtype[np.generic], step: tuple[int, ...] = ()) -> None:
        self.dtype, self.step, self.length = dtype, step, 0
        self._file = path.open("wb")
        self._header()

    def append(self, values: Array) -> None:
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.length += len(values)

    def close(self) -> None:
        self._file.seek(0)
        self._header()
        self._file.close()

    def _header(self) -> None:
        description = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.length, *self.step)}
        np.lib.format.write_array_header_1_0(self._file, description)
