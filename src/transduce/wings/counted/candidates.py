"""The distribution over a list of candidate outputs of each source, token by token.

B sources, K hypotheses of each, N = B * K rows; T tokens, V target vocabulary, C candidates of a source, L tokens of a
candidate with EOS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from transduce.core.tree import Shared
from transduce.core.types import BOS, PAD


@dataclass(frozen=True)
class Candidates:
    """The candidates of each source, ``token_BCL`` with PAD at the end, and their probabilities ``chance_BC``."""

    token_BCL: Tensor
    chance_BC: Tensor


@dataclass(frozen=True)
class CandidateState:
    """Which candidates begin with the tokens so far: ``alive_NC``. ``length_N`` is the number of these tokens."""

    alive_NC: Tensor
    length_N: Tensor
    candidates: Shared[Candidates]


def begin(found: Sequence[tuple[Tensor, Tensor]]) -> CandidateState:
    """The state before the first token. ``found`` has the candidates [C, L] of each source, with PAD at the end, and
    their probabilities [C].
    """
    token_CLs, chance_Cs = zip(*found, strict=True)
    C, L = (max(tokens.shape[axis] for tokens in token_CLs) for axis in (0, 1))
    token_BCL = torch.stack([nn.functional.pad(t, (0, L - t.shape[1], 0, C - t.shape[0])) for t in token_CLs])
    chance_BC = torch.stack([nn.functional.pad(c, (0, C - c.shape[0])) for c in chance_Cs])
    length_B = token_BCL.new_zeros(len(token_BCL))
    return CandidateState(chance_BC > 0, length_B, Shared(Candidates(token_BCL, chance_BC)))


def extend(tokens_NT: Tensor, state: CandidateState, vocabulary: int, escape: float) -> tuple[Tensor, CandidateState]:
    """[N, T, V]: log p(next token | tokens so far, source) after each of the tokens, and the state after them.

    With probability ``escape`` the next token is drawn evenly from all tokens except PAD and BOS, and not from the
    candidates. So no token is impossible. BOS as a token changes nothing.
    """
    outputs = []
    for token_N in tokens_NT.unbind(1):
        state = _written(token_N, state)
        outputs.append(_log_probs(state, vocabulary, escape))
    return torch.stack(outputs, 1), state


def _log_probs(state: CandidateState, vocabulary: int, escape: float) -> Tensor:
    """[N, V]: log p(next token | tokens so far, source)."""
    next_NC, chance_NC = _next(state)
    chance_NV = chance_NC.new_zeros(len(next_NC), vocabulary)
    chance_NV.scatter_add_(1, next_NC, chance_NC * state.alive_NC)
    total_N1 = chance_NV.sum(1, keepdim=True)
    escaped_V = torch.full_like(chance_NV[0], 1 / (vocabulary - 2))
    escaped_V[[PAD, BOS]] = 0.0
    mixed_NV = (1 - escape) * chance_NV / total_N1 + escape * escaped_V
    return torch.where(total_N1 > 0, mixed_NV, escaped_V).log()


def _next(state: CandidateState) -> tuple[Tensor, Tensor]:
    """[N, C] twice: the token of each candidate after the tokens so far, PAD if it has no more; and its probability."""
    candidates, N = state.candidates.value, len(state.length_N)
    token_NCL = candidates.token_BCL.repeat_interleave(N // len(candidates.token_BCL), 0)
    chance_NC = candidates.chance_BC.repeat_interleave(N // len(candidates.chance_BC), 0)
    longest = token_NCL.shape[2]
    place_NC1 = state.length_N.clamp(max=longest - 1)[:, None, None].expand(*token_NCL.shape[:2], 1)
    next_NC = token_NCL.gather(2, place_NC1)[..., 0]
    return next_NC.masked_fill((state.length_N >= longest)[:, None], PAD), chance_NC


def _written(token_N: Tensor, state: CandidateState) -> CandidateState:
    """The state after a token. BOS changes nothing."""
    next_NC, _ = _next(state)
    begins_N1 = (token_N == BOS)[:, None]
    alive_NC = state.alive_NC & (begins_N1 | ((next_NC == token_N[:, None]) & (next_NC != PAD)))
    return replace(state, alive_NC=alive_NC, length_N=state.length_N + ~begins_N1[:, 0])
