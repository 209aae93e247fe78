"""Losses of regressors, in scaled units. N is the number of numbers in a batch that are not padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from transduce.errors import UserError
from transduce.protocols import Regressor
from transduce.types import Batch, Loss, real_mask, widened


@dataclass(frozen=True)
class SquaredError:
    """The objective of regressors that predict a mean: (y - f(x))^2, summed over all steps and channels that are not
    padding. y are the target's numbers and f(x) the predictions.
    """

    def __call__(self, model: Regressor, batch: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        predicted_N, target_N = predicted_and_target(model, batch)
        return Loss(nn.functional.mse_loss(predicted_N, target_N, reduction="sum"), len(target_N)), carry


@dataclass(frozen=True)
class AbsoluteError:
    """The objective of regressors that predict a median: |y - f(x)|, summed over all steps and channels that are not
    padding. y are the target's numbers and f(x) the predictions.
    """

    def __call__(self, model: Regressor, batch: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        predicted_N, target_N = predicted_and_target(model, batch)
        return Loss(nn.functional.l1_loss(predicted_N, target_N, reduction="sum"), len(target_N)), carry


@dataclass(frozen=True)
class Huber:
    """e^2 / 2 for errors e = y - f(x) of at most ``delta``, and delta (|e| - delta / 2) for larger ones (Huber 1964).
    The loss is summed over all steps and channels.

    Outliers count less than in the squared error. ``delta`` is in scaled units: the training set's standard deviation
    is 1.
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        if not self.delta > 0:
            raise UserError(f"delta = {self.delta}: more than 0 was expected")

    def __call__(self, model: Regressor, batch: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        predicted_N, target_N = predicted_and_target(model, batch)
        total = nn.functional.huber_loss(predicted_N, target_N, reduction="sum", delta=self.delta)
        return Loss(total, len(target_N)), carry


def predicted_and_target(model: Regressor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The model's numbers [N] and the target's [N], in float32 or wider. Raises UserError if the target is tokens."""
    target = batch.target
    if not target.values.is_floating_point():
        raise UserError(
            'the target is tokens, and a regressor writes numbers: set data.units.target = "numbers", or choose '
            "another model"
        )
    predicted_BN = model.predict(batch.source, (target.lengths - 1) // model.channels).flatten(1)
    real_BN = real_mask(target.lengths - 1, predicted_BN.shape[1])  # EOS is not a number
    wide = widened(predicted_BN.dtype)
    return predicted_BN[real_BN].to(wide), target.values[:, : predicted_BN.shape[1]][real_BN].to(wide)
