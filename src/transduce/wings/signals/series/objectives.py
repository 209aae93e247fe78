"""Losses of regressors, in scaled units. N is the number of numbers in a batch that are neither padding nor missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Carry, Density, Regressor
from transduce.core.types import Batch, Loss, Padded, real_mask, widened


@dataclass(frozen=True)
class SquaredError:
    """The objective of regressors that predict a mean: (y - f(x))^2 for the target's numbers y and the predictions
    f(x). It is summed over all steps and channels that are neither padding nor missing.
    """

    measures_counted: ClassVar[bool] = True

    def __call__(
        self, model: Regressor, batch: Batch, progress: float = 0.0, carry: Carry = None
    ) -> tuple[Loss, Carry]:
        predicted_N, target_N = predicted_and_target(model, batch)
        return Loss(nn.functional.mse_loss(predicted_N, target_N, reduction="sum"), len(target_N)), carry


@dataclass(frozen=True)
class AbsoluteError:
    """The objective of regressors that predict a median: |y - f(x)| for the target's numbers y and the predictions
    f(x). It is summed over all steps and channels that are neither padding nor missing.
    """

    measures_counted: ClassVar[bool] = True

    def __call__(
        self, model: Regressor, batch: Batch, progress: float = 0.0, carry: Carry = None
    ) -> tuple[Loss, Carry]:
        predicted_N, target_N = predicted_and_target(model, batch)
        return Loss(nn.functional.l1_loss(predicted_N, target_N, reduction="sum"), len(target_N)), carry


@dataclass(frozen=True)
class Huber:
    """e^2 / 2 for errors e = y - f(x) of at most ``delta``, and delta (|e| - delta / 2) for larger ones (Huber 1964).
    The loss is summed over all steps and channels that are neither padding nor missing.

    Outliers count less than in the squared error. ``delta`` is in scaled units: the training set's standard deviation
    is 1.
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        if not self.delta > 0:
            raise UserError(f"delta = {self.delta}: more than 0 was expected")

    def __call__(
        self, model: Regressor, batch: Batch, progress: float = 0.0, carry: Carry = None
    ) -> tuple[Loss, Carry]:
        predicted_N, target_N = predicted_and_target(model, batch)
        total = nn.functional.huber_loss(predicted_N, target_N, reduction="sum", delta=self.delta)
        return Loss(total, len(target_N)), carry


@dataclass(frozen=True)
class LogDensity:
    """- log p(y | x), the negative log-density of the target's numbers, summed over all steps and channels.

    Only a ``Density`` model has this loss. It is in scaled units, and can be negative. Missing numbers do not count.
    """

    measures_counted: ClassVar[bool] = True

    def __call__(self, model: Density, batch: Batch, progress: float = 0.0, carry: Carry = None) -> tuple[Loss, Carry]:
        _check_numbers(batch.target)
        log_density_BN = model.log_density(batch.source, batch.target)
        count = int(known_numbers(batch.target).sum())
        return Loss(-log_density_BN.to(widened(log_density_BN.dtype)).sum(), count), carry


def known_numbers(target: Padded) -> Tensor:
    """A mask [B, N]: True where the rows [B, N + 1] have a number that is neither padding, EOS nor missing."""
    size = target.values.shape[1] - 1
    return real_mask(target.lengths - 1, size) & ~target.values[:, :size].isnan()


def predicted_and_target(model: Regressor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The model's numbers [N] and the target's [N], in float32 or wider. Missing numbers are left out, and so are
    numbers that the model does not predict because it writes fewer steps.

    Raises UserError if the target is tokens.
    """
    target = batch.target
    _check_numbers(target)
    predicted_BN = model.predict(batch.source, (target.lengths - 1) // model.channels).flatten(1)
    known_BN = known_numbers(target)
    size = min(known_BN.shape[1], predicted_BN.shape[1])
    known_BN, wide = known_BN[:, :size], widened(predicted_BN.dtype)
    return predicted_BN[:, :size][known_BN].to(wide), target.values[:, :size][known_BN].to(wide)


def _check_numbers(target: Padded) -> None:
    if not target.values.is_floating_point():
        raise UserError(
            'the target is tokens, and a regressor writes numbers: set data.units.target = "numbers", or choose '
            "another model"
        )
