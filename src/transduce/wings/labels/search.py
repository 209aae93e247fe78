"""Search over labels that do not depend on each other. B sources, T places, V labels, K hypotheses of a source."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from transduce.compute.memory import check_memory
from transduce.core.errors import UserError
from transduce.core.protocols import Parallel, S
from transduce.core.types import EOS, UNK, Emission, Hypothesis, Padded, widened


@dataclass(frozen=True)
class LabelSearch:
    """The ``nbest`` most probable outputs of a tagger or a classifier, whose source decides the number of labels.

    The best output has the most probable label at each place. The other outputs are exact, too, because the n-th best
    output needs only the n best labels of each place. If there are fewer outputs than ``nbest``, all are returned. A
    label is never a special token. ``<unk>`` means a label that is not in the training data. The probabilities of the
    other labels do not get its probability. Raises UserError for a prefix, or if the model chooses the length of its
    outputs.
    """

    nbest: int = 1

    def __post_init__(self) -> None:
        if self.nbest < 1:
            raise UserError(f"nbest = {self.nbest}: at least one output was expected")

    @torch.inference_mode()
    def __call__(self, model: Parallel[S], source: Padded, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        check_no_prefix(prefix)
        emission = model.emit(model.start(source))
        log_probs_BTV = label_log_probs(model, emission)
        check_nbest(self.nbest, log_probs_BTV)
        labels_BKT, score_BK = best_labels(only_labels(log_probs_BTV), emission.mask, self.nbest)
        return _hypotheses(log_probs_BTV, labels_BKT, score_BK, emission.lengths)

    @torch.inference_mode()
    def force(self, model: Parallel[S], source: Padded, target: Padded) -> list[Hypothesis]:
        emission = model.emit(model.start(source), target.lengths - 1)
        log_probs_BTV = label_log_probs(model, emission)
        labels_BT = target.values[:, : log_probs_BTV.shape[1]]
        each_BT = log_probs_BTV.gather(2, labels_BT[..., None])[..., 0].double()
        score_B = each_BT.masked_fill(~emission.mask, 0.0).sum(1)
        found = _hypotheses(log_probs_BTV, labels_BT[:, None], score_B[:, None], emission.lengths)
        return [hypothesis for (hypothesis,) in found]

    def resized(self, size: int | None = None, nbest: int | None = None) -> LabelSearch:
        return self if nbest is None else replace(self, nbest=nbest)


def only_labels(scores_V: Tensor) -> Tensor:
    """Returns a copy of the scores [..., V] in which the special tokens PAD, BOS, EOS and UNK have minus infinity."""
    scores_V = scores_V.clone()
    scores_V[..., : UNK + 1] = float("-inf")
    return scores_V


def check_nbest(nbest: int, scores_BTV: Tensor) -> None:
    """Raises UserError if a step of the search for ``nbest`` label sequences of each source, with [B, nbest, V] scores,
    needs more than the device's total memory.
    """
    check_memory(nbest * scores_BTV[:, 0].numel() * scores_BTV.element_size(), f"nbest = {nbest}", scores_BTV.device)


def label_log_probs(model: Parallel[S], emission: Emission) -> Tensor:
    """Log-probabilities [B, T, V] of all tokens of the vocabulary at each place, at least in float32. Raises UserError
    if the model chooses the length of its outputs.
    """
    if emission.length_log_probs is not None:
        raise UserError(
            'this model chooses the length of its outputs, which labels do not: set search.type = "length-beam"'
        )
    logits_BTV = model.readout(emission.output)
    return logits_BTV.log_softmax(-1, widened(logits_BTV.dtype))


def _hypotheses(
    log_probs_BTV: Tensor, labels_BKT: Tensor, score_BK: Tensor, lengths_B: Tensor
) -> list[list[Hypothesis]]:
    """The hypotheses of these labels, with the log-probability of each label and of the model's first choice."""
    best_BT, choice_BT = only_labels(log_probs_BTV).max(-1)
    each_BTK = log_probs_BTV.gather(2, labels_BKT.transpose(1, 2))
    right_BKT = labels_BKT == choice_BT[:, None]
    return written(
        labels_BKT, score_BK, each_BTK.transpose(1, 2), best_BT[:, None].expand_as(labels_BKT), right_BKT, lengths_B
    )


def best_labels(log_probs_BTV: Tensor, mask_BT: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` best label sequences [B, count, T], best first, and their scores [B, count]. If there are fewer
    sequences, the rest has a score of minus infinity. Past the end of a row, labels have no meaning.
    """
    few = min(count, log_probs_BTV.shape[-1])
    ordered_BTV, label_BTV = log_probs_BTV.sort(stable=True, dim=-1, descending=True)  # resolves ties like argmax
    each_BTF, label_BTF = ordered_BTV[..., :few], label_BTV[..., :few]
    score_BK = torch.full_like(each_BTF[:, 0, :1], float("-inf")).repeat(1, count)
    score_BK[:, 0] = 0.0
    labels_BKT = label_BTF.new_zeros(len(score_BK), count, 0)
    for t in range(log_probs_BTV.shape[1]):
        # after its end, a row has a single continuation without effect
        on_BF = each_BTF[:, t].masked_fill(~mask_BT[:, t, None], float("-inf"))
        on_BF[:, 0] = torch.where(mask_BT[:, t], on_BF[:, 0], 0.0)
        score_BK, place_BK = (score_BK[:, :, None] + on_BF[:, None]).flatten(1).topk(count)
        label_BK = label_BTF[:, t].gather(1, place_BK % few)
        before_BKT = labels_BKT.gather(1, (place_BK // few)[..., None].expand(-1, -1, t))
        labels_BKT = torch.cat([before_BKT, label_BK[..., None]], 2)
    return labels_BKT, score_BK


def written(
    labels_BKT: Tensor,
    log_prob_BK: Tensor,
    each_BKT: Tensor,
    best_BKT: Tensor,
    right_BKT: Tensor,
    lengths_B: Tensor,
    score_BK: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """Returns the hypotheses of each source, in the order of their rows [B, K]. Hypotheses with log-probability minus
    infinity are left out. Without ``score_BK``, a log-probability is also the score.

    ``each_BKT`` has the log-probabilities of the labels, and ``best_BKT`` the log-probabilities of the model's first
    choices. ``right_BKT`` says which labels are first choices. The first ``lengths_B`` of the T places are used. Each
    hypothesis ends with EOS, whose log-probability is 0. EOS is no choice of the model, so ``best_log_probs`` and
    ``right`` leave it out.
    """
    score_BK = log_prob_BK if score_BK is None else score_BK
    leaves = labels_BKT, log_prob_BK, score_BK, each_BKT, best_BKT, right_BKT, lengths_B
    return [
        [
            Hypothesis((*labels[:n], EOS), log_prob, score, (*each[:n], 0.0), tuple(best[:n]), tuple(right[:n]))
            for labels, log_prob, score, each, best, right in zip(*columns, strict=True)
            if log_prob > float("-inf")
        ]
        for *columns, n in zip(*(leaf.tolist() for leaf in leaves), strict=True)
    ]


def check_no_prefix(prefix: Padded | None) -> None:
    """Raises UserError if there is a prefix."""
    if prefix is not None:
        raise UserError(
            "an output of labels has one label for each token of its source, so it cannot start with a prefix: leave "
            "the prefix out"
        )
