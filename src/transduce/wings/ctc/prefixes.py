"""CTC token by token: the sum over all alignments of outputs with a given prefix.

Graves 2008, section 7.5.2; Watanabe et al. 2017, algorithm 2. B sources, K prefixes of each, N = B * K, S frames, T
tokens, V symbols.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.types import BOS, EOS, PAD, Padded

HARDLY = -1e5  # log-probability of an impossible event; finite, so that what follows an impossible prefix is defined


@dataclass(frozen=True)
class Frames:
    """Log-probabilities [B, S, V] of the symbols in each frame, their exponentials (``probabilities``), and the number
    of real frames [B].

    Both are float64, because sums over frames are differences of longer sums.
    """

    log_probs: Tensor
    probabilities: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class Prefixes:
    """A prefix of an output in each of N rows, and the sums over its alignments.

    ``last`` [N] is its last token, or BOS. ``symbol`` and ``blank`` [N, S + 1] are the log-sums over all alignments of
    the first t frames, t = 0 to S, that give exactly the prefix. ``symbol`` sums those that end with its last symbol,
    ``blank`` those that end with a blank.
    """

    frames: tree.Shared[Frames]
    last: Tensor
    symbol: Tensor
    blank: Tensor

    @staticmethod
    def start(frames: Padded) -> Prefixes:
        """The empty prefix of each source, whose alignments are blanks only. ``frames`` are log-probabilities [B, S,
        V].
        """
        log_probs_BSV = frames.values.double()
        blank_BS = _behind(log_probs_BSV[..., PAD].cumsum(1), 0.0)
        last_B = torch.full_like(frames.lengths, BOS)
        shared = tree.Shared(Frames(log_probs_BSV, log_probs_BSV.exp(), frames.lengths))
        return Prefixes(shared, last_B, torch.full_like(blank_BS, HARDLY), blank_BS)

    def extend(self, tokens_NT: Tensor) -> tuple[Tensor, Prefixes]:
        """Reads the tokens [N, T]. Returns the log-probabilities [N, T, V] of the token after each of them, given the
        prefix up to it, and the new prefixes.

        Column EOS is the log-probability that no token follows. BOS as input does not change a prefix.
        """
        prefixes, every = self, []
        for token_N in tokens_NT.unbind(1):
            prefixes = prefixes._longer(token_N)
            every.append(prefixes)
        return _following(every), prefixes

    @property
    def total(self) -> Tensor:
        """[N, S + 1]: the log-sum over all alignments of the first t frames (0 to S) that give exactly the prefix."""
        return torch.logaddexp(self.symbol, self.blank)

    def log_probs(self, token_N: Tensor) -> Tensor:
        """[N, S]: the log-probability of one token in each frame of its source."""
        log_probs_BSV = self.frames.value.log_probs
        B, S, _ = log_probs_BSV.shape
        token_BKS1 = token_N.view(B, -1, 1, 1).expand(-1, -1, S, -1)
        every_BKSV = log_probs_BSV[:, None].expand(-1, token_BKS1.shape[1], -1, -1)
        return every_BKSV.gather(3, token_BKS1).view(token_N.shape[0], S)

    def _longer(self, token_N: Tensor) -> Prefixes:
        """Extends each prefix by one token [N], without change to this object. BOS does not change a prefix.

        The token may begin in any frame, if the prefix ended before it. If it equals the last token, a blank must lie
        between them. Once begun, it may stay for any number of frames: x_t = (x_t-1 + begun_t) p_t. A cumulative sum
        solves this linear recurrence.
        """
        log_prob_NS = self.log_probs(token_N)
        ready_NS = torch.where((token_N == self.last)[:, None], self.blank, self.total)[:, :-1]
        through_NS = log_prob_NS.cumsum(1)
        symbol_NS = (ready_NS - through_NS + log_prob_NS).logcumsumexp(1) + through_NS
        symbol_NS = _behind(symbol_NS, HARDLY)
        through_NS = self.log_probs(torch.full_like(token_N, PAD)).cumsum(1)
        before_NS = _behind(through_NS[:, :-1], 0.0)
        blank_NS = _behind((symbol_NS[:, :-1] - before_NS).logcumsumexp(1) + through_NS, HARDLY)
        same_N1 = (token_N == BOS)[:, None]
        return replace(
            self,
            last=torch.where(same_N1[:, 0], self.last, token_N),
            symbol=torch.where(same_N1, self.symbol, symbol_NS),
            blank=torch.where(same_N1, self.blank, blank_NS),
        )


def _following(every: list[Prefixes]) -> Tensor:
    """Log-probabilities [N, T, V] of the next token, given each of T successive prefixes. Column EOS is the end.

    They are a softmax of log-sums over all outputs that begin with the prefix and a token, or, in column EOS, equal the
    prefix. PAD, BOS and, after an impossible prefix, all tokens except EOS get very low finite values.
    """
    frames = every[0].frames.value
    B, S, V = frames.probabilities.shape
    total_NTS, blank_NTS = (torch.stack(each, 1) for each in zip(*((p.total, p.blank) for p in every), strict=True))
    last_NT = torch.stack([prefixes.last for prefixes in every], 1)
    N, T = last_NT.shape
    lengths_N = frames.lengths.repeat_interleave(N // B)
    end_NT1 = total_NTS.gather(2, lengths_N[:, None, None].expand(N, T, 1))
    past_N1S = (torch.arange(S, device=lengths_N.device) >= lengths_N[:, None])[:, None]
    ready_NTS = total_NTS[..., :-1].masked_fill(past_N1S, float("-inf"))
    most_NT1 = ready_NTS.amax(-1, keepdim=True).detach()
    # a product of the largest probabilities; exact down to e^-700, like a sum of logarithms
    tiny = torch.finfo(ready_NTS.dtype).tiny
    sums_NTV = ((ready_NTS - most_NT1).exp().view(B, -1, S) @ frames.probabilities).view(N, T, V)
    log_sums_NTV = sums_NTV.clamp(min=tiny).log() + most_NT1
    repeated_NTS = torch.stack([prefixes.log_probs(prefixes.last) for prefixes in every], 1)
    again_NTS = (blank_NTS[..., :-1] + repeated_NTS).masked_fill(past_N1S, float("-inf"))
    log_sums_NTV = log_sums_NTV.scatter(2, last_NT[..., None], again_NTS.logsumexp(-1, keepdim=True))
    ids_V = torch.arange(V, device=last_NT.device)
    never_V = (ids_V == PAD) | (ids_V == BOS)
    beyond_NTV = (torch.maximum(most_NT1, end_NT1) < HARDLY / 2) & (ids_V != EOS)
    closed_NTV = never_V | beyond_NTV
    log_sums_NTV = torch.where(ids_V == EOS, end_NT1, log_sums_NTV.masked_fill(closed_NTV, float("-inf")))
    # finite for smoothed and mixed losses; too small for an average over one more token to compensate
    log_p_NTV = log_sums_NTV.log_softmax(-1)
    impossible_NTV = beyond_NTV | (log_p_NTV < HARDLY / 2) & ~never_V
    return log_p_NTV.masked_fill(never_V, math.log(tiny)).masked_fill(impossible_NTV, HARDLY)


def _behind(x_NS: Tensor, first: float) -> Tensor:
    """[N, S + 1]: puts a column of the value ``first`` before the columns of x [N, S]."""
    return torch.nn.functional.pad(x_NS, (1, 0), value=first)
