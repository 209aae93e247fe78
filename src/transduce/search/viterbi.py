"""Searches over label sequences in which each label depends on the labels before.

B sources, T places, L labels, K sequences of a source.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from transduce.chain import Trellis
from transduce.errors import UserError
from transduce.protocols import Chain
from transduce.search.labels import check_nbest, check_no_prefix, only_labels, written
from transduce.types import Hypothesis, Padded


@dataclass(frozen=True)
class Viterbi:
    """The ``nbest`` most probable label sequences, exactly (Viterbi 1967). If there are fewer, all are returned.

    The log-probability of a token is log p(its label | the labels before it, the source). These sum to the hypothesis'
    log-probability. As in ``LabelSearch``, a label is never ``<unk>``. Raises UserError for a prefix.
    """

    nbest: int = 1

    def __post_init__(self) -> None:
        if self.nbest < 1:
            raise UserError(f"nbest = {self.nbest}: at least one output was expected")

    @torch.inference_mode()
    def __call__(self, model: Chain, source: Any, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        check_no_prefix(prefix)
        trellis = model.trellis(source)
        check_nbest(self.nbest, trellis.forward)
        labels_BKT, score_BK = replace(trellis, unary=only_labels(trellis.unary)).best(self.nbest)
        return hypotheses(trellis, labels_BKT, score_BK)

    @torch.inference_mode()
    def force(self, model: Chain, source: Any, target: Padded) -> list[Hypothesis]:
        return forced(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Viterbi:
        return self if nbest is None else replace(self, nbest=nbest)


@dataclass(frozen=True)
class Posterior:
    """The label with the highest posterior probability p(y_t | x) at each place.

    This maximises the expected number of right labels. The sequence as a whole may be improbable. The log-probabilities
    of the sequence and of its tokens are computed as in ``Viterbi``. A label is never ``<unk>``. Raises UserError for a
    prefix.
    """

    @torch.inference_mode()
    def __call__(self, model: Chain, source: Any, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        check_no_prefix(prefix)
        trellis = model.trellis(source)
        labels_BT = only_labels(trellis.posteriors()).argmax(-1)
        return hypotheses(trellis, labels_BT[:, None], trellis.score(labels_BT)[:, None])

    @torch.inference_mode()
    def force(self, model: Chain, source: Any, target: Padded) -> list[Hypothesis]:
        return forced(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Posterior:
        if (nbest or 1) > 1:
            raise UserError(f'nbest = {nbest}: there is one label of highest posterior; set search.type = "viterbi"')
        return self


def forced(model: Chain, source: Any, target: Padded) -> list[Hypothesis]:
    """One hypothesis per source, of the given labels ``target``, which end with EOS. Raises UserError unless there is
    one label for each place of the source.
    """
    trellis = model.trellis(source)
    labels_BT = trellis.own(target.values, target.lengths - 1)
    found = hypotheses(trellis, labels_BT[:, None], trellis.score(labels_BT)[:, None])
    return [hypothesis for (hypothesis,) in found]


def hypotheses(trellis: Trellis, labels_BKT: Tensor, score_BK: Tensor) -> list[list[Hypothesis]]:
    """The hypotheses of label sequences [B, K, T], from their scores s(y) [B, K]. A sequence with score minus infinity
    gives no hypothesis.
    """
    log_prob_BK = score_BK.double() - trellis.log_normaliser.double()[:, None]
    each, best, right = [], [], []
    for labels_BT in labels_BKT.unbind(1):
        conditionals_BTL = trellis.conditionals(labels_BT)
        each.append(conditionals_BTL.gather(2, labels_BT[..., None])[..., 0])
        best_BT, choice_BT = only_labels(conditionals_BTL).max(-1)
        best.append(best_BT)
        right.append(labels_BT == choice_BT)
    each_BKT, best_BKT, right_BKT = (torch.stack(column, 1) for column in (each, best, right))
    return written(labels_BKT, log_prob_BK, each_BKT, best_BKT, right_BKT, trellis.lengths)
