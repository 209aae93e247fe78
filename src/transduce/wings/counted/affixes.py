"""Label probabilities from the first or last pieces of words. N words, C pieces each, L labels, M affixes.

An affix is a number. 0 is the empty affix; then come the affixes of one piece, of two pieces, and so on. An affix is
identified by its parent (the affix without its last piece) and its last piece.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transduce.core.types import PAD
from transduce.models.tables import check, check_ascending, check_rows
from transduce.training.counted import empty

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]


class Affixes(nn.Module):
    """log p(label | first pieces of a word), or the last pieces if words are given in reverse.

    Uses successive abstraction: p(l | a) = (c(a, l) + s p(l | a without its last piece)) / (c(a) + s), with a strength
    s (Samuelsson 1993; Brants 2000 has other weights). The longest counted affix decides.
    """

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.keys = empty(torch.long)  # of affixes 1 to M - 1, ascending within a length
        self.bounds = empty(torch.long)  # where the affixes of each length begin among them, and where the last end
        self.log_prob = empty(torch.float32, labels)  # [M, L]

    def learn(self, pieces_NC: Ids, counts_NL: Numbers, prior_L: Numbers, strength: float) -> None:
        """Learns from words, in place. ``pieces_NC`` are rows of pieces padded with PAD at the end, and ``counts_NL``
        the count of each label for each word.

        ``prior_L`` is p(label) of the empty affix before counting. ``strength`` is s. Affixes have at most C pieces.
        Affixes that occur once are dropped, because they add nothing to shorter ones.
        """
        alphabet = int(pieces_NC.max(initial=0)) + 1
        total = counts_NL.sum(0)
        tables = [((total + strength * prior_L) / (total.sum() + strength))[None]]
        keys, bounds = [np.array([alphabet])], [1]  # the alphabet comes first: a key that no affix has
        affix_N, first = np.zeros(len(pieces_NC), np.int64), 0
        for piece_N in pieces_NC.T:
            going_N = (piece_N != PAD) & (affix_N >= 0)
            key_N = affix_N * alphabet + piece_N
            key_M, number_N = np.unique(key_N[going_N], return_inverse=True)
            counts_ML = np.zeros((len(key_M), counts_NL.shape[1]))
            np.add.at(counts_ML, number_N, counts_NL[going_N])
            kept_M = counts_ML.sum(1) > 1
            if not kept_M.any():
                break
            parent_M = key_M[kept_M] // alphabet - first
            counts_ML = counts_ML[kept_M]
            tables.append((counts_ML + strength * tables[-1][parent_M]) / (counts_ML.sum(1, keepdims=True) + strength))
            first += len(tables[-2])
            renumbered_M = np.where(kept_M, first + kept_M.cumsum() - 1, -1)
            after_N = np.full(len(pieces_NC), -1)
            after_N[going_N] = renumbered_M[number_N]
            affix_N = after_N
            keys.append(key_M[kept_M])
            bounds.append(bounds[-1] + len(keys[-1]))
        values = {"keys": np.concatenate(keys), "bounds": np.array(bounds), "log_prob": np.log(np.concatenate(tables))}
        for name, value in values.items():
            parameter = getattr(self, name)
            parameter.data = torch.from_numpy(value).to(parameter)

    def check_tables(self) -> None:
        count = len(self.log_prob)
        check_rows(count, {"keys": self.keys})
        if not count:
            check_rows(0, {"bounds": self.bounds})
            return
        check(len(self.bounds) > 0 and int(self.bounds[0]) == 1, "bounds", "1 as the first number")
        check(int(self.bounds[-1]) == count, "bounds", f"{count} as the last number")
        check_ascending("bounds", self.bounds)
        check(int(self.keys[0]) >= 1, "keys", "an alphabet of one piece or more")

    def forward(self, pieces_NC: Tensor) -> Tensor:
        """[N, L]: log p(label) for each word, from the longest affix of its ``pieces_NC`` that was counted."""
        alphabet, affix_N = self.keys[0], pieces_NC.new_zeros(len(pieces_NC))
        going_N = torch.ones_like(affix_N, dtype=torch.bool)
        bounds = self.bounds.tolist()
        for piece_N, begin, end in zip(pieces_NC.unbind(1), bounds, bounds[1:], strict=False):
            key_N = affix_N * alphabet + piece_N
            place_N = torch.searchsorted(self.keys[begin:end], key_N).clamp(max=end - begin - 1) + begin
            going_N = going_N & (piece_N != PAD) & (piece_N < alphabet) & (self.keys[place_N] == key_N)
            affix_N = torch.where(going_N, place_N, affix_N)
        return self.log_prob[affix_N]
