"""Search for the length of the output, for models that write all tokens at once. N words, V vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Parallel, S
from transduce.core.types import EOS, UNK, Emission, Hypothesis, Padded, widened
from transduce.search.base import Ranking, resized
from transduce.search.largest import highest_log_probs
from transduce.search.ranking import LogProbability, source_lengths
from transduce.search.reading import POSITIONS, forbid_specials


@dataclass(frozen=True)
class LengthBeam:
    """Tries the ``size`` most probable lengths and writes the most probable word at each position. Returns the
    ``nbest`` outputs with the highest ``ranking`` (Ghazvininejad et al. 2019, section 3.3).

    The log-probability of an output includes log p of its length. A source with fewer possible lengths than ``nbest``
    has fewer outputs. If the source decides the length, there is one output. Raises UserError for a prefix.
    """

    ends_freely: ClassVar[bool] = True

    size: int = 1
    nbest: int = 1
    ranking: Ranking = field(default_factory=LogProbability)

    def __post_init__(self) -> None:
        if not 1 <= self.nbest <= self.size:
            raise UserError(f"nbest = {self.nbest}, size = {self.size}: of n lengths come 1 to n hypotheses")

    @torch.inference_mode()
    def __call__(self, model: Parallel[S], source: Padded, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        if prefix is not None:
            raise UserError(
                "a length-beam writes all tokens at once and cannot go on from a prefix: use a model that writes one "
                "after the other, and greedy or beam search"
            )
        state = model.start(source)
        first = model.emit(state)
        sizes = source_lengths(source)
        found = [[hypothesis] for hypothesis in self._written(model, first, sizes)]
        others_BK = self._other_lengths(first)
        if K := others_BK.shape[1]:
            spread = [size for size in sizes for _ in range(K)]
            others = model.emit(tree.repeat(state, K), others_BK.flatten())
            for row, hypothesis in enumerate(self._written(model, others, spread)):
                found[row // K].append(hypothesis)
        return [sorted(hypotheses, key=lambda h: -h.score)[: self.nbest] for hypotheses in found]

    @torch.inference_mode()
    def force(self, model: Parallel[S], source: Padded, target: Padded) -> list[Hypothesis]:
        emission = model.emit(model.start(source), target.lengths - 1)
        mask_BT = emission.mask
        words_N = target.values[:, : mask_BT.shape[1]][mask_BT]
        forced = self._written(model, emission, source_lengths(source), words_N)
        return [replace(hypothesis, score=hypothesis.log_prob) for hypothesis in forced]

    def resized(self, size: int | None = None, nbest: int | None = None) -> LengthBeam:
        return resized(self, size, nbest)

    def _other_lengths(self, first: Emission) -> Tensor:
        """The lengths [B, K] to try in addition to the most probable one: K < ``size``. K is 0 if the source decides
        the length.
        """
        if first.length_log_probs is None:
            return first.lengths.new_empty(len(first.lengths), 0)
        K = min(self.size, first.length_log_probs.shape[1]) - 1
        return first.length_log_probs.scatter(1, first.lengths[:, None], float("-inf")).topk(K).indices

    def _written(
        self, model: Parallel[S], emission: Emission, source_lengths: list[int], words_N: Tensor | None = None
    ) -> list[Hypothesis]:
        """One hypothesis for each row of ``emission``, with EOS at its end. The log-probability of EOS is the
        log-probability of the length. The ``ranking`` gives its ``score``. ``words_N`` are the words of all rows, one
        row after the other. Without them it takes the most probable words.
        """
        mask_BT = emission.mask
        columns = read_words(model, tree.map(lambda leaf: leaf[mask_BT], emission.output), words_N)
        lengths = emission.lengths.tolist()
        rows = zip(*(torch.split(each_N, lengths) for each_N in columns), strict=True)
        best_ends, right_ends = _first_lengths(emission)
        hypotheses = []
        every = zip(rows, emission.end_log_probs.tolist(), best_ends, right_ends, source_lengths, strict=True)
        for (words, each, best, right), end, best_end, right_end, source_length in every:
            log_probs, total = (*each.tolist(), end), float(each.double().sum()) + end
            score = self.ranking(total, len(log_probs), source_length)
            first = (*best.tolist(), *best_end), (*right.tolist(), *right_end)
            hypotheses.append(Hypothesis((*words.tolist(), EOS), total, score, log_probs, *first))
        return hypotheses


def _first_lengths(emission: Emission) -> tuple[list[tuple[float, ...]], list[tuple[bool, ...]]]:
    """For each row, the log-probability of the most probable length, and whether the row has that length. Both are
    tuples of one item, or empty tuples if the source decides the length.
    """
    if emission.length_log_probs is None:
        return [()] * len(emission.lengths), [()] * len(emission.lengths)
    best_B, length_B = emission.length_log_probs.max(-1)
    return [(best,) for best in best_B.tolist()], [(right,) for right in (length_B == emission.lengths).tolist()]


def read_words(model: Parallel[S], output: object, words_N: Tensor | None = None) -> tuple[Tensor, ...]:
    """Reads out the words at N positions from the model's features ``output`` of these positions: ``words_N`` if given,
    otherwise the most probable words.

    Returns four tensors [N]: the words, their log-probabilities, the log-probabilities of the most probable words, and
    whether the words are the most probable ones.
    """
    columns = []
    place_N = torch.arange(tree.rows(output), device=tree.leaves(output)[0].device)
    for some_N in torch.split(place_N, POSITIONS):
        logits_NV = model.readout(tree.select(output, some_N))
        best_N, best_log_prob_N = word_log_probs(logits_NV)
        word_N, log_prob_N = best_N, best_log_prob_N
        if words_N is not None:
            word_N, log_prob_N = word_log_probs(logits_NV, words_N[some_N])
        columns.append((word_N, log_prob_N, best_log_prob_N, word_N == best_N))
    return tuple(torch.cat(column) for column in zip(*columns, strict=True))


def word_log_probs(logits_NV: Tensor, word_N: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The most probable word [N] of each position, or the given word, and its log-probability [N], by the logits
    [N, V]. PAD, BOS, EOS and UNK are not chosen.
    """
    found = highest_log_probs(logits_NV, word_N, first=UNK + 1 if word_N is None else EOS + 1)
    if found is not None:
        return found
    logits_NV = logits_NV.to(widened(logits_NV.dtype))
    if word_N is None:
        words_NV = forbid_specials(logits_NV.clone())
        words_NV[:, EOS] = float("-inf")
        word_N = words_NV.argmax(-1)
    return word_N, logits_NV.gather(1, word_N[:, None])[:, 0] - logits_NV.logsumexp(-1)
