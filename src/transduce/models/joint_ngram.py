"""Joint n-gram models: p(x, y) as an n-gram model of units that have a source piece and a target piece.

B sources, K hypotheses of each, N = B * K rows; T tokens, V target vocabulary, E arcs and Q nodes of a lattice
(statistical/readings.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from transduce.data.pairs import Pairs
from transduce.errors import UserError
from transduce.statistical.back_off import BackOff
from transduce.statistical.cosegmentation import Cosegmentation
from transduce.statistical.counted import check_tokens, empty
from transduce.statistical.cut import Cut, cut
from transduce.statistical.kneser_ney import estimate
from transduce.statistical.readings import Reader, Readings
from transduce.tree import Shared
from transduce.types import BOS, EOS, PAD, Padded


@dataclass(frozen=True)
class JointState:
    """Probabilities given the tokens so far. ``next_NE``: that each arc is the next one that writes a token.
    ``ending_N``: that nothing more follows.

    All are 0 if no segmentation of the source that pruning kept writes these tokens.
    """

    next_NE: Tensor
    ending_N: Tensor
    readings: Shared[Readings]


class JointNgram(nn.Module):
    """p(y | x) = p(x, y) / p(x), where p(x, y) is the sum over all segmentations of the pair into units u.

    A segmentation has the probability prod_k p(u_k | u_k-n+1 ... u_k-1), and n is the ``order`` (Bisani and Ney 2008).

    A unit has one source token and up to ``target_tokens`` target tokens or none, or up to ``source_tokens`` source
    tokens and one target token. A pair cannot be cut if it has no source token, or more than ``target_tokens`` target
    tokens for each source token. Counting stops with an error if more than the share ``uncut`` of the pairs cannot be
    cut.

    Counted, not trained: expectation maximisation finds the units (Jiampojamarn et al. 2007), and modified Kneser-Ney
    smooths the n-grams of the best segmentations. Two limits prune the segmentations of a source. ``beam`` removes
    those whose log-probability (natural logarithm) is more than this below the best at the same place or at the end.
    ``width`` keeps that many of the best at each place. ``escape`` is the probability that the next token is in no
    segmentation. All tokens except PAD and BOS are then equally probable, so that none of them is impossible.
    ``readout`` returns log p.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        source_factors: int,
        order: int = 8,
        beam: float = 8.0,
        width: int = 100,
        escape: float = 1e-5,
        source_tokens: int = 2,
        target_tokens: int = 2,
        uncut: float = 0.05,
    ) -> None:
        super().__init__()
        if source_factors > 1:
            raise UserError(
                f"a joint n-gram model reads one id a token, and each step of the source has {source_factors}: set "
                "data.units.source to units of text without factors, such as characters"
            )
        for name, value, least in (
            ("order", order, 1),
            ("beam", beam, 0),
            ("width", width, 1),
            ("source_tokens", source_tokens, 1),
            ("target_tokens", target_tokens, 1),
        ):
            if not value >= least:
                raise UserError(f"{name} = {value}: at least {least} was expected")
        if not 0 < escape < 1:
            raise UserError(f"escape = {escape}: more than 0 and less than 1 was expected")
        if not 0 <= uncut <= 1:
            raise UserError(f"uncut = {uncut}: a share of the pairs was expected, from 0 to 1")
        self.order, self.beam, self.width, self.escape = order, beam, width, escape
        self.longest, self.uncut = (source_tokens, target_tokens), uncut
        self.target_vocabulary = target_vocabulary
        self.units = empty(torch.long, source_tokens + target_tokens)
        self.ngrams = BackOff()

    def counts(self, pairs: Pairs) -> JointCounts:
        return JointCounts(self, pairs)

    def start(self, source: Padded) -> JointState:
        if not len(self.units):
            raise UserError(
                "this joint n-gram model has not been counted: train it by itself, then mix it with others (RUN+RUN)"
            )
        readings = Reader(self.units, self.longest[0], self.ngrams, self.beam, self.width)(source)
        at_BKQ = torch.zeros_like(readings.ending_BQ)[:, None]
        at_BKQ[..., 0] = 1.0
        return _onward(at_BKQ, readings)

    def extend(self, tokens_BT: Tensor, state: JointState) -> tuple[Tensor, JointState]:
        outputs = []
        for token_N in tokens_BT.unbind(1):
            state = _written(token_N, state)
            outputs.append(self._log_probs(state))
        return torch.stack(outputs, 1), state

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone() if candidates is None else output.index_select(-1, candidates)

    def cut(self, source: Sequence[int], target: Sequence[int]) -> Cut | None:
        return cut(self.units, self.longest[0], self.ngrams, source, target)

    def _log_probs(self, state: JointState) -> Tensor:
        """[N, V]: log p(next token | tokens so far, source) of each row of ``state``.

        With probability ``escape``, the next token is drawn evenly from all except PAD and BOS, which have minus
        infinity. It always is if no segmentation writes the tokens so far.
        """
        token_BKE = _hypotheses(state.readings.value.token_BE, len(state.ending_N))
        next_BKE = state.next_NE.view(token_BKE.shape)
        probability_BKV = next_BKE.new_zeros(*token_BKE.shape[:2], self.target_vocabulary)
        probability_NV = probability_BKV.scatter_add_(2, token_BKE, next_BKE).flatten(0, 1)
        probability_NV[:, EOS] += state.ending_N
        possible_N1 = probability_NV.sum(1, keepdim=True) > 0
        escaped_V = torch.full_like(probability_NV[0], 1 / (self.target_vocabulary - 2))
        escaped_V[[PAD, BOS]] = 0.0
        mixed_NV = (1 - self.escape) * probability_NV + self.escape * escaped_V
        return torch.where(possible_N1, mixed_NV, escaped_V).log()


def _written(token_N: Tensor, state: JointState) -> JointState:
    """The state after a token: the arcs that write it have been taken, and the probabilities are normalised again. For
    BOS, the same probabilities as before.
    """
    readings, begins_N = state.readings.value, token_N == BOS
    token_BKE = _hypotheses(readings.token_BE, len(token_N))
    (B, K, _), Q = token_BKE.shape, readings.ending_BQ.shape[1]
    taken_BKE = state.next_NE.view(token_BKE.shape) * (token_BKE == token_N.view(B, K, 1))
    at_BKQ = taken_BKE.new_zeros(B, K, Q)
    at_BKQ.scatter_add_(2, readings.end_BE[:, None].expand_as(token_BKE), taken_BKE)
    total_BK1 = at_BKQ.sum(2, keepdim=True)
    after = _onward(at_BKQ / torch.where(total_BK1 > 0, total_BK1, 1.0), readings)
    next_NE = torch.where(begins_N[:, None], state.next_NE, after.next_NE)
    return replace(after, next_NE=next_NE, ending_N=torch.where(begins_N, state.ending_N, after.ending_N))


def _onward(at_BKQ: Tensor, readings: Readings) -> JointState:
    """The state of hypotheses that are at each node with probability ``at_BKQ``: through silent arcs to the arcs that
    write next.
    """
    B, K, Q = at_BKQ.shape
    silent_B1Q, silent_end_BKQ = readings.silent_BQ[:, None], readings.silent_end_BQ[:, None].expand(B, K, Q)
    reached_BKQ = at_BKQ
    for _ in range(readings.depth):
        at_BKQ = torch.zeros_like(at_BKQ).scatter_add_(2, silent_end_BKQ, at_BKQ * silent_B1Q)
        reached_BKQ = reached_BKQ + at_BKQ
    start_BKE = _hypotheses(readings.start_BE, B * K)
    next_BKE = reached_BKQ.gather(2, start_BKE) * readings.chance_BE[:, None]
    ending_BK = (reached_BKQ * readings.ending_BQ[:, None]).sum(2)
    return JointState(next_BKE.flatten(0, 1), ending_BK.flatten(), Shared(readings))


def _hypotheses(values_BE: Tensor, N: int) -> Tensor:
    """[B, K, E] for N = B * K rows: a view that repeats each source's values for its hypotheses."""
    B, E = values_BE.shape
    return values_BE[:, None].expand(B, N // B, E)


class JointCounts:
    """Counts of a joint n-gram model: expectation maximisation, then n-grams of the best segmentations, in ``store``.

    Raises UserError for numbers, for vocabularies that are too large (``Cosegmentation``), if more than the share
    ``model.uncut`` of the pairs cannot be cut into units, or if none can.
    """

    def __init__(self, model: JointNgram, pairs: Pairs) -> None:
        check_tokens("a joint n-gram model", pairs.source, pairs.target)
        self.model = model
        self.ways = Cosegmentation(pairs, model.longest)
        uncut = len(self.ways.uncut)
        problem = (
            f"{uncut:,} of {len(pairs):,} pairs cannot be cut into units: they have no source, or more than "
            f"model.target_tokens = {model.longest[1]} target tokens for each source token"
        )
        if uncut == len(pairs) or uncut > model.uncut * len(pairs):
            raise UserError(
                f"{problem}; at most {model.uncut:.0%} are allowed (model.uncut). {_remedy(pairs, model.uncut)}"
            )
        self.tokens = int(pairs.target_lengths.sum() - pairs.target_lengths[self.ways.uncut].sum())
        self.report: tuple[str, ...] = (f"{problem}, and are not counted",) if uncut else ()

    def reestimate(self) -> float:
        return self.ways.reestimate()

    def store(self) -> None:
        best = self.ways.best()
        used, words = np.unique(np.concatenate(best), return_inverse=True)
        bounds = np.cumsum([len(row) for row in best])[:-1]
        self.model.units.data = torch.from_numpy(self.ways.units[used]).to(self.model.units)
        self.model.ngrams.learn(estimate(np.split(words.ravel(), bounds), len(used), self.model.order))


def _remedy(pairs: Pairs, uncut: float) -> str:
    """Advice for the user, so that enough pairs can be cut: remove pairs without a source, or allow longer units, or
    choose other tokens.
    """
    S_N, T_N = (lengths.astype(np.int64) - 1 for lengths in (pairs.source_lengths, pairs.target_lengths))
    other = "choose a unit with longer tokens for data.units.target, or one with shorter tokens for data.units.source"
    needed = np.sort(-(-T_N[S_N > 0] // S_N[S_N > 0]))
    cuttable = math.ceil((1 - uncut) * len(pairs))
    if not len(needed) or len(needed) < cuttable:
        return f"{len(pairs) - len(needed):,} pairs have no source: remove them"
    return f"Set model.target_tokens = {needed[max(cuttable, 1) - 1]}, or {other}"
