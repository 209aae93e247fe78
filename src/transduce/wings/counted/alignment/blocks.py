"""Sentence pairs in blocks of similar lengths, padded on both sides.

N pairs, B pairs of a block, S source words, T target words, I = 1 + S source positions: first the null word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.core.types import PAD, Padded
from transduce.data.pairs import Ragged

Ids = NDArray[np.int64]

CELLS = 2**18  # B * T * I of a block, at most; a block of a single pair may have more


@dataclass(frozen=True)
class Sentences:
    """N sentences of token ids without EOS, in one array. Sentence n is ``ids[start_N[n] : start_N[n] +
    length_N[n]]``.
    """

    ids: NDArray[np.integer]
    start_N: Ids
    length_N: Ids

    @classmethod
    def of_ragged(cls, rows: Ragged) -> Sentences:
        return cls(np.asarray(rows.ids), np.asarray(rows.offsets[:-1], np.int64), rows.lengths.astype(np.int64) - 1)

    @classmethod
    def of_padded(cls, rows: Padded) -> Sentences:
        B, S = rows.values.shape
        return cls(rows.values.cpu().numpy().reshape(-1), S * np.arange(B), rows.lengths.cpu().numpy() - 1)

    def padded(self, rows_B: Ids) -> Padded:
        """The sentences with the numbers ``rows_B``, in this order, padded with PAD at the end."""
        length_B = self.length_N[rows_B]
        place_T = np.arange(length_B.max(initial=0))
        real_BT = place_T < length_B[:, None]
        values_BT = np.full(real_BT.shape, PAD, np.int64)
        values_BT[real_BT] = self.ids[(self.start_N[rows_B][:, None] + place_T)[real_BT]]
        return Padded(torch.from_numpy(values_BT), torch.from_numpy(length_B))


@dataclass(frozen=True)
class Block:
    """Pairs with the numbers ``rows_B`` in their corpus: ``source`` and ``target`` words, without EOS."""

    rows_B: Ids
    source: Padded
    target: Padded

    @cached_property
    def real_BTS(self) -> Tensor:
        """[B, T, S]: True where both words are real, not padding."""
        return self.target.mask[..., None] & self.source.mask[:, None]

    def turned(self) -> Block:
        """The same pairs with source and target exchanged."""
        return Block(self.rows_B, self.target, self.source)

    def to(self, device: torch.device) -> Block:
        return Block(self.rows_B, self.source.to(device), self.target.to(device))


def blocks(source: Sentences, target: Sentences, rows: Ids | None = None, cells: int = CELLS) -> Iterator[Block]:
    """Yields the pairs with the numbers ``rows`` (None: all) in blocks, sorted by source length, then by target length.

    A block has at most ``cells`` cells B * T * I; only a block of a single pair may have more. Pairs with an empty side
    are left out: they have no words to link.
    """
    S_N, T_N = source.length_N, target.length_N
    order = np.arange(len(S_N)) if rows is None else rows
    order = order[np.minimum(S_N, T_N)[order] > 0]
    order = order[np.lexsort((T_N[order], S_N[order]))]
    while len(order):
        longest = np.maximum.accumulate(T_N[order])
        used = (1 + np.arange(len(order))) * longest * (1 + S_N[order])
        size = max(1, int(np.searchsorted(used, cells, side="right")))
        yield Block(order[:size], source.padded(order[:size]), target.padded(order[:size]))
        order = order[size:]
