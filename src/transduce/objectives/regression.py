"""What training minimises where numbers are wanted, in scaled units. N real numbers of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from transduce.errors import UserError
from transduce.protocols import Regressor
from transduce.types import Batch, Loss, real_mask, widened


@dataclass(frozen=True)
class SquaredError:
    """(y - f(x))^2, over all steps and channels, which the mean of what may come minimises."""

    def __call__(self, model: Regressor, batch: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        predicted_N, target_N = compared(model, batch)
        return Loss(nn.functional.mse_loss(predicted_N, target_N, reduction="sum"), len(target_N)), carry


@dataclass(frozen=True)
class AbsoluteError:
    """|y - f(x)|, which the median minimises."""

    def __call__(self, model: Regressor, batch: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        predicted_N, target_N = compared(model, batch)
        return Loss(nn.functional.l1_loss(predicted_N, target_N, reduction="sum"), len(target_N)), carry


@dataclass(frozen=True)
class Huber:
    """e^2 / 2 for errors of at most ``delta``, delta (|e| - delta / 2) beyond: single outliers count less (Huber 1964).

    In scaled units, in which the deviation of the training set is 1.
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        if not self.delta > 0:
            raise UserError(f"delta = {self.delta}: more than 0 was expected")

    def __call__(self, model: Regressor, batch: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        predicted_N, target_N = compared(model, batch)
        total = nn.functional.huber_loss(predicted_N, target_N, reduction="sum", delta=self.delta)
        return Loss(total, len(target_N)), carry


def compared(model: Regressor, batch: Batch) -> tuple[Tensor, Tensor]:
    """What the model says and what is true, [N] each, in float32 at least; ValueError where the target is tokens."""
    target = batch.target
    if not target.values.is_floating_point():
        raise UserError(
            'the target is tokens, and a regressor writes numbers: set data.units.target = "numbers", or another model'
        )
    predicted_BN = model.predict(batch.source, (target.lengths - 1) // model.channels).flatten(1)
    real_BN = real_mask(target.lengths - 1, predicted_BN.shape[1])  # EOS is no number
    wide = widened(predicted_BN.dtype)
    return predicted_BN[real_BN].to(wide), target.values[:, : predicted_BN.shape[1]][real_BN].to(wide)
