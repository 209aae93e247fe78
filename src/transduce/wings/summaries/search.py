"""Search over marks that keep parts of a source, with limits on how many are kept.

B sources, T parts of a source, C kept parts, K hypotheses of a source, V marks and special tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.protocols import Parallel, S
from transduce.core.types import SPECIALS, Hypothesis, Padded
from transduce.wings.labels.search import (
    LabelSearch,
    check_nbest,
    check_no_prefix,
    label_log_probs,
    only_labels,
    written,
)
from transduce.wings.labels.spans import KEPT, LEFT_OUT, MARKS

LEFT_OUT_ID, KEPT_ID = (len(SPECIALS) + MARKS.index(mark) for mark in (LEFT_OUT, KEPT))


@dataclass(frozen=True)
class SelectionSearch:
    """The ``nbest`` best outputs that keep at least ``least`` and at most ``most`` parts of their source, for taggers
    whose target has the unit ``selection``. If ``most`` is None, there is no upper limit.

    Within the limits, a part is kept if its probability of being kept is above ``threshold``. The best output is the
    most probable one if the threshold is 0.5. The F1 of the kept parts is largest if the threshold is half of the F1
    that the model reaches (Lipton et al. 2014, theorem 1). Each kept part adds log((1 - threshold) / threshold) to an
    output's score.

    If ``together`` is True, an output keeps parts that stand side by side: the answer to a question. ``least`` is at
    least 1 then.

    The search is exact. For example, a single kept part is the part with the largest odds of being kept. A source with
    fewer than ``least`` parts keeps all. If there are fewer outputs than ``nbest``, all are returned. A hypothesis'
    log_prob is the model's own, which is not divided by the probability of outputs within the limits. Raises UserError
    if ``least`` is negative or above ``most``, or 0 with ``together``, if ``nbest`` is below 1, or if ``threshold`` is
    not between 0 and 1. Also raises it for a prefix, and for a vocabulary of another unit.
    """

    least: int = 1
    most: int | None = None
    nbest: int = 1
    threshold: float = 0.5
    together: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise UserError(
                f"threshold = {self.threshold}: a probability was expected, more than 0 and less than 1; parts that "
                "are more probable are kept"
            )
        if not 0 <= self.least <= (self.least if self.most is None else self.most):
            raise UserError(f"least = {self.least}, most = {self.most}: expected 0 <= least <= most")
        if self.together and self.least < 1:
            raise UserError("least = 0: parts that stand together are at least one; set search.least to 1 or more")
        LabelSearch(self.nbest)  # raises UserError for a wrong nbest

    @torch.inference_mode()
    def __call__(self, model: Parallel[S], source: Padded, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        check_no_prefix(prefix)
        emission = model.emit(model.start(source))
        log_probs_BTV = label_log_probs(model, emission)
        check_vocabulary(log_probs_BTV)
        check_nbest(self.nbest * (1 + log_probs_BTV.shape[1]), log_probs_BTV)
        mask_BT = emission.mask
        left_BT, kept_BT = log_probs_BTV[..., LEFT_OUT_ID], log_probs_BTV[..., KEPT_ID]
        gain = math.log((1 - self.threshold) / self.threshold)
        best = _best_stretches if self.together and mask_BT.shape[1] else _best
        labels_BKT, score_BK = best(left_BT, kept_BT + gain, mask_BT, self.least, self.most, self.nbest)
        kept_BK = ((labels_BKT == KEPT_ID) & mask_BT[:, None]).sum(2)
        each_BKT = log_probs_BTV.gather(2, labels_BKT.transpose(1, 2)).transpose(1, 2)
        best_BT, choice_BT = only_labels(log_probs_BTV).max(-1)
        right_BKT = labels_BKT == choice_BT[:, None]
        most_BKT = best_BT[:, None].expand_as(each_BKT)
        log_prob_BK = score_BK - gain * kept_BK
        return written(labels_BKT, log_prob_BK, each_BKT, most_BKT, right_BKT, emission.lengths, score_BK)

    @torch.inference_mode()
    def force(self, model: Parallel[S], source: Padded, target: Padded) -> list[Hypothesis]:
        """The log-probability of each target, which may keep fewer or more parts than the search allows. The first
        choice at a position is the more probable mark, without regard to the limits.
        """
        return LabelSearch().force(model, source, target)

    def refused(self, source: Padded, target: Padded, vocabulary: int) -> list[str]:
        """The targets that keep fewer parts than ``least``, though they have more, more parts than ``most``, or parts
        that do not stand ``together``.
        """
        kept_BT = (target.values == KEPT_ID) & target.mask
        begins_B = kept_BT[:, :1].sum(1) + (kept_BT[:, 1:] & ~kept_BT[:, :-1]).sum(1)
        counts = zip(kept_BT.sum(1).tolist(), (target.lengths - 1).tolist(), begins_B.tolist(), strict=True)
        options = []
        for count, parts, stretches in counts:
            few, many = count < min(self.least, parts), self.most is not None and count > self.most
            apart = self.together and stretches > 1
            options.append("least" if few else "most" if many else "together" if apart else "")
        return options

    def resized(self, size: int | None = None, nbest: int | None = None) -> SelectionSearch:
        return self if nbest is None else replace(self, nbest=nbest)


def check_vocabulary(scores_V: Tensor) -> None:
    """Raises UserError unless the vocabulary of the scores [..., V] has the special tokens and the two marks."""
    labels = scores_V.shape[-1] - len(SPECIALS)
    if labels != len(MARKS):
        raise UserError(
            f'the search "selection" chooses between two marks, and this model has {labels} labels: set '
            'data.units.target.type = "selection", or search = "labels"'
        )


def _best(
    left_BT: Tensor, kept_BT: Tensor, mask_BT: Tensor, least: int, most: int | None, count: int
) -> tuple[Tensor, Tensor]:
    """The ``count`` best sequences of marks [B, count, T], best first, and their scores [B, count].

    A part adds ``left_BT`` to the score if it is left out, and ``kept_BT`` if it is kept. If there are fewer sequences,
    the rest has a score of minus infinity. Past the end of a row, marks have no meaning. Dynamic programming keeps the
    ``count`` best sequences for each number of kept parts so far.
    """
    B, T = left_BT.shape
    limit = T if most is None else min(most, T)
    left_BT = left_BT.masked_fill(~mask_BT, 0.0)  # after its end, a row has a single continuation without effect
    kept_BT = kept_BT.masked_fill(~mask_BT, float("-inf"))
    score_BCK = torch.full((B, limit + 1, count), float("-inf"), dtype=torch.float64, device=left_BT.device)
    score_BCK[:, 0, 0] = 0.0
    marks_BCKT = torch.zeros(B, limit + 1, count, 0, dtype=torch.long, device=left_BT.device)
    for t in range(T):
        without_BCK = score_BCK + left_BT[:, t, None, None]
        with_BCK = _one_more(score_BCK, float("-inf")) + kept_BT[:, t, None, None]
        score_BCK, place_BCK = torch.cat([without_BCK, with_BCK], 2).topk(count, 2)
        both_BCKT = torch.cat([marks_BCKT, _one_more(marks_BCKT, 0)], 2)
        marks_BCKT = both_BCKT.gather(2, place_BCK[..., None].expand(-1, -1, -1, t))
        mark_BCK = torch.where(place_BCK < count, LEFT_OUT_ID, KEPT_ID)
        marks_BCKT = torch.cat([marks_BCKT, mark_BCK[..., None]], 3)
    few_B = mask_BT.sum(1).clamp(max=min(least, limit))
    allowed_BC = torch.arange(limit + 1, device=few_B.device) >= few_B[:, None]
    score_BK, place_BK = score_BCK.masked_fill(~allowed_BC[..., None], float("-inf")).flatten(1).topk(count)
    return marks_BCKT.flatten(1, 2).gather(1, place_BK[..., None].expand(-1, -1, T)), score_BK


def _best_stretches(
    left_BT: Tensor, kept_BT: Tensor, mask_BT: Tensor, least: int, most: int | None, count: int
) -> tuple[Tensor, Tensor]:
    """As ``_best``, of the sequences whose kept parts stand side by side. All of them are compared, T² of a row."""
    B, T = left_BT.shape
    odds_BT = torch.where(mask_BT, kept_BT - left_BT, 0.0).double()
    sum_BT = torch.cat([odds_BT.new_zeros(B, 1), odds_BT.cumsum(1)], 1)
    begin_E, end_E = torch.triu_indices(T + 1, T + 1, offset=1, device=left_BT.device)
    size_E, length_B = end_E - begin_E, mask_BT.sum(1)
    fewest_B1 = length_B.clamp(max=least)[:, None]
    allowed_BE = (end_E <= length_B[:, None]) & (size_E >= fewest_B1)
    if most is not None:
        allowed_BE &= size_E <= most
    gain_BE = (sum_BT[:, end_E] - sum_BT[:, begin_E]).masked_fill(~allowed_BE, float("-inf"))
    found = min(count, len(size_E))
    gain_BK, place_BK = gain_BE.topk(found, 1)
    score_BK = gain_BK + torch.where(mask_BT, left_BT, 0.0).double().sum(1, keepdim=True)
    place_T = torch.arange(T, device=left_BT.device)
    kept_BKT = (place_T >= begin_E[place_BK][..., None]) & (place_T < end_E[place_BK][..., None])
    empty_B1 = length_B[:, None] == 0  # such a row has one sequence, of no mark
    first_K = torch.arange(found, device=left_BT.device) == 0
    score_BK = torch.where(empty_B1, torch.where(first_K, 0.0, float("-inf")), score_BK)
    return torch.where(kept_BKT, KEPT_ID, LEFT_OUT_ID), score_BK


def _one_more(x_BCK: Tensor, fill: float) -> Tensor:
    """Moves the values for c kept parts to c + 1. The values for 0 kept parts become ``fill``."""
    return torch.cat([torch.full_like(x_BCK[:, :1], fill), x_BCK[:, :-1]], 1)
