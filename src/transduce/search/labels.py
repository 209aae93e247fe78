"""Searches over labels that do not depend on each other. B sources, T places, V labels, K hypotheses of a source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from transduce.errors import UserError
from transduce.protocols import Parallel
from transduce.search.lengths import LengthBeam
from transduce.search.step import forbid_specials
from transduce.types import EOS, Hypothesis, Padded, widened


@dataclass(frozen=True)
class LabelSearch:
    """The ``nbest`` most probable outputs of a model whose sources say how long they are: a tagger, a classifier.

    The best has the most probable label in each place; the others are found exactly too, since a label's rank in an
    output bounds its rank in its place. Where there are fewer outputs than ``nbest``, all are returned.
    """

    nbest: int = 1

    def __post_init__(self) -> None:
        if self.nbest < 1:
            raise UserError(f"nbest = {self.nbest}: at least one output was expected")

    @torch.inference_mode()
    def __call__(self, model: Parallel[Any], source: Any, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        check_no_prefix(prefix)
        emission = model.emit(model.start(source))
        if emission.length_log_probs is not None:
            raise UserError(
                f"{type(model).__name__} chooses the length of its outputs, which labels do not: set search.type = "
                '"length-beam"'
            )
        mask_BT = emission.mask
        logits_BTV = model.readout(emission.output)
        log_probs_BTV = logits_BTV.log_softmax(-1, widened(logits_BTV.dtype))
        forbid_specials(log_probs_BTV.flatten(0, 1))[:, EOS] = float("-inf")
        best_BT, choice_BT = log_probs_BTV.max(-1)
        labels_BKT, score_BK = _best(log_probs_BTV, mask_BT, self.nbest)
        each_BTK = log_probs_BTV.gather(2, labels_BKT.transpose(1, 2))
        best_BKT = best_BT[:, None].expand_as(labels_BKT)
        right_BKT = labels_BKT == choice_BT[:, None]
        return written(labels_BKT, score_BK, each_BTK.transpose(1, 2), best_BKT, right_BKT, emission.lengths)

    def force(self, model: Parallel[Any], source: Any, target: Padded) -> list[Hypothesis]:
        return LengthBeam().force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> LabelSearch:
        return self if nbest is None else replace(self, nbest=nbest)


def _best(log_probs_BTV: Tensor, mask_BT: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Labels [B, K, T] and their scores [B, K], the best of all that the places allow, minus infinity for want of
    more."""
    few = min(count, log_probs_BTV.shape[-1])
    ordered_BTV, label_BTV = log_probs_BTV.sort(stable=True, dim=-1, descending=True)  # ties as argmax
    each_BTF, label_BTF = ordered_BTV[..., :few], label_BTV[..., :few]
    score_BK = torch.full_like(each_BTF[:, 0, :1], float("-inf")).repeat(1, count)
    score_BK[:, 0] = 0.0
    labels_BKT = label_BTF.new_zeros(len(score_BK), count, 0)
    for t in range(log_probs_BTV.shape[1]):
        # past its length a row has one way on, which changes nothing
        on_BF = each_BTF[:, t].masked_fill(~mask_BT[:, t, None], float("-inf"))
        on_BF[:, 0] = torch.where(mask_BT[:, t], on_BF[:, 0], 0.0)
        score_BK, place_BK = (score_BK[:, :, None] + on_BF[:, None]).flatten(1).topk(count)
        label_BK = label_BTF[:, t].gather(1, place_BK % few)
        before_BKT = labels_BKT.gather(1, (place_BK // few)[..., None].expand(-1, -1, t))
        labels_BKT = torch.cat([before_BKT, label_BK[..., None]], 2)
    return labels_BKT, score_BK


def written(
    labels_BKT: Tensor, log_prob_BK: Tensor, each_BKT: Tensor, best_BKT: Tensor, right_BKT: Tensor, lengths_B: Tensor
) -> list[list[Hypothesis]]:
    """Returns the hypotheses of each source, without those of log-probability minus infinity.

    Each hypothesis ends with EOS. That EOS is no choice of the model: the source decides the number of labels.
    """
    leaves = labels_BKT, log_prob_BK, each_BKT, best_BKT, right_BKT, lengths_B
    return [
        [
            Hypothesis((*labels[:n], EOS), log_prob, log_prob, (*each[:n], 0.0), tuple(best[:n]), tuple(right[:n]))
            for labels, log_prob, each, best, right in zip(*columns, strict=True)
            if log_prob > float("-inf")
        ]
        for *columns, n in zip(*(leaf.tolist() for leaf in leaves), strict=True)
    ]


def check_no_prefix(prefix: Padded | None) -> None:
    if prefix is not None:
        raise UserError("labels stand for the tokens of a source, so that none can be given as a prefix")
