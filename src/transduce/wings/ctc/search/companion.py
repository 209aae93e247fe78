"""A language model for a search that goes frame by frame. N = B * K rows, V vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import AnyAutoregressive, Autoregressive, S
from transduce.core.types import BOS, PAD, Padded
from transduce.search.base import EXCLUDED
from transduce.search.reading import capacity, step


@dataclass(frozen=True)
class Companion:
    """A language model's state after K prefixes of each of B sources, and its log-probabilities.

    ``total_BK`` has the log-probabilities of the prefixes without EOS. ``next_BKV`` has the log-probability of each
    next token. Both are zeros without a language model. Prefixes have different lengths, so a row reads a token only
    when the search extends its prefix.
    """

    model: AnyAutoregressive | None
    state: object
    total_BK: Tensor
    next_BKV: Tensor

    @staticmethod
    def start(model: Autoregressive[S] | None, source: Padded, size: int, vocabulary: int) -> Companion:
        """Starts with ``size`` empty prefixes for each source. Raises UserError if the language model does not have
        ``vocabulary`` words.
        """
        first = tree.leaves(source)[0]
        B, device = first.shape[0], first.device
        total_BK = torch.zeros(B, size, dtype=torch.float64, device=device)
        if model is None:
            return Companion(None, None, total_BK, total_BK.new_zeros(1, 1, 1).expand(B, size, vocabulary))
        # one source per row, because rows leave one by one, and ``tree.Shared`` needs as many rows for each source
        rows_N = torch.arange(B, device=device).repeat_interleave(size)
        state = model.start(tree.select(source, rows_N))
        next_NV, state = step(model, torch.full_like(rows_N, BOS), state)
        if next_NV.shape[1] != vocabulary:
            raise UserError(
                f"a language model of {next_NV.shape[1]} words cannot go along with frames of {vocabulary}: they must "
                "share one target vocabulary"
            )
        return Companion(model, state, total_BK, next_NV.double().clamp(min=EXCLUDED).view(B, size, -1))

    def chosen(self, origin_BK: Tensor, token_BK: Tensor, longest: int) -> Companion:
        """The state for the next beam.

        Place k of source b continues the prefix ``origin_BK`` (0 to K - 1, of the same source) and reads ``token_BK``,
        unless this is PAD. ``longest`` is the length of the longest prefix after this.
        """
        if self.model is None:
            return self
        B, K = origin_BK.shape
        rows_N = (torch.arange(B, device=origin_BK.device)[:, None] * K + origin_BK).flatten()
        token_N = token_BK.flatten()
        next_NV = self.next_BKV.flatten(0, 1)[rows_N]
        total_N = self.total_BK.flatten()[rows_N]
        state = tree.select(self.state, rows_N)
        written_M = (token_N != PAD).nonzero()[:, 0]
        if len(written_M):
            total_N[written_M] += next_NV[written_M, token_N[written_M]]
            state = tree.reserve(state, capacity(1 + longest))
            read_MV, read = step(self.model, token_N[written_M], tree.select(state, written_M))
            next_NV[written_M] = read_MV.double().clamp(min=EXCLUDED)
            place_N = torch.arange(len(rows_N), device=rows_N.device)
            place_N[written_M] = len(rows_N) + torch.arange(len(written_M), device=rows_N.device)
            state = tree.select(tree.join([state, read]), place_N)
        return Companion(self.model, state, total_N.view(B, K), next_NV.view(B, K, -1))
