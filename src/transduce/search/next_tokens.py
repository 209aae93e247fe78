"""The tokens that may come next: scored by the model, lowered by filters, and forced by a prefix or the maximum length.

N rows, B sources, N = B * K; V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.core.protocols import Autoregressive, S
from transduce.core.types import EOS, PAD, UNK, Padded
from transduce.search.base import Filters
from transduce.search.front import Front
from transduce.search.largest import highest, highest_log_probs
from transduce.search.reading import allowed_log_softmax, capacity, forbid_unknown, read_logits

STUCK = 1e6  # penalty of an end if filters forbid every token, so that this output ranks behind any other one


@dataclass(frozen=True)
class Next:
    """The candidates for the next token of each row: the model's log-probabilities [N, V], and the scores [N, V] that
    decide the choice. PAD, BOS and a forbidden UNK have minus infinity in both. The scores are the log-probabilities
    after the filters, the prefix and the maximum length.
    """

    log_probs_NV: Tensor
    scores_NV: Tensor

    def log_prob(self, token_N: Tensor) -> Tensor:
        """The log-probabilities [N] of these tokens, in float64."""
        return self.log_probs_NV.gather(1, token_N[:, None])[:, 0].double()


def advance(
    model: Autoregressive[S],
    filters: Filters,
    front: Front[S],
    places: Sequence[int],
    max_length: int | None = None,
    unknown: bool = False,
) -> tuple[Next, Front[S]]:
    """The model reads the token that each row wrote last. Returns the scores of the tokens that may come next, and the
    front with the model's new state.

    ``places`` are the positions of the next tokens, from 0: one for each source, or a single one for all. ``filters``
    are the first followers of ``front``; other followers come after them. Token number ``max_length`` of a row can only
    be EOS, even if a filter forbids it; None is no limit. If filters forbid every token of a row, EOS stays, with a
    penalty of ``STUCK``. If a prefix forces the next token of a row, only this token is allowed. UNK is forbidden
    unless ``unknown`` is True or a prefix forces it.
    """
    logits_NV, front = _next_logits(model, front, max(places))
    forced_N = _forced_tokens(front, places, max_length)
    return _next(allowed_log_softmax(logits_NV), filters, front.memories, forced_N, unknown), front


def advance_highest(
    model: Autoregressive[S],
    filters: Filters,
    front: Front[S],
    places: Sequence[int],
    max_length: int | None = None,
    unknown: bool = False,
) -> tuple[Tensor, list[tuple[int, float]], Front[S]]:
    """Like ``advance``, but returns only the token [N] with the highest score of each row. If scores are equal, it
    takes the first token. The list has each token with its log-probability.
    """
    logits_NV, front = _next_logits(model, front, max(places))
    forced_N = _forced_tokens(front, places, max_length)
    found = None if filters else highest_log_probs(logits_NV, forced_N, barred=None if unknown else UNK)
    if found is not None:
        token_N, log_prob_N = found
        return token_N, list(zip(token_N.tolist(), log_prob_N.tolist(), strict=True)), front
    following = _next(allowed_log_softmax(logits_NV), filters, front.memories, forced_N, unknown)
    score_N, token_N = highest(following.scores_NV)
    changed = following.scores_NV is not following.log_probs_NV
    log_prob_N = following.log_prob(token_N) if changed else score_N.double()
    # a step reads only this from the device, in one copy; float64 holds every id exactly
    read = torch.stack([token_N.double(), log_prob_N], 1).tolist()
    return token_N, [(int(token), log_prob) for token, log_prob in read], front


def _next_logits(model: Autoregressive[S], front: Front[S], longest: int) -> tuple[Tensor, Front[S]]:
    """The logits [N, V] of the next tokens, which the search may change, and the front with the model's new state."""
    if capacity(longest + 1) > front.reserved:
        front = front.reserve(longest + 1)
    logits_NV, state = read_logits(model, front.token_N.unsqueeze(1), front.state)
    return logits_NV, Front(front.token_N, state, front.memories, front.prefix, front.reserved)


def _next(
    log_probs_NV: Tensor, filters: Filters, memories: Sequence[object], forced_N: Tensor | None, unknown: bool
) -> Next:
    """The scores that ``advance`` describes, from log-probabilities with minus infinity for PAD and BOS."""
    scores_NV = log_probs_NV = log_probs_NV if unknown else forbid_unknown(log_probs_NV, forced_N)
    if filters:
        scores_NV = log_probs_NV.clone()
        for each, memory in zip(filters, memories, strict=False):
            scores_NV = each(scores_NV, memory)
        stuck_N = scores_NV.amax(-1) == float("-inf")
        scores_NV[:, EOS] = torch.where(stuck_N, log_probs_NV[:, EOS] - STUCK, scores_NV[:, EOS])
    if forced_N is not None:
        scores_NV = torch.where((forced_N != PAD)[:, None], _only(log_probs_NV, forced_N), scores_NV)
    return Next(log_probs_NV, scores_NV)


def _only(scores_NV: Tensor, token_N: Tensor) -> Tensor:
    """A copy of the scores [N, V] with every token of a row except ``token_N`` at minus infinity."""
    token_N1 = token_N[:, None]
    return torch.full_like(scores_NV, float("-inf")).scatter_(1, token_N1, scores_NV.gather(1, token_N1))


# ---------------------------------------------------------------- forced tokens


def _forced_tokens(front: Front[S], places: Sequence[int], max_length: int | None) -> Tensor | None:
    """The token [N] that each row must write next, by its prefix or by ``max_length``; PAD if it is free. None if all
    rows are free.
    """
    rows, device = len(front.token_N), front.token_N.device
    forced_N = None
    if max_length is not None and max(places) >= max_length - 1:
        last_B = torch.tensor(places, device=device) >= max_length - 1
        forced_N = _each_row(torch.where(last_B, EOS, PAD), rows)
    if front.prefix is not None and min(places) < front.prefix.value.values.shape[1]:
        token_N, begun_N = _prefix_tokens(front.prefix.value, places, rows)
        forced_N = token_N if forced_N is None else torch.where(begun_N, token_N, forced_N)
    return forced_N


def _prefix_tokens(prefix: Padded, places: Sequence[int], rows: int) -> tuple[Tensor, Tensor]:
    """The tokens [N] that the prefixes [B, T] force at ``places`` (from 0), and a mask [N] that is True for forced
    tokens. ``places`` has one position for each source, or a single one for all. The token is PAD after the end of a
    prefix. ``rows`` is N.
    """
    place_B = torch.tensor(places, device=prefix.lengths.device).expand_as(prefix.lengths)
    forced_B = prefix.lengths > place_B
    token_B = prefix.values.gather(1, place_B.clamp(max=prefix.values.shape[1] - 1)[:, None])[:, 0]
    return _each_row(token_B.where(forced_B, PAD), rows), _each_row(forced_B, rows)


def _each_row(value_B: Tensor, rows: int) -> Tensor:
    """Repeats a value for each source, or a single value, for each of the ``rows``."""
    return value_B.repeat_interleave(rows // len(value_B))
