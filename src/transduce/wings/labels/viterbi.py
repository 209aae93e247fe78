"""Searches over label sequences in which each label depends on the labels before.

B sources, T places, L labels, K sequences of a source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from transduce.core.chain import Trellis
from transduce.core.errors import UserError
from transduce.core.protocols import Chain
from transduce.core.types import UNK, Hypothesis, Padded
from transduce.search.base import Decoding
from transduce.wings.labels.search import check_nbest, check_no_prefix, only_labels, written


@dataclass(frozen=True)
class Viterbi:
    """Finds exactly the ``nbest`` most probable label sequences (Viterbi 1967). If there are fewer, all are returned.

    The log-probability of a token is log p(its label | the labels before it, the source). These sum to the hypothesis'
    log-probability. As in ``LabelSearch``, a label is never ``<unk>``. Raises UserError for a prefix.

    ``penalties`` has penalties for labels, in natural logarithms. The score of a sequence loses the penalty of a label
    each time that the sequence has the label. For example, ``{O = 1.4}`` makes a tagger find more entities, and more
    wrong ones (Minkov et al. 2006). A negative penalty does the opposite. The sequences are then exactly the best by
    log-probability minus penalties. Raises UserError for a label that the run does not have, and for a penalty that is
    not finite.
    """

    nbest: int = 1
    penalties: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if self.nbest < 1:
            raise UserError(f"nbest = {self.nbest}: at least one output was expected")
        for label, penalty in (self.penalties or {}).items():
            if not math.isfinite(penalty):
                raise UserError(f"penalties.{label} = {penalty}: a finite number was expected")

    def with_vocabularies(self, source: Decoding, target: Decoding) -> Viterbi:
        if not self.penalties:
            return self
        labels = {entry: i for i, entry in enumerate(target.entries) if i > UNK and isinstance(entry, str)}
        for label in self.penalties:
            if label not in labels:
                raise UserError(
                    f"search.penalties: {label!r} is no label of this run; change it, or leave it out. Known: "
                    f"{', '.join(sorted(labels))}"
                )
        known = tuple((labels[label], penalty) for label, penalty in self.penalties.items())
        return PenalisedViterbi(self.nbest, self.penalties, known)

    @torch.inference_mode()
    def __call__(self, model: Chain, source: Padded, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        if self.penalties:
            raise UserError(
                "penalties of the search: its labels are not known yet: transduce.load and Transducer.with_search give "
                "them"
            )
        check_no_prefix(prefix)
        trellis = model.trellis(source)
        check_nbest(self.nbest, trellis.forward)
        labels_BKT, score_BK = replace(trellis, unary=only_labels(trellis.unary)).best(self.nbest)
        return hypotheses(trellis, labels_BKT, score_BK)

    @torch.inference_mode()
    def force(self, model: Chain, source: Padded, target: Padded) -> list[Hypothesis]:
        return forced(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Viterbi:
        return self if nbest is None else replace(self, nbest=nbest)


@dataclass(frozen=True)
class PenalisedViterbi(Viterbi):
    """``Viterbi`` with penalties for labels, which are given by their ids.

    ``log_prob`` of a hypothesis is its log-probability by the model. ``score`` is ``log_prob`` minus the penalties of
    its labels.
    """

    penalty_of: tuple[tuple[int, float], ...] = ()  # pairs of a label's id and its penalty

    @torch.inference_mode()
    def __call__(self, model: Chain, source: Padded, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        check_no_prefix(prefix)
        trellis = model.trellis(source)
        check_nbest(self.nbest, trellis.forward)
        penalty_L = trellis.unary.new_zeros(trellis.unary.shape[-1])
        for label, penalty in self.penalty_of:
            penalty_L[label] = penalty
        lowered = replace(trellis, unary=only_labels(trellis.unary) - penalty_L)
        labels_BKT, score_BK = lowered.best(self.nbest)
        penalty_BK = penalty_L[labels_BKT].masked_fill(~trellis.mask[:, None], 0.0).sum(2)
        found = hypotheses(trellis, labels_BKT, score_BK + penalty_BK)
        return [[replace(each, score=each.log_prob - self._penalty(each.tokens)) for each in row] for row in found]

    def _penalty(self, tokens: tuple[int, ...]) -> float:
        return sum(penalty * tokens.count(label) for label, penalty in self.penalty_of)


@dataclass(frozen=True)
class Posterior:
    """Finds the label with the highest posterior probability p(y_t | x) at each place.

    This maximises the expected number of right labels. The sequence as a whole may be improbable. The log-probabilities
    of the sequence and of its tokens are computed as in ``Viterbi``. A label is never ``<unk>``. Raises UserError for a
    prefix.
    """

    @torch.inference_mode()
    def __call__(self, model: Chain, source: Padded, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        check_no_prefix(prefix)
        trellis = model.trellis(source)
        labels_BT = only_labels(trellis.posteriors()).argmax(-1)
        return hypotheses(trellis, labels_BT[:, None], trellis.score(labels_BT)[:, None])

    @torch.inference_mode()
    def force(self, model: Chain, source: Padded, target: Padded) -> list[Hypothesis]:
        return forced(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Posterior:
        if (nbest or 1) > 1:
            raise UserError(f'nbest = {nbest}: there is one label of highest posterior; set search.type = "viterbi"')
        return self


def forced(model: Chain, source: Padded, target: Padded) -> list[Hypothesis]:
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
