"""A filter that allows only words of the source, in its order. N rows, S source positions, T tokens, V vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.types import BOS, PAD, Padded, real_mask
from transduce.search.base import Decoding


@dataclass(frozen=True)
class Reading:
    """The source ids of each row [N, S], with PAD after their end, and the number [N] of source positions up to the
    last copied one.
    """

    id_NS: Tensor
    passed_N: Tensor


@dataclass(frozen=True)
class Subsequence:
    """Allows only outputs that are their source without some of its tokens: compression by deletion.

    Each token is a token of the source after the last copied one. A written token is matched with its first occurrence
    there, so that no such output is excluded. The end is always allowed. Tokens of a forced prefix that the source does
    not have are skipped. Both sides need the same vocabulary (``data.units.joint``). Raises UserError for other
    vocabularies, and for a source that is no sequence of ids.
    """

    def with_vocabularies(self, source: Decoding, target: Decoding) -> Subsequence:
        if source.entries != target.entries:
            raise UserError(
                'the filter "subsequence" compares ids of both sides, and their vocabularies differ: learn one '
                "vocabulary for both (data.units.joint), or remove the filter from search.filters"
            )
        return self

    def start(self, source: Padded) -> Reading:
        if not isinstance(source, Padded) or source.values.is_floating_point() or source.values.ndim != 2:
            raise UserError('the filter "subsequence" copies tokens of a source, and this source has no tokens')
        real_BS = real_mask(source.lengths, source.values.shape[1])
        return Reading(source.values.masked_fill(~real_BS, PAD), torch.zeros_like(source.lengths))

    def extend(self, tokens_NT: Tensor, state: Reading) -> Reading:
        place_S = torch.arange(state.id_NS.shape[1], device=tokens_NT.device)
        passed_N = state.passed_N
        for token_N in tokens_NT.unbind(1):
            found_NS = (state.id_NS == token_N[:, None]) & (place_S >= passed_N[:, None])
            passed_N = torch.where(found_NS.any(1), found_NS.byte().argmax(1) + 1, passed_N)
        return Reading(state.id_NS, passed_N)

    def __call__(self, scores_NV: Tensor, state: Reading) -> Tensor:
        place_S = torch.arange(state.id_NS.shape[1], device=scores_NV.device)
        open_NS = state.id_NS.masked_fill(place_S < state.passed_N[:, None], PAD)
        allowed_NV = torch.zeros_like(scores_NV, dtype=torch.bool).scatter_(1, open_NS, True)
        allowed_NV[:, [PAD, BOS]] = False
        return scores_NV.masked_fill_(~allowed_NV, float("-inf"))
