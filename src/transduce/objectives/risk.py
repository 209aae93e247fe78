"""Minimum risk training: the model's outputs with better metric scores become more probable.

B sources, K outputs of each, N = B * K rows of T positions, M of them real, V vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from transduce.compute.precision import unrecorded
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import AnySearch, Autoregressive, Carry, S, Search
from transduce.core.types import Batch, Example, Loss, Padded, Prediction, widened
from transduce.metrics.base import metric as named
from transduce.metrics.statistics import check_compares_texts, sentence_score
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.objectives.readout import map_chunks
from transduce.search.beam import Beam
from transduce.search.forcing import shifted

Tokens = tuple[int, ...]
Decode = Callable[[Sequence[int]], str]


class ExpectedRisk:
    """The expected risk of a model's own outputs (Shen et al. 2016, eq. 9 to 11; n-best lists: Prabhavalkar et al.
    2018, eq. 5). Start it from a model that cross-entropy has trained (``--init``). The loss is

    the sum over y of q(y | x) risk(y) + ``likelihood`` * cross-entropy.

    The y are the ``outputs`` best hypotheses that the search ``candidates`` finds with the current model, without
    dropout. Equal hypotheses count once. q(y | x) is p(y | x) to the power of ``sharpness``, normalised over the y. The
    risk is 1 minus the sentence's ``metric`` as a share, or the share itself if lower is better. It is multiplied by
    the number of target tokens. Reports ``nll``, and ``risk``, the first sum. The validation loss is cross-entropy.
    """

    def __init__(
        self,
        metric: str,
        outputs: int = 4,
        candidates: Search[Autoregressive[S]] = Beam(size=4),  # noqa: B008 a frozen dataclass
        sharpness: float = 1.0,
        likelihood: float = 0.1,
    ) -> None:
        self.comparison = Comparison(metric)
        check_options(outputs, sharpness, likelihood)
        self.search = candidates.resized(nbest=outputs)
        self.sharpness, self.likelihood = sharpness, likelihood
        self.cross_entropy = CrossEntropy()

    def reading(self, decode: Decode) -> ExpectedRisk:
        own = copy.copy(self)
        own.comparison = self.comparison.reading(decode)
        return own

    def __call__(
        self, model: Autoregressive[S], batch: Batch, progress: float = 0.0, carry: Carry = None
    ) -> tuple[Loss, Carry]:
        if not model.training:
            return self.cross_entropy(model, batch)
        outputs = distinct_outputs(self.search, model, batch)
        most = max(map(len, outputs))  # K
        state = model.start(batch.source)
        likelihood = self.cross_entropy.of(model, tree.fork(state), batch.target)
        log_prob_BK = log_probs(model, tree.repeat(state, most), padded(outputs, most, batch)).view(-1, most)
        risk = expected_risk(log_prob_BK, self.comparison.risks(outputs, most, batch), self.sharpness)
        total = risk + self.likelihood * likelihood.total
        return Loss(total, likelihood.count, {"nll": likelihood.plain, "risk": risk.detach()}), carry


class Comparison:
    """Compares outputs with targets by the metric with this name. ``reading`` returns a comparison that turns ids into
    text with ``decode``. Raises UserError if the metric compares no texts.
    """

    def __init__(self, metric: str) -> None:
        self.metric = named(metric)
        check_compares_texts(self.metric)
        self.decode: Decode | None = None

    def reading(self, decode: Decode) -> Comparison:
        own = copy.copy(self)
        own.decode = decode
        return own

    def risks(self, outputs: list[list[Tokens]], most: int, batch: Batch) -> Tensor:
        """The risks [B, K] of the outputs of each source, times the number of target tokens. K is ``most``. If a source
        has fewer than K outputs, the rest of its row is NaN.
        """
        if self.decode is None:
            raise UserError(
                "minimum risk compares texts: give it the function that decodes ids, ExpectedRisk(...).reading(decode)"
            )
        rows = []
        for own, target, length in zip(outputs, batch.target.values.tolist(), batch.target.lengths, strict=True):
            reference = Example("", (self.decode(target[: int(length)]),))
            risks = [int(length) * self._risk(self.decode(tokens), reference) for tokens in own]
            rows.append([*risks, *[float("nan")] * (most - len(risks))])
        return torch.tensor(rows)

    def _risk(self, text: str, reference: Example) -> float:
        share = sentence_score(self.metric, self.metric.statistics(Prediction(text), reference)) / 100
        return 1 - share if self.metric.higher_is_better else share


def check_options(outputs: int, sharpness: float, likelihood: float) -> None:
    """Raises UserError for options that are out of range."""
    if outputs < 2:
        raise UserError(
            f"outputs = {outputs}: at least 2 were expected, because a single output always has probability 1"
        )
    if not sharpness > 0:
        raise UserError(f"sharpness = {sharpness}: more than 0 was expected")
    if not likelihood >= 0:
        raise UserError(f"likelihood = {likelihood}: 0, for the risk alone, or more was expected")


def distinct_outputs(search: AnySearch, model: Any, batch: Batch) -> list[list[Tokens]]:
    """The distinct outputs that the search finds for each source, as ids that end with EOS. The model computes them
    without dropout.
    """
    with _evaluation_mode(model), unrecorded():
        found = search(model, batch.source)
    return [list(dict.fromkeys(hypothesis.tokens for hypothesis in own)) for own in found]


def expected_risk(log_prob_BK: Tensor, risk_BK: Tensor, sharpness: float) -> Tensor:
    """The sum of q(y | x) risk(y) over all outputs of all sources. q is p to the power of ``sharpness``, normalised
    over the K outputs of a source. Places whose risk is NaN have no output. Differentiable in ``log_prob_BK``.
    """
    risk_BK = risk_BK.to(log_prob_BK)
    missing_BK = risk_BK.isnan()
    q_BK = (sharpness * log_prob_BK).masked_fill(missing_BK, -torch.inf).softmax(-1)
    return (q_BK * risk_BK.masked_fill(missing_BK, 0)).sum()


def log_probs(model: Autoregressive[S], state: S, target: Padded) -> Tensor:
    """log p(y | x) [N], one for each row of ``target`` [N, T]. ``state`` has N rows, too. Differentiable."""
    output, _ = model.extend(shifted(target), state)
    mask_NT = target.mask
    real, target_M = tree.map(lambda leaf: leaf[mask_NT], output), target.values[mask_NT]

    def token_log_probs(output: object, target: Tensor) -> Tensor:
        logits_MV = model.readout(output)
        wide = widened(logits_MV.dtype)
        return logits_MV.log_softmax(-1, wide).gather(1, target[:, None])[:, 0]

    log_prob_M = torch.cat(map_chunks(model, token_log_probs, real, target_M))
    return log_prob_M.new_zeros(mask_NT.shape).masked_scatter(mask_NT, log_prob_M).sum(1)


@contextmanager
def _evaluation_mode(model: nn.Module) -> Iterator[None]:
    """A context in which all modules of the model are in evaluation mode. Modules that were in training mode are in
    training mode again at its end.
    """
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def padded(outputs: list[list[Tokens]], most: int, batch: Batch) -> Padded:
    """The outputs of all sources as rows [B * K, T], with K = ``most`` rows for each source. A source with fewer
    outputs repeats its first one.
    """
    rows = [row for own in outputs for row in (*own, *own[:1] * (most - len(own)))]
    return Padded.of(rows).to(batch.target.values.device)
