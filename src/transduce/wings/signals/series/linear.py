"""Linear autoregression: each forecast is a weighted sum of the last steps. B rows, S steps read, T steps written.

P = S * C numbers are read and N = T * C are written, where C is the number of channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.data.pairs import Pairs
from transduce.wings.signals.modules.numbers import grouped
from transduce.wings.signals.series.levels import Level, Levelled, check_level, level_of

ROWS = 4096  # windows that are read at once
STRENGTHS = tuple(10.0**power for power in range(-6, 5))
HELD_OUT = 0.2  # share of the windows that choose the ridge's strength: the last ones, as a forecast is of later steps


class LinearForecaster(nn.Module):
    """y = W x + b: each of the next ``steps`` steps is a weighted sum of the last ``order`` steps of a series (a direct
    linear autoregression; Ben Taieb et al. 2012). Each step ahead has its own weights, of all channels.

    There is one such forecast for each of the ``levels``, which are as in ``Forecaster``. The result is their mean,
    whose error is usually smaller (Bates and Granger 1969). Without a level, a forecast returns to the mean of the
    training set. The other forecasts stay near the end of the source.

    Counted, not trained: least squares with a ridge (Hoerl and Kennard 1970). ``ridge`` is the strength, a share of the
    mean square of the numbers read. None chooses it for each level: the weights of the first four fifths of the
    training windows must forecast the last fifth best. Then all windows give the weights. A longer source is cut to its
    last steps. A shorter one is padded with zeros on the left, after its level is taken away. If ``levels`` is None,
    there are all three, or "none" alone if other channels are written than read. Raises UserError for missing numbers
    in a source, and for values that are not allowed.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        order: int = 24,
        steps: int = 12,
        ridge: float | None = None,
        levels: tuple[Level, ...] | None = None,
    ) -> None:
        super().__init__()
        if levels is None:
            levels = ("none", "last", "window") if source_vocabulary == target_vocabulary else ("none",)
        if not levels:
            raise UserError('levels = []: at least one was expected, such as ["last"]')
        for level in levels:
            check_level(level, source_vocabulary, target_vocabulary, "levels")
        for name, value in (("order", order), ("steps", steps)):
            if value < 1:
                raise UserError(f"{name} = {value}: at least one step was expected")
        if ridge is not None and not ridge >= 0:
            raise UserError(f"ridge = {ridge}: at least 0 was expected, or nothing to choose it")
        self.order, self.steps, self.ridge, self.levels = order, steps, ridge, levels
        self.read, self.channels = source_vocabulary, target_vocabulary
        self.weight = nn.Parameter(
            torch.zeros(len(levels), steps * target_vocabulary, order * source_vocabulary), requires_grad=False
        )
        self.bias = nn.Parameter(torch.zeros(len(levels), steps * target_vocabulary), requires_grad=False)

    def counts(self, pairs: Pairs) -> LeastSquares:
        return LeastSquares(self, pairs)

    def predict(self, source: Padded, steps_B: Tensor) -> Tensor:
        longest = max(1, int(steps_B.max()))
        if longest > self.steps:
            raise UserError(
                f"{longest} steps wanted: this model writes at most model.steps = {self.steps}; ask for fewer "
                "(search.steps), or train it for more"
            )
        forecasts = []
        for weight_NP, bias_N, kind in zip(self.weight, self.bias, self.levels, strict=True):
            level = level_of(source, self.read, kind)
            numbers_BN = nn.functional.linear(self.last_steps(source, level).to(weight_NP.dtype), weight_NP, bias_N)
            numbers_BTC = numbers_BN.view(-1, self.steps, self.channels)[:, :longest]
            forecasts.append(numbers_BTC if level is None else level.given_to(numbers_BTC))
        return torch.stack(forecasts).mean(0)

    def last_steps(self, source: Padded, level: Levelled | None) -> Tensor:
        """The numbers [B, P] of the last ``order`` steps of each source, without the level. Raises UserError for a
        missing number.
        """
        series = grouped(source if level is None else level.taken_from(source), self.read)
        places_BS = series.lengths[:, None] - self.order + torch.arange(self.order, device=series.lengths.device)
        x_BSC = series.values.gather(1, places_BS.clamp(min=0)[..., None].expand(-1, -1, self.read))
        x_BSC = x_BSC.masked_fill((places_BS < 0)[..., None], 0.0)
        if bool(x_BSC.isnan().any()):
            raise UserError(
                "the source has missing numbers, and a linear autoregression reads none: fill them in, or train a "
                'model that reads gaps (model.type = "kalman")'
            )
        return x_BSC.flatten(1)


class LeastSquares:
    """``Counts`` of a linear autoregression: one pass solves the least squares. Windows whose target has fewer steps
    than others, or missing numbers, are left out. Steps that no target has get the weights 0. Raises UserError for
    tokens, and if no window is left.
    """

    def __init__(self, model: LinearForecaster, pairs: Pairs) -> None:
        if any(side.ids.dtype.kind != "f" for side in (pairs.source, pairs.target)):
            raise UserError(
                "a linear autoregression reads series of numbers, and the data has tokens: set data.units.joint = "
                '"numbers"'
            )
        self.model = model
        self.steps = min(model.steps, max(0, (int(pairs.target_lengths.max(initial=1)) - 1) // model.channels))
        self.windows = [self._windows(pairs, kind) for kind in model.levels]
        rows, numbers = self.windows[0][1].shape
        if not rows:
            raise UserError(
                f"none of {len(pairs):,} pairs has a target of {self.steps} steps without a gap to learn from: fill "
                'the gaps, or train a model that reads them (model.type = "kalman")'
            )
        self.tokens = rows * numbers
        self.solutions = [
            (weight_NP[:numbers].double().cpu(), bias_N[:numbers].double().cpu())
            for weight_NP, bias_N in zip(model.weight, model.bias, strict=True)
        ]
        self.strengths = [chosen_strength(*each) if model.ridge is None else model.ridge for each in self.windows]
        ridges = ", ".join(f"{each:g}" for each in self.strengths)
        self.report = (
            f"{rows:,} of {len(pairs):,} windows, {model.order * model.read} numbers read, {numbers} written; ridge "
            f"{ridges} for level {', '.join(model.levels)}",
        )

    def reestimate(self) -> float:
        error = sum(squared_error(*own, *windows) for own, windows in zip(self.solutions, self.windows, strict=True))
        self.solutions = [
            ridge_regression(*windows, strength) for windows, strength in zip(self.windows, self.strengths, strict=True)
        ]
        return -error / len(self.windows)

    def store(self) -> None:
        weights, biases = (torch.stack(each) for each in zip(*self.solutions, strict=True))
        with torch.no_grad():
            self.model.weight[:, : weights.shape[1]] = weights.to(self.model.weight)
            self.model.bias[:, : biases.shape[1]] = biases.to(self.model.bias)

    def _windows(self, pairs: Pairs, kind: Level) -> tuple[Tensor, Tensor]:
        """The numbers read [R, P] and written [R, N], without the level, float64."""
        model, steps = self.model, self.steps
        found = [(torch.empty(0, model.order * model.read), torch.empty(0, steps * model.channels))]
        for batch in pairs.in_turn(ROWS):
            target, level = grouped(batch.target, model.channels), level_of(batch.source, model.read, kind)
            x_BP, y_BTC = model.last_steps(batch.source, level), target.values[:, :steps]
            whole_B = (target.lengths >= steps) & ~y_BTC.flatten(1).isnan().any(1)
            if y_BTC.shape[1] == steps and bool(whole_B.any()):
                y_BTC = y_BTC if level is None else level.without(y_BTC)
                found.append((x_BP[whole_B], y_BTC.flatten(1)[whole_B]))
        x_RP, y_RN = (torch.cat(each).double() for each in zip(*found, strict=True))
        return x_RP, y_RN


def chosen_strength(x_RP: Tensor, y_RN: Tensor) -> float:
    """The ridge with the smallest error on the last windows, for weights that know only the first ones."""
    first = round((1 - HELD_OUT) * len(x_RP))
    if not 0 < first < len(x_RP):
        return 1.0

    def error(strength: float) -> float:
        return squared_error(*ridge_regression(x_RP[:first], y_RN[:first], strength), x_RP[first:], y_RN[first:])

    return min(STRENGTHS, key=error)


def squared_error(weight_NP: Tensor, bias_N: Tensor, x_RP: Tensor, y_RN: Tensor) -> float:
    return float((y_RN - x_RP @ weight_NP.T - bias_N).square().sum())


def ridge_regression(x_RP: Tensor, y_RN: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    """The weights [N, P] and the bias [N] that minimise |y - W x - b|^2 + lambda |W|^2 over all rows. lambda is the
    ``strength`` times the mean square of x (around its mean), summed over the rows. The bias has no penalty.
    """
    x_mean_P, y_mean_N = x_RP.mean(0), y_RN.mean(0)
    x_RP, y_RN = x_RP - x_mean_P, y_RN - y_mean_N
    gram_PP = x_RP.T @ x_RP
    penalty = strength * gram_PP.diagonal().mean() * torch.eye(len(gram_PP), dtype=gram_PP.dtype)
    weight_NP = torch.linalg.lstsq(gram_PP + penalty, x_RP.T @ y_RN, driver="gelsd").solution.T
    return weight_NP, y_mean_N - weight_NP @ x_mean_P
