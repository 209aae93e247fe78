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
from transduce.wings.signals.series.levels import Level, check_level, level_of

ROWS = 4096  # windows that are read at once
STRENGTHS = tuple(10.0**power for power in range(-6, 5))
HELD_OUT = 0.2  # share of the windows that choose the ridge's strength: the last ones, as a forecast is of later steps


class LinearForecaster(nn.Module):
    """y = W x + b: each of the next ``steps`` steps is a weighted sum of the last ``order`` steps of a series (a direct
    linear autoregression; Taieb and Hyndman 2012). Each step ahead has its own weights, of all channels.

    Counted, not trained: least squares with a ridge (Hoerl and Kennard 1970). ``ridge`` is the strength, a share of the
    mean square of the numbers read. None chooses it: the weights of the first four fifths of the training windows must
    forecast the last fifth best. Then all windows give the weights. ``level`` is as in ``Forecaster``. A longer source
    is cut to its last steps. Raises UserError for a shorter one, for missing numbers in a source, and for values that
    are not allowed.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        order: int = 24,
        steps: int = 12,
        ridge: float | None = None,
        level: Level = "last",
    ) -> None:
        super().__init__()
        check_level(level, source_vocabulary, target_vocabulary)
        for name, value in (("order", order), ("steps", steps)):
            if value < 1:
                raise UserError(f"{name} = {value}: at least one step was expected")
        if ridge is not None and not ridge >= 0:
            raise UserError(f"ridge = {ridge}: at least 0 was expected, or nothing to choose it")
        self.order, self.steps, self.ridge, self.level = order, steps, ridge, level
        self.read, self.channels = source_vocabulary, target_vocabulary
        self.weight = nn.Parameter(
            torch.zeros(steps * target_vocabulary, order * source_vocabulary), requires_grad=False
        )
        self.bias = nn.Parameter(torch.zeros(steps * target_vocabulary), requires_grad=False)

    def counts(self, pairs: Pairs) -> WindowSums:
        return WindowSums(self, pairs)

    def predict(self, source: Padded, steps_B: Tensor) -> Tensor:
        longest = max(1, int(steps_B.max()))
        if longest > self.steps:
            raise UserError(
                f"{longest} steps wanted: this model writes at most model.steps = {self.steps}; ask for fewer "
                "(search.steps), or train it for more"
            )
        level = level_of(source, self.read, self.level)
        x_BP = self.last_steps(source if level is None else level.taken_from(source))
        numbers_BTC = nn.functional.linear(x_BP.to(self.weight.dtype), self.weight, self.bias).view(
            len(x_BP), self.steps, self.channels
        )[:, :longest]
        return numbers_BTC if level is None else level.given_to(numbers_BTC)

    def last_steps(self, source: Padded) -> Tensor:
        """The numbers [B, P] of the last ``order`` steps of each source. Raises UserError if one has fewer, or if a
        number is missing.
        """
        series = grouped(source, self.read)
        shortest = int(series.lengths.min())
        if shortest < self.order:
            raise UserError(
                f"a source of {shortest} steps, and this model reads model.order = {self.order}: give more steps, or "
                "train a model that reads fewer"
            )
        places_BS = series.lengths[:, None] - self.order + torch.arange(self.order, device=series.lengths.device)
        x_BSC = series.values.gather(1, places_BS[..., None].expand(-1, -1, self.read))
        if bool(x_BSC.isnan().any()):
            raise UserError(
                "the source has missing numbers, and a linear autoregression reads none: fill them in, or train a "
                'model that reads gaps (model.type = "kalman")'
            )
        return x_BSC.flatten(1)


class WindowSums:
    """``Counts`` of a linear autoregression: one pass solves the least squares. Windows whose target has fewer steps
    than the model writes, or missing numbers, are left out. Raises UserError for tokens, and if no window is left.
    """

    def __init__(self, model: LinearForecaster, pairs: Pairs) -> None:
        if any(side.ids.dtype.kind != "f" for side in (pairs.source, pairs.target)):
            raise UserError(
                "a linear autoregression reads series of numbers, and the data has tokens: set data.units.joint = "
                '"numbers"'
            )
        self.model = model
        self.x_RP, self.y_RN = (torch.cat(each) for each in zip(*self._windows(pairs), strict=True))
        rows = len(self.x_RP)
        if not rows:
            raise UserError(
                f"no pair has a whole target of {model.steps} steps to learn from: set model.steps to the steps of the "
                "targets (data.origin.windows.steps_out)"
            )
        self.tokens = max(1, self.y_RN.numel())
        self.weight_NP, self.bias_N = model.weight.double().cpu(), model.bias.double().cpu()
        self.strength = self._chosen() if model.ridge is None else model.ridge
        self.report = (
            f"{rows:,} of {len(pairs):,} windows, {self.x_RP.shape[1]} numbers read, {self.y_RN.shape[1]} written, "
            f"a ridge of {self.strength:g}",
        )

    def reestimate(self) -> float:
        error = float(self._error(self.weight_NP, self.bias_N, self.x_RP, self.y_RN))
        self.weight_NP, self.bias_N = ridge_regression(self.x_RP, self.y_RN, self.strength)
        return -error

    def store(self) -> None:
        self.model.weight.data = self.weight_NP.to(self.model.weight)
        self.model.bias.data = self.bias_N.to(self.model.bias)

    def _chosen(self) -> float:
        """The strength with the smallest error on the last windows, of weights that know only the first ones."""
        first = round((1 - HELD_OUT) * len(self.x_RP))
        if not 0 < first < len(self.x_RP):
            return 1.0
        x_RP, y_RN, later_x, later_y = self.x_RP[:first], self.y_RN[:first], self.x_RP[first:], self.y_RN[first:]
        return min(
            STRENGTHS, key=lambda each: float(self._error(*ridge_regression(x_RP, y_RN, each), later_x, later_y))
        )

    def _error(self, weight_NP: Tensor, bias_N: Tensor, x_RP: Tensor, y_RN: Tensor) -> Tensor:
        return (y_RN - x_RP @ weight_NP.T - bias_N).square().sum()

    def _windows(self, pairs: Pairs) -> list[tuple[Tensor, Tensor]]:
        """The numbers read [R, P] and written [R, N], without the level, float64, of batches of windows."""
        model, found = self.model, []
        for batch in pairs.in_turn(ROWS):
            target = grouped(batch.target, model.channels)
            level = level_of(batch.source, model.read, model.level)
            x_RP = model.last_steps(batch.source if level is None else level.taken_from(batch.source)).double()
            y_RTC = target.values[:, : model.steps]
            y_RTC = y_RTC if level is None else level.without(y_RTC)
            whole_R = target.lengths >= model.steps
            if y_RTC.shape[1] == model.steps:
                whole_R = whole_R & ~y_RTC.flatten(1).isnan().any(1)
                found.append((x_RP[whole_R], y_RTC.flatten(1)[whole_R].double()))
        size = model.steps * model.channels
        return found or [(torch.empty(0, model.order * model.read), torch.empty(0, size))]


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
