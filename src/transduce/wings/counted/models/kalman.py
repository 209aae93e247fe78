"""Linear-Gaussian state-space models that forecast with the Kalman filter. B series, T steps, C channels, N states."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from transduce.core import registry
from transduce.core.errors import UserError
from transduce.core.types import Forecasts, Padded
from transduce.data.pairs import Pairs
from transduce.wings.counted.kalman.components import Component, Trend, joined
from transduce.wings.counted.kalman.estimation import Estimated, GradientAscent, em_pass
from transduce.wings.counted.kalman.filtering import Filtered, Observed, Parameters, kalman_filter
from transduce.wings.counted.kalman.smoothing import smooth
from transduce.wings.signals.modules.numbers import grouped

ROWS = 1024  # series that are filtered at once
WIDE = 1e4  # variance of the first state if it may be anything, in scaled units


class KalmanFilter(nn.Module):
    """y_t = H x_t + v_t with states x_t+1 = F x_t + w_t: numbers that are observed of hidden states, with noise.

    Both noises are normal, and so is each forecast. The state joins the states of all ``components``, one after the
    other. The numbers are the sum of the components and of noise. By default there is one ``Trend``. A number may be
    missing (NaN) in sources and targets. ``predict`` can write any number of steps; ``steps`` is how many a search asks
    for by default.

    ``estimation`` "em" is expectation maximisation, which never loses likelihood and is slow for small variances.
    "gradient" is L-BFGS, which is faster. ``start`` "learned" estimates the mean and covariance of the first state from
    many series or windows. "wide" lets the first state be anything (variance 10,000 in scaled units): choose it if
    there are fewer series than states.

    Source and target are one series, so they need the same channels and one scale (``data.units.joint``). Raises
    UserError unless the channels are the same, for a choice that does not exist, and for no component or less than one
    step.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        components: tuple[Component, ...] = (Trend(),),
        steps: int = 12,
        estimation: Literal["em", "gradient"] = "em",
        start: Literal["learned", "wide"] = "learned",
    ) -> None:
        super().__init__()
        _check(source_vocabulary, target_vocabulary, components, steps, estimation, start)
        self.steps, self.channels, self.estimation, self.start = steps, target_vocabulary, estimation, start
        self.component_names = [registry.name_of("Component", type(each)) or type(each).__name__ for each in components]
        self.sizes = [len(each.block(self.channels).transition) for each in components]
        block = joined([each.block(self.channels) for each in components])
        states = len(block.transition)
        self.estimated = Estimated(
            block.transition_free, block.state_noise != 0, block.observation_free, start == "learned"
        )
        eye_NN = torch.eye(states, dtype=torch.float64)
        self.transition = _fixed(block.transition)
        self.state_noise = _fixed(block.state_noise)
        self.observation = _fixed(block.observation)
        self.noise = _fixed(0.1 * torch.eye(self.channels, dtype=torch.float64))
        self.first_mean = _fixed(torch.zeros(states, dtype=torch.float64))
        self.first_covariance = _fixed(eye_NN if start == "learned" else WIDE * eye_NN)

    def counts(self, pairs: Pairs) -> SeriesCounts:
        return SeriesCounts(self, pairs)

    def parameters_now(self) -> Parameters:
        """The parameters in float64, even if the model was converted to another type."""
        return Parameters(
            *(
                each.double()
                for each in (
                    self.transition,
                    self.state_noise,
                    self.observation,
                    self.noise,
                    self.first_mean,
                    self.first_covariance,
                )
            )
        )

    def predict(self, source: Padded, steps_B: Tensor) -> Tensor:
        return self.distribution(source, steps_B).mean

    @torch.no_grad()
    def distribution(self, source: Padded, steps_B: Tensor) -> Forecasts:
        series = grouped(source, self.channels)
        model, steps = self.parameters_now(), max(1, int(steps_B.max()))
        observed = Observed.of(_joined(series, _nothing(series, steps)))
        filtered = kalman_filter(model, observed)
        ahead_BT = series.lengths[:, None] + torch.arange(steps, device=series.lengths.device)
        mean_BTC, variance_BTC = shown(model, observed, filtered)
        rows_B1 = torch.arange(len(ahead_BT), device=ahead_BT.device)[:, None]
        kind = source.values.dtype
        return Forecasts(mean_BTC[rows_B1, ahead_BT].to(kind), variance_BTC[rows_B1, ahead_BT].sqrt().to(kind))

    @torch.no_grad()
    def log_density(self, source: Padded, target: Padded) -> Tensor:
        series, later = (grouped(each, self.channels) for each in (source, target))
        filtered = kalman_filter(self.parameters_now(), Observed.of(_joined(series, later)))
        ahead_BT = series.lengths[:, None] + torch.arange(later.values.shape[1], device=series.lengths.device)
        rows_B1 = torch.arange(len(ahead_BT), device=ahead_BT.device)[:, None]
        density_BN = filtered.log_density[rows_B1, ahead_BT].flatten(1)
        cut = target.values.shape[1] - 1 - density_BN.shape[1]  # a step that was cut has no density
        return nn.functional.pad(density_BN, (0, cut))

    @torch.no_grad()
    def smoothed(self, source: Padded) -> tuple[list[Forecasts], Forecasts]:
        """Each component and their sum at all steps of the source, given all its numbers. Missing ones have values too.

        The components and the sum are [B, S, C], float64. Their deviations describe the uncertainty about them; the
        noise of observations is left out.
        """
        series = grouped(source, self.channels)
        model = self.parameters_now()
        observed = Observed.of(_joined(series, _nothing(series, 0)))
        found = smooth(model, observed, kalman_filter(model, observed))
        bounds = torch.tensor([0, *self.sizes]).cumsum(0).tolist()
        parts = []
        for first, end in [*itertools.pairwise(bounds), (0, bounds[-1])]:
            H_CN = model.observation[:, first:end]
            spread_UTCN = H_CN @ found.covariance[..., first:end, first:end]
            variance_UTC = (spread_UTCN * H_CN).sum(-1).clamp(min=0)
            parts.append(Forecasts(found.mean[..., first:end] @ H_CN.T, variance_UTC.sqrt()[observed.pattern]))
        return parts[:-1], parts[-1]


class SeriesCounts:
    """``Counts`` of a Kalman filter: passes of expectation maximisation or of L-BFGS. A pair's source and target are
    one series. Raises UserError for tokens.
    """

    def __init__(self, model: KalmanFilter, pairs: Pairs) -> None:
        if any(side.ids.dtype.kind != "f" for side in (pairs.source, pairs.target)):
            raise UserError(
                'a Kalman filter reads series of numbers, and the data has tokens: set data.units.joint = "numbers"'
            )
        self.model = model
        device = model.transition.device
        self.groups = []
        for batch in pairs.in_turn(ROWS):
            series, later = (grouped(each, model.channels) for each in (batch.source, batch.target))
            self.groups.append(Observed.of(_joined(series, later).to(device)))
        self.tokens = max(1, sum(int(each.known.sum()) for each in self.groups))
        self.current = model.parameters_now()
        self.ascent = GradientAscent(self.current, model.estimated) if model.estimation == "gradient" else None
        gaps = sum(int((~each.known).any(-1).sum()) for each in self.groups)
        self.report = (
            f"{len(pairs):,} series, {len(self.current.mean)} states, {self.tokens:,} numbers"
            + (f"; {gaps:,} steps with gaps or padding" if gaps else ""),
        )

    def reestimate(self) -> float:
        if self.ascent is not None:
            log_prob = self.ascent(self.groups)
            self.current = self.ascent.parameters()
            return log_prob
        with torch.no_grad():
            self.current, log_prob = em_pass(self.current, self.model.estimated, self.groups)
        return log_prob

    def store(self) -> None:
        model, found = self.model, self.current
        for parameter, value in (
            (model.transition, found.transition),
            (model.state_noise, found.state_noise),
            (model.observation, found.observation),
            (model.noise, found.noise),
            (model.first_mean, found.mean),
            (model.first_covariance, found.covariance),
        ):
            parameter.data = value.detach().to(parameter)


def shown(model: Parameters, observed: Observed, filtered: Filtered) -> tuple[Tensor, Tensor]:
    """Mean and variance [B, T, C] of each number at all T steps of ``observed``, given the numbers before its step; the
    variance contains the noise.
    """
    H = model.observation
    variances = [((H @ P_UNN) * H).sum(-1) + model.noise.diagonal() for P_UNN in filtered.covariance[:-1]]
    mean_BTC = torch.stack(filtered.mean[:-1], 1) @ H.T
    return mean_BTC, torch.stack(variances, 1)[observed.pattern]


def _fixed(value: Tensor) -> nn.Parameter:
    return nn.Parameter(value, requires_grad=False)


def _nothing(series: Padded, steps: int) -> Padded:
    """``steps`` steps of NaN for each series."""
    B, _, C = series.values.shape
    return Padded(series.values.new_full((B, steps, C), torch.nan), torch.full_like(series.lengths, steps))


def _joined(first: Padded, second: Padded) -> Tensor:
    """Each row's steps [B, S, C] of the first and then of the second, without padding between: NaN after the last."""
    B, S, C = first.values.shape
    T = second.values.shape[1]
    row_BT = torch.full((B, S + T, C), torch.nan, dtype=torch.float64, device=first.values.device)
    row_BT[:, :S][first.mask] = first.values[first.mask].double()
    place_BT = first.lengths[:, None] + torch.arange(T, device=first.lengths.device)
    rows_BT = torch.arange(B, device=place_BT.device)[:, None].expand(B, T)
    row_BT[rows_BT[second.mask], place_BT[second.mask]] = second.values[second.mask].double()
    return row_BT


def _check(source: int, target: int, components: Sequence[Component], steps: int, estimation: str, start: str) -> None:
    if source != target:
        raise UserError(
            f"a Kalman filter forecasts the channels that it reads, but {source} are read and {target} written: set "
            "data.origin.targets to all columns, or leave it out"
        )
    if not components:
        raise UserError('components = []: at least one was expected, such as ["trend"]')
    if steps < 1:
        raise UserError(f"steps = {steps}: at least 1 was expected")
    for name, value, choices in (
        ("estimation", estimation, ("em", "gradient")),
        ("start", start, ("learned", "wide")),
    ):
        if value not in choices:
            raise UserError(f'{name} = "{value}": expected "{choices[0]}" or "{choices[1]}"')
