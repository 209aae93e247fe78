"""Gaussian emissions: each state generates vectors of numbers. B rows, T steps, D numbers of a step, S states, N steps
in total, C directions of a covariance (D for a full one)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from transduce.core.chain import check_lengths
from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.models.tables import check_rows
from transduce.training.counted import empty
from transduce.wings.counted.hidden_markov.base import Weighted
from transduce.wings.signals.modules.numbers import grouped

SAMPLE = 4096  # steps from which random first means are drawn
LEAST = 1e-6  # a variance of all steps that is smaller counts as this much
SEEN = 1e-3  # a state that emits less than this many steps keeps its parameters


class GaussianEmissions(nn.Module):
    """The log-density of x_t for each state: a normal distribution with its own mean and covariance (Rabiner 1989,
    section IV). The source is a signal or a series of numbers.

    ``covariance`` "full" has correlations; "diagonal" has a variance for each number alone. No variance, in any
    direction, is smaller than the share ``floor`` of the variance of all steps, so no covariance is singular. If no
    state is known, the first means are steps that lie apart (k-means++, Arthur and Vassilvitskii 2007). Raises
    UserError if the source has tokens.
    """

    def __init__(
        self,
        labels: int,
        source_vocabulary: int,
        source_factors: int,
        covariance: Literal["diagonal", "full"] = "diagonal",
        floor: float = 0.01,
    ) -> None:
        super().__init__()
        if source_factors != source_vocabulary:
            raise UserError(
                f"Gaussian emissions read numbers, and the source has tokens, {source_vocabulary} in its vocabulary: "
                'set data.units.source = "numbers" or a signal\'s, or model.emission = "words"'
            )
        if covariance not in ("diagonal", "full"):
            raise UserError(f'covariance = "{covariance}": expected "diagonal" or "full"')
        if not 0 < floor <= 1:
            raise UserError(f"floor = {floor}: more than 0 and at most 1 was expected, a share of the variance")
        self.channels, self.covariance, self.floor, self.labels = source_vocabulary, covariance, floor, labels
        self.mean = empty(torch.float64, source_vocabulary)  # [S, D]
        self.whitening = empty(torch.float64, source_vocabulary, source_vocabulary if covariance == "full" else 1)

    def check_tables(self) -> None:
        if len(self.mean):
            check_rows(self.labels, {"mean": self.mean})
        check_rows(len(self.mean), {"whitening": self.whitening})

    def forward(self, source: Padded) -> Padded:
        if not len(self.mean):
            raise UserError("this hidden Markov model has not been counted: train it first")
        steps = self.read(source)
        log_density_NS = self.log_density(steps.values.flatten(0, 1).double())
        density_BTS = log_density_NS.view(*steps.values.shape[:2], self.labels)
        return Padded(density_BTS.to(source.values.dtype), steps.lengths)

    def lengths(self, source: Padded) -> Tensor:
        return self.read(source).lengths

    def estimation(self, batches: Iterable[Weighted], free: Tensor) -> GaussianEstimation:
        return GaussianEstimation(self, batches, free)

    def read(self, source: Padded) -> Padded:
        """The steps [B, T, D] of a source, 0 at padding; T is at least 1. Raises UserError for missing numbers."""
        steps = source if source.values.ndim == 3 else grouped(source, self.channels)
        values_BTD = steps.values[:, : max(1, int(steps.lengths.max()))]
        if not values_BTD.shape[1]:
            values_BTD = values_BTD.new_zeros(len(values_BTD), 1, self.channels)
        values_BTD = values_BTD.masked_fill(~Padded(values_BTD, steps.lengths).mask[..., None], 0.0)
        if bool(values_BTD.isnan().any()):
            raise UserError("the source has missing numbers, and Gaussian emissions read none: fill them in")
        return Padded(values_BTD, steps.lengths)

    def log_density(self, x_ND: Tensor) -> Tensor:
        """[N, S]: log N(x; mean, covariance) = -|z|^2 / 2 + log |det W| - D / 2 log(2 pi), where z = (x - mean) W and W
        is the state's ``whitening``.
        """
        found = []
        for mean_D, W_DC in zip(self.mean.double(), self.whitening.double(), strict=True):
            z_ND = (x_ND - mean_D) @ W_DC if self.covariance == "full" else (x_ND - mean_D) * W_DC[:, 0]
            scale_D = W_DC.diagonal() if self.covariance == "full" else W_DC[:, 0]
            found.append(scale_D.log().sum() - (z_ND**2).sum(1) / 2)
        return torch.stack(found, 1) - x_ND.shape[1] / 2 * math.log(2 * math.pi)


class GaussianEstimation:
    """``Estimation`` of Gaussian emissions: means and covariances of the steps, weighted by their states' posteriors.

    The floor is a constraint on the covariances. The maximum under it has the same directions and raised variances, so
    the likelihood does not fall.
    """

    def __init__(self, model: GaussianEmissions, batches: Iterable[Weighted], free: Tensor) -> None:
        self.model = model
        D, full = model.channels, model.covariance == "full"
        self.centre_D = torch.zeros(D, dtype=torch.float64)
        self.scale_D = torch.ones(D, dtype=torch.float64)
        whole, known = _Moments(1, D, True), _Moments(model.labels, D, full)
        sample = []
        for source, weights in batches:
            x_ND, weight_NS = self._steps(source, weights)
            whole.add(x_ND, torch.ones(len(x_ND), 1, dtype=torch.float64))
            known.add(x_ND, weight_NS)
            sample.append(x_ND[torch.randperm(len(x_ND))[: max(1, SAMPLE // 8)]])
        if not whole.count_S[0]:
            raise UserError("the training sources have no steps: there is nothing to estimate Gaussian emissions from")
        mean_SD, covariance_SDD = whole.estimates()
        self.centre_D = mean_SD[0]
        self.scale_D = covariance_SDD[0].diagonal().clamp(min=LEAST).sqrt()
        states = model.labels
        means_SD = mean_SD.repeat(states, 1)
        if not known.count_S.any():
            x_ND = torch.cat(sample)[:SAMPLE]
            means_SD[free.cpu()] = apart(x_ND / self.scale_D, int(free.sum())) * self.scale_D
        model.mean.data = means_SD.to(model.mean)
        start_SDC = self._whitening(covariance_SDD if full else covariance_SDD.diagonal(dim1=1, dim2=2)[..., None])
        model.whitening.data = start_SDC.repeat(states, 1, 1).to(model.whitening)
        self._maximise(known)

    def reestimate(self, batches: Iterable[Weighted]) -> None:
        model = self.model
        moments = _Moments(model.labels, model.channels, model.covariance == "full", self.centre_D)
        for source, weights in batches:
            moments.add(*self._steps(source, weights))
        self._maximise(moments)

    def log_prior(self) -> float:
        return 0.0

    def _steps(self, source: Padded, weights: Padded) -> tuple[Tensor, Tensor]:
        """The real steps [N, D] and the weights of their states [N, S], float64, on the CPU."""
        steps = self.model.read(source)
        check_lengths(steps.lengths, weights.lengths)
        mask_BT = steps.mask
        weights_NS = weights.values[:, : mask_BT.shape[1]][mask_BT]
        return steps.values[mask_BT].double().cpu(), weights_NS.double().cpu()

    def _maximise(self, moments: _Moments) -> None:
        model, seen_S = self.model, moments.count_S > SEEN
        mean_SD, covariance_SDC = moments.estimates()
        mean = torch.where(seen_S[:, None], mean_SD, model.mean.double().cpu())
        whitening = model.whitening.double().cpu().clone()
        whitening[seen_S] = self._whitening(covariance_SDC[seen_S])
        model.mean.data, model.whitening.data = mean.to(model.mean), whitening.to(model.whitening)

    def _whitening(self, covariance_SDC: Tensor) -> Tensor:
        """The ``whitening`` W of covariances: a triangular W [S, D, D] with covariance = (W W^T)^-1, or 1 / deviation
        [S, D, 1] for variances. The floor is applied first.
        """
        floor, scale_D = self.model.floor, self.scale_D
        if self.model.covariance == "diagonal":
            return (covariance_SDC / scale_D[:, None] ** 2).clamp(min=floor).rsqrt() / scale_D[:, None]
        values_SD, vectors_SDD = torch.linalg.eigh(covariance_SDC / scale_D[:, None] / scale_D)
        raised_SDD = (vectors_SDD * values_SD.clamp(min=floor)[:, None]) @ vectors_SDD.mT
        factor_SDD = torch.linalg.cholesky(raised_SDD * scale_D[:, None] * scale_D)
        eye_DD = torch.eye(len(scale_D), dtype=torch.float64)
        inverse_SDD: Tensor = torch.linalg.solve_triangular(factor_SDD, eye_DD.expand_as(factor_SDD), upper=False)
        return inverse_SDD.mT.contiguous()


class _Moments:
    """Weighted sums of steps for each state, in float64: the weights, the steps, and their squares (products of all
    pairs of numbers if ``full``). Steps are measured from ``centre`` [D]; None means 0.
    """

    def __init__(self, states: int, channels: int, full: bool, centre: Tensor | None = None) -> None:
        self.full = full
        self.centre_D = torch.zeros(channels, dtype=torch.float64) if centre is None else centre
        self.count_S = torch.zeros(states, dtype=torch.float64)
        self.sum_SD = torch.zeros(states, channels, dtype=torch.float64)
        self.square_SDC = torch.zeros(states, channels, channels if full else 1, dtype=torch.float64)

    def add(self, x_ND: Tensor, weight_NS: Tensor) -> None:
        x_ND = x_ND - self.centre_D
        self.count_S += weight_NS.sum(0)
        self.sum_SD += weight_NS.T @ x_ND
        if not self.full:
            self.square_SDC += (weight_NS.T @ x_ND**2)[..., None]
            return
        for state in weight_NS.any(0).nonzero()[:, 0].tolist():
            own_N = weight_NS[:, state] > 0
            self.square_SDC[state] += (x_ND[own_N] * weight_NS[own_N, state, None]).T @ x_ND[own_N]

    def estimates(self) -> tuple[Tensor, Tensor]:
        """The weighted means [S, D], and the covariances [S, D, D] or variances [S, D, 1]."""
        count_S1 = self.count_S.clamp(min=SEEN)[:, None]
        mean_SD = self.sum_SD / count_S1
        outer_SDC = mean_SD[..., None] * (mean_SD[:, None] if self.full else mean_SD[..., None])
        return mean_SD + self.centre_D, self.square_SDC / count_S1[..., None] - outer_SDC


def apart(x_ND: Tensor, count: int) -> Tensor:
    """[count, D]: rows of ``x_ND`` drawn at random. Each is drawn in proportion to its squared distance from the
    nearest row drawn before it (k-means++).
    """
    chosen = [x_ND[torch.randint(len(x_ND), (1,))[0]]]
    distance_N = torch.full((len(x_ND),), math.inf, dtype=x_ND.dtype)
    for _ in range(count - 1):
        distance_N = distance_N.minimum(((x_ND - chosen[-1]) ** 2).sum(1))
        share_N = distance_N if bool(distance_N.any()) else torch.ones_like(distance_N)
        chosen.append(x_ND[torch.multinomial(share_N, 1)[0]])
    return torch.stack(chosen)
