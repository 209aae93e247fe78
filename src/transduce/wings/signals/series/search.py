"""A forecast needs no search: the regressor returns its numbers. B rows, T steps, C channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch

from transduce.core.errors import UserError
from transduce.core.protocols import Density, Regressor, can
from transduce.core.types import EOS, Hypothesis, Padded


@dataclass(frozen=True)
class Forecast:
    """Forecasts the next ``steps`` steps of each source as one hypothesis. The default is the model's largest number.

    The tokens are numbers: all channels of the first step, then all channels of the second, and so on. EOS (its id)
    follows the last step. Log-probability and score are 0. A ``Density`` also gives each number's standard deviation,
    and ``force`` returns its log-densities of the target's numbers, with 0 for EOS. For other regressors, which have no
    probabilities, ``force`` raises UserError. Raises UserError for a prefix.
    """

    steps: int | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 1:
            raise UserError(f"steps = {self.steps}: at least one step was expected")

    @torch.inference_mode()
    def __call__(self, model: Regressor, source: Padded, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        if prefix is not None:
            raise UserError(
                "a forecast cannot go on from a prefix: what is known already are the last steps of a source"
            )
        steps_B = torch.full_like(source.lengths, model.steps if self.steps is None else self.steps)
        if not can(type(model), Density):
            numbers_BN = model.predict(source, steps_B).double().flatten(1)
            return [[Hypothesis((*numbers, float(EOS)), 0.0, 0.0)] for numbers in numbers_BN.tolist()]
        found = cast(Density, model).distribution(source, steps_B)
        both = zip(*(each.double().flatten(1).tolist() for each in (found.mean, found.deviation)), strict=True)
        return [
            [Hypothesis((*numbers, float(EOS)), 0.0, 0.0, deviations=tuple(deviations))] for numbers, deviations in both
        ]

    @torch.inference_mode()
    def force(self, model: Regressor, source: Padded, target: Padded) -> list[Hypothesis]:
        if not can(type(model), Density):
            raise UserError(
                "this model gives numbers and no probabilities, so a target has no score: "
                "measure its distance with the metrics mae, rmse and mase, or train a model that gives densities, "
                "such as "
                'model.type = "kalman" or "density-forecaster"'
            )
        log_densities = cast(Density, model).log_density(source, target).double().tolist()
        found = []
        for row, values, length in zip(log_densities, target.values.tolist(), target.lengths.tolist(), strict=True):
            each = (*row[: length - 1], 0.0)  # EOS is certain
            found.append(Hypothesis(tuple(values[:length]), sum(each), sum(each), each))
        return found

    def resized(self, size: int | None = None, nbest: int | None = None) -> Forecast:
        if (nbest or 1) > 1 or (size or 1) > 1:
            raise UserError(
                f"size = {size or 1}, nbest = {nbest or 1}: a forecast is one answer to a source, so there is nothing "
                "to search; leave both out"
            )
        return self
