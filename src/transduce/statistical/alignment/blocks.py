"""Sentence pairs in blocks: all sources of a block have the same number of words.

N pairs, B pairs of a block, S source words, I = 1 + S source positions with the null word first, T target positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.data.pairs import Ragged
from transduce.types import PAD, Padded, real_mask

Ids = NDArray[np.int64]

NULL = PAD  # the id of the null word, which stands before each source
CELLS = 2**20  # of a block: B * T * I, at most; a single long pair may have more


@dataclass(frozen=True)
class Words:
    """N sentences without EOS. Sentence n is ``ids[start_N[n] : start_N[n] + length_N[n]]``."""

    ids: NDArray[np.integer]
    start_N: Ids
    length_N: Ids

    @classmethod
    def of_ragged(cls, rows: Ragged) -> Words:
        return cls(np.asarray(rows.ids), np.asarray(rows.offsets[:-1], np.int64), rows.lengths.astype(np.int64) - 1)

    @classmethod
    def of_padded(cls, rows: Padded) -> Words:
        B, S = rows.values.shape
        return cls(rows.values.cpu().numpy().reshape(-1), S * np.arange(B), rows.lengths.cpu().numpy() - 1)

    def padded(self, rows_B: Ids) -> Tensor:
        """[B, T]: the sentences with these numbers, padded with PAD. T is the length of the longest."""
        length_B = self.length_N[rows_B]
        place_T = np.arange(length_B.max(initial=0))
        real_BT = place_T < length_B[:, None]
        values_BT = np.full(real_BT.shape, PAD, np.int64)
        values_BT[real_BT] = self.ids[(self.start_N[rows_B][:, None] + place_T)[real_BT]]
        return torch.from_numpy(values_BT)


@dataclass(frozen=True)
class Block:
    """Pairs with the numbers ``rows_B`` in their corpus.

    ``source_BI`` has the null word and then the S words of each source. ``target_BT`` is padded with PAD; the first
    ``length_B`` of each row are real.
    """

    rows_B: Ids
    source_BI: Tensor
    target_BT: Tensor
    length_B: Tensor

    @property
    def real_BT(self) -> Tensor:
        return real_mask(self.length_B, self.target_BT.shape[1])


def blocks(source: Words, target: Words, cells: int = CELLS) -> Iterator[Block]:
    """All pairs, grouped by the number of source words, with at most ``cells`` pairs of words in a block.

    Pairs whose target is empty have nothing to align, and are left out.
    """
    S_N, T_N = source.length_N, target.length_N
    order = np.lexsort((T_N, S_N))
    order = order[T_N[order] > 0]
    first = 0
    while first < len(order):
        S = S_N[order[first]]
        same = first + np.searchsorted(S_N[order[first:]], S, side="right")
        padded_cells = (1 + np.arange(same - first)) * T_N[order[first:same]] * (1 + S)
        last = first + max(1, int(np.searchsorted(padded_cells, cells, side="right")))
        rows_B = order[first:last]
        source_BI = torch.nn.functional.pad(source.padded(rows_B), (1, 0), value=NULL)
        yield Block(rows_B, source_BI, target.padded(rows_B), torch.from_numpy(T_N[rows_B]))
        first = last
