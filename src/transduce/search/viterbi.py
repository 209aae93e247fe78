"""Searches over the label sequences of a chain. B sources, T places, L labels, K sequences of a source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from transduce.chain import NEVER, Trellis
from transduce.errors import UserError
from transduce.protocols import Chain
from transduce.search.labels import check_no_prefix, written
from transduce.types import UNK, Hypothesis, Padded


@dataclass(frozen=True)
class Viterbi:
    """The ``nbest`` most probable label sequences, exactly (Viterbi 1967); all of them, where there are fewer.

    A hypothesis' tokens have the log-probabilities of each label given the one before it, which sum to its own.
    """

    nbest: int = 1

    def __post_init__(self) -> None:
        if self.nbest < 1:
            raise UserError(f"nbest = {self.nbest}: at least one output was expected")

    @torch.inference_mode()
    def __call__(self, model: Chain, source: Any, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        check_no_prefix(prefix)
        trellis = model.trellis(source)
        labels_BKT, score_BK = spoken(trellis).best(self.nbest)
        return hypotheses(trellis, labels_BKT, score_BK)

    @torch.inference_mode()
    def force(self, model: Chain, source: Any, target: Padded) -> list[Hypothesis]:
        return forced(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Viterbi:
        return self if nbest is None else replace(self, nbest=nbest)


@dataclass(frozen=True)
class Posterior:
    """The label of the highest posterior probability p(y_t | x) in each place: as many right labels as can be expected,
    in a sequence that may itself be improbable. Tokens have the log-probabilities that ``Viterbi`` gives them."""

    @torch.inference_mode()
    def __call__(self, model: Chain, source: Any, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        check_no_prefix(prefix)
        trellis = model.trellis(source)
        labels_BT = forbidden(trellis.posteriors()).argmax(-1)
        return hypotheses(trellis, labels_BT[:, None], trellis.score(labels_BT)[:, None])

    @torch.inference_mode()
    def force(self, model: Chain, source: Any, target: Padded) -> list[Hypothesis]:
        return forced(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Posterior:
        if (nbest or 1) > 1:
            raise UserError(f'nbest = {nbest}: there is one label of highest posterior; set search.type = "viterbi"')
        return self


def forced(model: Chain, source: Any, target: Padded) -> list[Hypothesis]:
    """The probability of given labels, which must be as many as the source has places."""
    trellis = model.trellis(source)
    labels_BT = trellis.own(target.values, target.lengths - 1)
    found = hypotheses(trellis, labels_BT[:, None], trellis.score(labels_BT)[:, None])
    return [hypothesis for (hypothesis,) in found]


def hypotheses(trellis: Trellis, labels_BKT: Tensor, score_BK: Tensor) -> list[list[Hypothesis]]:
    """Of label sequences with their scores s(y), minus infinity for none."""
    log_prob_BK = score_BK.double() - trellis.log_normaliser.double()[:, None]
    each, best, right = [], [], []
    for labels_BT in labels_BKT.unbind(1):
        conditionals_BTL = trellis.conditionals(labels_BT)
        each.append(conditionals_BTL.gather(2, labels_BT[..., None])[..., 0])
        best_BT, choice_BT = forbidden(conditionals_BTL).max(-1)
        best.append(best_BT)
        right.append(labels_BT == choice_BT)
    each_BKT, best_BKT, right_BKT = (torch.stack(column, 1) for column in (each, best, right))
    return written(labels_BKT, log_prob_BK, each_BKT, best_BKT, right_BKT, trellis.lengths)


def spoken(trellis: Trellis) -> Trellis:
    """What a search may find in it: no padding, beginning or end. Their probability stays lost."""
    return replace(trellis, unary=forbidden(trellis.unary))


def forbidden(scores_BTL: Tensor) -> Tensor:
    """Scores of labels, minus infinity for those that are never an output."""
    never_BT3 = torch.full_like(scores_BTL[..., :UNK], NEVER)
    return torch.cat([never_BT3, scores_BTL[..., UNK:]], -1)
