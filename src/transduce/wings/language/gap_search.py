"""Search for the tokens in the gaps of a text, and the pseudo-likelihood of a text without gaps.

B sources, T tokens, V labels, K hypotheses of a source, M copies of a text, each with one hidden token.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.protocols import Parallel, S
from transduce.core.types import BOS, Hypothesis, Padded
from transduce.wings.labels.search import (
    best_labels,
    check_nbest,
    check_no_prefix,
    label_log_probs,
    only_labels,
    written,
)

AT_ONCE = 4096  # tokens of all copies in one call


@dataclass(frozen=True)
class FillGaps:
    """The ``nbest`` most probable ways to fill the gaps of a text, by a masked language model. A gap is BOS.

    Tokens outside of gaps stay, with log-probability 0. Each gap is predicted from the text with all its gaps. The
    score of a given text (``force``) is its pseudo-log-likelihood: the sum over tokens of the log-probability of the
    token, given all others (Salazar et al. 2020). If the source has gaps, only their tokens count, and the model reads
    the source with all its gaps. Raises UserError for a prefix, and for a given text with another number of tokens than
    its source.
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
        T = log_probs_BTV.shape[1]
        ids_BT = source.values[:, :T]
        kept_BTV = torch.full_like(log_probs_BTV, float("-inf")).scatter(2, ids_BT[..., None], 0.0)
        gap_BT1 = (ids_BT == BOS)[..., None]
        choices_BTV = torch.where(gap_BT1, only_labels(log_probs_BTV), kept_BTV)
        labels_BKT, score_BK = best_labels(choices_BTV, emission.mask, self.nbest)
        each_BKT = choices_BTV.gather(2, labels_BKT.transpose(1, 2)).transpose(1, 2)
        best_BT, choice_BT = choices_BTV.max(-1)
        best_BKT = best_BT[:, None].expand_as(labels_BKT)
        return written(labels_BKT, score_BK, each_BKT, best_BKT, labels_BKT == choice_BT[:, None], emission.lengths)

    @torch.inference_mode()
    def force(self, model: Parallel[S], source: Padded, target: Padded) -> list[Hypothesis]:
        if not torch.equal(source.lengths, target.lengths):
            raise UserError("a text and its source have different numbers of tokens: score a text by itself")
        found = []
        for row, length in enumerate((target.lengths - 1).tolist()):
            read_T, wanted_T = source.values[row, : length + 1], target.values[row, :length]
            each_T, best_T, right_T = _row(model, read_T, wanted_T)
            total = each_T.double().sum()[None, None]
            rows = wanted_T[None, None], total, each_T[None, None], best_T[None, None], right_T[None, None]
            ((hypothesis,),) = written(*rows, target.lengths[row : row + 1] - 1)
            found.append(hypothesis)
        return found

    def resized(self, size: int | None = None, nbest: int | None = None) -> FillGaps:
        return self if nbest is None else replace(self, nbest=nbest)


def _row(model: Parallel[S], read_T: Tensor, wanted_T: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each token of one text [T]: its log-probability, the log-probability of the model's first choice, and whether
    the token is that choice. A token that does not count has 0, 0 and True.
    """
    each_T = torch.zeros(len(wanted_T), device=wanted_T.device)
    best_T, right_T = each_T.clone(), torch.ones_like(wanted_T, dtype=torch.bool)
    for places_M, copies_MS in _copies(read_T):
        lengths_M = torch.full((len(copies_MS),), len(read_T), device=read_T.device)
        log_probs_MTV = label_log_probs(model, model.emit(model.start(Padded(copies_MS, lengths_M))))
        log_probs_MV = log_probs_MTV[torch.arange(len(places_M), device=places_M.device), places_M]
        each_T[places_M] = log_probs_MV.gather(1, wanted_T[places_M, None])[:, 0].float()
        highest_M, choice_M = only_labels(log_probs_MV).max(-1)
        best_T[places_M], right_T[places_M] = highest_M.float(), choice_M == wanted_T[places_M]
    return each_T, best_T, right_T


def _copies(read_T: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields positions [M], and copies of the text [M, S] with a gap at one of these positions in each. The positions
    are the gaps of the text, or all positions if it has none.
    """
    S = len(read_T)
    gaps = (read_T[:-1] == BOS).nonzero()[:, 0]
    every = gaps if len(gaps) else torch.arange(S - 1, device=read_T.device)
    for places_M in torch.split(every, max(1, AT_ONCE // S)):
        copies_MS = read_T.repeat(len(places_M), 1)
        copies_MS[torch.arange(len(places_M), device=read_T.device), places_M] = BOS
        yield places_M, copies_MS
