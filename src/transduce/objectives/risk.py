"""Learning from a metric: outputs that it likes become more probable at the cost of those that it does not.

B sources, K outputs of each, N = B * K rows of T positions, M of them real, V vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from transduce import tree
from transduce.compute.precision import unrecorded
from transduce.errors import UserError
from transduce.metrics.base import metric as named
from transduce.metrics.statistics import check_compares_texts, sentence_score
from transduce.objectives.chunks import by_parts
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.protocols import Autoregressive, Search
from transduce.search.beam import Beam
from transduce.search.forcing import shifted
from transduce.types import Batch, Example, Loss, Padded, Prediction, widened

Tokens = tuple[int, ...]
Decode = Callable[[Sequence[int]], str]


class ExpectedRisk:
    """The risk that is to be expected of a model's own outputs (Shen et al. 2016, eq. 9 to 11; over the n best:
    Prabhavalkar et al. 2018, eq. 5), to go on with where cross-entropy has led (``--init``):

    sum over y of q(y | x) risk(y), where y are the ``outputs`` best that ``candidates`` finds, without dropout, with
    the model as it is; q(y | x) is p(y | x) to the power of ``sharpness``, made to sum to 1 over them; and the risk is
    the ``metric`` of one sentence as a share, or what it lacks of 1, times the target's tokens. ``likelihood`` times
    plain cross-entropy is added. Reports ``nll``, and ``risk``, the first sum. In validation it is cross-entropy.
    """

    def __init__(
        self,
        metric: str,
        outputs: int = 4,
        candidates: Search[Autoregressive[Any]] = Beam(size=4),  # noqa: B008 it is frozen
        sharpness: float = 1.0,
        likelihood: float = 0.1,
    ) -> None:
        self.metric = named(metric)
        check_compares_texts(self.metric)
        if outputs < 2:
            raise UserError(f"outputs = {outputs}: what one output risks no other can save; at least 2 were expected")
        if not sharpness > 0:
            raise UserError(f"sharpness = {sharpness}: more than 0 was expected")
        if not likelihood >= 0:
            raise UserError(f"likelihood = {likelihood}: 0, for the risk alone, or more was expected")
        self.search = candidates.resized(nbest=outputs)
        self.sharpness, self.likelihood = sharpness, likelihood
        self.cross_entropy = CrossEntropy()
        self.decode: Decode = _unread

    def reading(self, decode: Decode) -> ExpectedRisk:
        own = copy.copy(self)
        own.decode = decode
        return own

    def __call__(
        self, model: Autoregressive[Any], batch: Batch, progress: float = 0.0, carry: Any = None
    ) -> tuple[Loss, Any]:
        if not model.training:
            return self.cross_entropy(model, batch)
        outputs = self._candidates(model, batch)
        most = max(map(len, outputs))
        state = model.start(batch.source)
        likelihood = self.cross_entropy.of(model, tree.fork(state), batch.target)
        log_prob_BK = log_probs(model, tree.repeat(state, most), _padded(outputs, most, batch)).view(-1, most)
        risk_BK = self._risks(outputs, most, batch).to(log_prob_BK)
        none_BK = risk_BK.isnan()
        q_BK = (self.sharpness * log_prob_BK).masked_fill(none_BK, -torch.inf).softmax(-1)
        risk = (q_BK * risk_BK.masked_fill(none_BK, 0)).sum()
        total = risk + self.likelihood * likelihood.total
        return Loss(total, likelihood.count, {"nll": likelihood.plain, "risk": risk.detach()}), carry

    def _candidates(self, model: Any, batch: Batch) -> list[list[Tokens]]:
        """Outputs of each source, closed with EOS, no two alike."""
        with _at_rest(model), unrecorded():
            found = self.search(model, batch.source)
        return [list(dict.fromkeys(each.tokens for each in of_one)) for of_one in found]

    def _risks(self, outputs: list[list[Tokens]], most: int, batch: Batch) -> Tensor:
        """[B, K], NaN where there is no output."""
        rows = []
        for of_one, target, length in zip(outputs, batch.target.values.tolist(), batch.target.lengths, strict=True):
            reference = Example("", (self.decode(target[: int(length)]),))
            risks = [int(length) * self._risk(self.decode(tokens), reference) for tokens in of_one]
            rows.append([*risks, *[float("nan")] * (most - len(risks))])
        return torch.tensor(rows)

    def _risk(self, text: str, reference: Example) -> float:
        share = sentence_score(self.metric, self.metric.statistics(Prediction(text), reference)) / 100
        return 1 - share if self.metric.higher_is_better else share


def log_probs(model: Autoregressive[Any], state: Any, target: Padded) -> Tensor:
    """log p(y | x) [N] of each row of ``target``, differentiable."""
    output, _ = model.extend(shifted(target), state)
    mask_NT = target.mask
    real, target_M = tree.map(lambda leaf: leaf[mask_NT], output), target.values[mask_NT]

    def part(output: Any, target: Tensor) -> Tensor:
        logits_MV = model.readout(output)
        wide = widened(logits_MV.dtype)
        return logits_MV.log_softmax(-1, wide).gather(1, target[:, None])[:, 0]

    log_prob_M = torch.cat(by_parts(model, part, real, target_M))
    return log_prob_M.new_zeros(mask_NT.shape).masked_scatter(mask_NT, log_prob_M).sum(1)


@contextmanager
def _at_rest(model: nn.Module) -> Iterator[None]:
    """Without dropout, as it is when it is used; whatever of it was in training is again afterwards."""
    at_work = [part for part in model.modules() if part.training]
    model.eval()
    try:
        yield
    finally:
        for part in at_work:
            part.training = True


def _padded(outputs: list[list[Tokens]], most: int, batch: Batch) -> Padded:
    """[B * K, T]; in the place of an output that is not there stands the first."""
    rows = [row for of_one in outputs for row in (*of_one, *of_one[:1] * (most - len(of_one)))]
    return Padded.of(rows).to(batch.target.values.device)


def _unread(tokens: Sequence[int]) -> str:
    raise UserError("minimum risk compares texts: tell it how ids are read, ExpectedRisk(...).reading(decode)")
