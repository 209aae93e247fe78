"""The search of mask-predict. B sources, K lengths of a source, N = B * K rows, T positions, M real positions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import S
from transduce.core.types import BOS, Emission, Hypothesis, Padded
from transduce.search.length_beam import LengthBeam, read_words
from transduce.search.ranking import source_lengths
from transduce.wings.refinement.base import Refining
from transduce.wings.refinement.objective import lowest


@dataclass(frozen=True)
class MaskPredict(LengthBeam):
    """Writes the most probable word at each position, for the ``size`` most probable lengths. Then it hides the least
    certain words and writes them again, given the others (Ghazvininejad et al. 2019, section 3.3).

    Pass i of ``iterations`` T, counted from 0, hides the n (T - i) / T words of lowest probability, rounded down; the
    first hides all n. A word that stays keeps its probability. The ``ranking`` scores the sum of the logarithms of
    these probabilities and of p(n | x), and returns the ``nbest`` outputs with the highest scores. The log-probability
    of an output is that of the first pass, in which words do not know each other: the model has no other probability of
    a whole output. With one iteration this is the search "length-beam". Raises UserError for a prefix.
    """

    iterations: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.iterations < 1:
            raise UserError(f"iterations = {self.iterations}: at least one pass was expected")

    @torch.inference_mode()
    def __call__(  # type: ignore[override]
        self, model: Refining[S], source: Padded, prefix: Padded | None = None
    ) -> list[list[Hypothesis]]:
        if prefix is not None or self.iterations == 1:
            return super().__call__(model, source, prefix)
        state = model.start(source)
        best = model.emit(state)
        lengths_BK = torch.cat([best.lengths[:, None], self._other_lengths(best)], 1)
        K = lengths_BK.shape[1]
        state = tree.repeat(state, K)
        first = model.emit(state, lengths_BK.flatten())
        words_NT, log_prob_NT = self._refined(model, state, first)
        sizes = [size for size in source_lengths(source) for _ in range(K)]
        written = self._written(model, first, sizes, words_NT[first.mask])
        totals = log_prob_NT.double().sum(1).tolist()
        ends, found = first.end_log_probs.tolist(), []
        for hypothesis, total, end, size in zip(written, totals, ends, sizes, strict=True):
            score = self.ranking(total + end, len(hypothesis.tokens), size)
            found.append(replace(hypothesis, score=score))
        rows = [found[row : row + K] for row in range(0, len(found), K)]
        return [sorted(hypotheses, key=lambda h: -h.score)[: self.nbest] for hypotheses in rows]

    def _refined(self, model: Refining[S], state: S, first: Emission) -> tuple[Tensor, Tensor]:
        """The words [N, T] after the last pass, and their log-probabilities, which are 0 at padding."""
        words_NT, log_prob_NT = _most_probable(model, first)
        for pass_ in range(1, self.iterations):
            count_N = first.lengths * (self.iterations - pass_) // self.iterations
            hidden_NT = lowest(log_prob_NT, first.mask, count_N)
            again = model.emit(model.observe(state, words_NT.masked_fill(hidden_NT, BOS)), first.lengths)
            new_NT, new_log_prob_NT = _most_probable(model, again)
            words_NT = torch.where(hidden_NT, new_NT, words_NT)
            log_prob_NT = torch.where(hidden_NT, new_log_prob_NT, log_prob_NT)
        return words_NT, log_prob_NT


def _most_probable(model: Refining[S], emission: Emission) -> tuple[Tensor, Tensor]:
    """The most probable word at each position [N, T], and its log-probability; BOS and 0 at padding."""
    mask_NT = emission.mask
    words_M, log_prob_M, *_ = read_words(model, tree.map(lambda leaf: leaf[mask_NT], emission.output))
    words_NT = torch.full(mask_NT.shape, BOS, device=mask_NT.device)
    log_prob_NT = torch.zeros(mask_NT.shape, dtype=log_prob_M.dtype, device=mask_NT.device)
    words_NT[mask_NT], log_prob_NT[mask_NT] = words_M, log_prob_M
    return words_NT, log_prob_NT
