"""Beam search, batched: B sources, K hypotheses of each, N = B * K rows, C candidates looked at."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from transduce import tree
from transduce.search.forcing import force
from transduce.search.ranking import Average, Ranking
from transduce.search.step import check_length, first_tokens, forbid_specials, step
from transduce.types import EOS, Autoregressive, Hypothesis, Padded


@dataclass(frozen=True)
class Beam:
    """The ``size`` most probable prefixes, extended step by step; returns the ``nbest`` finished ones by ``ranking``.

    An end counts when it is among the ``size`` best continuations. A source is done when ``size`` hypotheses have
    finished, or none in the beam can still overtake the ``nbest`` best; whatever is unfinished after ``max_length``
    - 1 tokens is ended there. A beam of one is greedy search.
    """

    size: int = 5
    nbest: int = 1
    max_length: int = 200
    ranking: Ranking = field(default_factory=Average)

    def __post_init__(self) -> None:
        check_length(self.max_length)
        if not 1 <= self.nbest <= self.size:
            raise ValueError(f"nbest = {self.nbest}, size = {self.size}: a beam of n has room for 1 to n hypotheses")

    @torch.inference_mode()
    def __call__(self, model: Autoregressive[Any], source: Any) -> list[list[Hypothesis]]:
        B, device = tree.rows(source), tree.leaves(source)[0].device
        state = tree.repeat(model.start(source), self.size)
        beam = _Prefixes.start(B, self.size, device)
        token_N = first_tokens(B * self.size, device)
        finished: list[list[Hypothesis]] = [[] for _ in range(B)]
        for length in range(1, self.max_length + 1):
            logits_NV, normaliser_N, state = step(model, token_N, state)
            candidates = beam.candidates(logits_NV, normaliser_N, last=length == self.max_length)
            self._collect(candidates, beam, finished)
            if length == self.max_length:
                break
            beam, rows_N, keep_B = beam.extend(candidates, self._going(candidates, beam, finished, length))
            if not len(keep_B):
                break
            whole = len(keep_B) == candidates.total_BC.shape[0]
            state = tree.reorder(state, rows_N) if whole else tree.select(state, rows_N, keep_B)
            token_N = beam.tokens_BKT[:, :, -1].reshape(-1)
        return [sorted(found, key=lambda h: -h.score)[: self.nbest] for found in finished]

    def force(self, model: Autoregressive[Any], source: Any, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int = 1) -> Beam:
        return replace(self, size=max(self.size, nbest) if size is None else size, nbest=nbest)

    def _collect(self, candidates: _Candidates, beam: _Prefixes, finished: list[list[Hypothesis]]) -> None:
        """Ends among the best, written out as hypotheses."""
        best_BK = candidates.total_BC[:, : self.size]
        ends = (candidates.token_BC[:, : self.size] == EOS) & best_BK.isfinite()
        for b, c in ends.nonzero().tolist():
            k = candidates.origin_BC[b, c]
            tokens = (*beam.tokens_BKT[b, k].tolist(), EOS)
            each = (*beam.log_probs_BKT[b, k].tolist(), float(candidates.log_prob_BC[b, c]))
            log_prob = float(best_BK[b, c])
            score = self.ranking(log_prob, len(tokens))
            finished[beam.source_B[b]].append(Hypothesis(tokens, log_prob, score, each))

    def _going(
        self, candidates: _Candidates, beam: _Prefixes, finished: list[list[Hypothesis]], length: int
    ) -> list[int]:
        """The rows b whose search goes on."""
        going = []
        best_live_B = candidates.continuing()[0][:, 0].tolist()
        for b, (row, log_prob) in enumerate(zip(beam.source_B, best_live_B, strict=True)):
            found = finished[row]
            if len(found) >= self.nbest:
                if len(found) >= self.size:
                    continue
                # log-probabilities only fall, so a live prefix will score at most as if it ended well at once, or late
                bound = max(self.ranking(log_prob, length + 1), self.ranking(log_prob, self.max_length))
                if bound <= sorted((h.score for h in found), reverse=True)[self.nbest - 1]:
                    continue
            going.append(b)
        return going


@dataclass(frozen=True)
class _Candidates:
    """The best continuations of each source, best first: their totals, the hypothesis they continue, token and its
    own log-probability, all [B, C]; ``size`` of them that do not end will live on."""

    total_BC: Tensor
    origin_BC: Tensor
    token_BC: Tensor
    log_prob_BC: Tensor
    size: int

    def continuing(self) -> tuple[Tensor, Tensor]:
        """Totals and places [B, K] of the best that do not end."""
        totals, places = self.total_BC.masked_fill(self.token_BC == EOS, float("-inf")).topk(self.size)
        return totals, places


@dataclass(frozen=True)
class _Prefixes:
    """The living hypotheses: their log-probabilities in sum [B, K] and token by token, and whose they are."""

    total_BK: Tensor
    tokens_BKT: Tensor
    log_probs_BKT: Tensor
    source_B: list[int]

    @staticmethod
    def start(B: int, K: int, device: torch.device) -> _Prefixes:
        """One hypothesis of each source, and no others: K equal ones would find everything K times."""
        total_BK = torch.full((B, K), float("-inf"), dtype=torch.float64, device=device)
        total_BK[:, 0] = 0.0
        tokens_BK0 = torch.zeros(B, K, 0, dtype=torch.long, device=device)
        return _Prefixes(total_BK, tokens_BK0, tokens_BK0.double(), list(range(B)))

    def candidates(self, logits_NV: Tensor, normaliser_N: Tensor, last: bool) -> _Candidates:
        B, K = self.total_BK.shape
        if last:
            value_NC = logits_NV[:, EOS : EOS + 1]
            token_NC = torch.full_like(value_NC, EOS, dtype=torch.long)
        else:
            # of each hypothesis: its K best continuations that do not end, and the end
            value_NC, token_NC = forbid_specials(logits_NV).topk(min(K + 1, logits_NV.shape[1]))
        log_prob_BF = (value_NC.double() - normaliser_N[:, None]).view(B, -1)
        total_BKC = self.total_BK[:, :, None] + log_prob_BF.view(B, K, -1)
        C = total_BKC.shape[-1]
        total_BC, place_BC = total_BKC.view(B, -1).topk(min(2 * K, K * C))
        token_BC, log_prob_BC = token_NC.view(B, -1).gather(1, place_BC), log_prob_BF.gather(1, place_BC)
        return _Candidates(total_BC, place_BC // C, token_BC, log_prob_BC, K)

    def extend(self, candidates: _Candidates, going: list[int]) -> tuple[_Prefixes, Tensor, Tensor]:
        """The prefixes of the sources still going, one token longer; the rows they came from, and those sources."""
        K = self.total_BK.shape[1]
        device = self.total_BK.device
        keep_B = torch.tensor(going, dtype=torch.long, device=device)
        total_BK, place_BK = (found[keep_B] for found in candidates.continuing())
        origin_BK, token_BK, log_prob_BK = (
            whole_BC[keep_B].gather(1, place_BK)
            for whole_BC in (candidates.origin_BC, candidates.token_BC, candidates.log_prob_BC)
        )
        index_BKT = origin_BK[:, :, None].expand(-1, -1, self.tokens_BKT.shape[2])
        tokens_BKT = torch.cat([self.tokens_BKT[keep_B].gather(1, index_BKT), token_BK[:, :, None]], 2)
        log_probs_BKT = torch.cat([self.log_probs_BKT[keep_B].gather(1, index_BKT), log_prob_BK[:, :, None]], 2)
        rows_N = (keep_B[:, None] * K + origin_BK).reshape(-1)
        return _Prefixes(total_BK, tokens_BKT, log_probs_BKT, [self.source_B[b] for b in going]), rows_N, keep_B
