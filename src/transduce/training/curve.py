"""Findings from the curve of validations at the end of training: the model is unusable, or has learned nothing, or
still learns. No clock decides here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from transduce.core.errors import StoppedError
from transduce.core.finite import readable
from transduce.metrics.base import metric
from transduce.runs.checkpoints import Rank

EXPLODED = 10.0  # a loss is too high if it exceeds the loss of the untrained model by this multiple of its size
LATE = 2 / 3  # part of the updates after which a gain is late
RISING = 0.1  # the curve still rises if this share of its gain is late; beside a metric, half of it for the loss


class DivergenceError(StoppedError):
    """The loss or the gradient is no longer finite, or the best model is worse than an untrained one."""


@dataclass(frozen=True)
class Constant:
    """The same output for every source: its ``text``, and the ``value`` of the first metric for it. Lower values are
    better. A model that has learned something is better than the best constant output that is known.
    """

    text: str
    value: float


@dataclass(frozen=True)
class Curve:
    """The validations of a training: the updates at which they happened, with the ``values`` that choose the best model
    (lower is better) and the ``losses``. ``untrained`` is the loss of the first update; None if it is unknown.
    """

    steps: Sequence[int]
    values: Sequence[float]
    losses: Sequence[float]
    untrained: float | None

    def exploded(self, loss: float) -> bool:
        """True for a loss that is not a number, infinite, or far above the loss of the untrained model."""
        if not math.isfinite(loss):
            return True
        return self.untrained is not None and loss > self.untrained + EXPLODED * max(1.0, abs(self.untrained))

    def late_gain(self, values: Sequence[float], start: float | None) -> float:
        """The share of the gain since ``start``, the value without learning, that came in the last third of the
        updates. ``values`` are the validations' values. It is 0 without such a gain, if ``start`` is unknown, and if no
        validation was before that third.
        """
        end = LATE * self.steps[-1] if self.steps else 0.0
        early = [value for step, value in zip(self.steps, values, strict=True) if step <= end]
        if not early or start is None:
            return 0.0
        best, before = min(values), min(*early, start)
        return (before - best) / (start - best) if best < before and math.isfinite(start) else 0.0


def unusable(curve: Curve, best: Rank, constant: Constant | None) -> str | None:
    """The reason why the best model cannot be used, for people. None if it can be used. ``constant`` is the output to
    compare with; None if it is unknown.
    """
    learned = constant is not None and best.measure != "loss" and best.value < constant.value
    if learned or not curve.exploded(best.loss):
        return None
    if curve.untrained is None or not math.isfinite(best.loss):
        return (
            "no validation loss was a finite number: this model gives the validation targets no probability, or "
            "training diverged"
        )
    return (
        f"training diverged: the best model's loss is {readable(best.loss, 4)}, and the untrained model's loss was "
        f"{readable(curve.untrained, 4)}"
    )


def conclusions(curve: Curve, best: Rank, constant: Constant | None, ended: bool) -> list[str]:
    """Lines for people about the curve at its end. ``best`` ranks the best model. ``ended`` is True if the budget ended
    training, so that a larger one may help.
    """
    lines = []
    measured = best.measure != "loss" and math.isfinite(best.value)
    if measured and constant is not None and best.value >= constant.value:
        sign = -1 if metric(best.measure).higher_is_better else 1
        lines.append(
            f"warning: the best model has learned nothing that {best.measure} measures: it has "
            f"{readable(sign * best.value, 3)}, and the same output for every source ({constant.text[:40]!r}) has "
            f"{readable(sign * constant.value, 3)}. Train for longer, with another training.optimizer.rate, or "
            "check the data"
        )
    if curve.losses and curve.exploded(curve.losses[-1]):
        lines.append(
            "warning: training diverged after the best model: the last validation loss is "
            f"{readable(curve.losses[-1], 4)}. Lower training.optimizer.rate or training.clip, or lengthen the warm-up"
        )
    elif ended and not lines:
        late = by_loss = curve.late_gain(curve.losses, curve.untrained)
        if measured:
            late = curve.late_gain(curve.values, None if constant is None else constant.value)
        if late >= RISING and by_loss >= (RISING / 2 if measured else RISING):
            step = curve.steps[-1]
            lines.append(
                f"the curve still rises: {100 * late:.0f} % of the gain in {best.measure} came in the last third of "
                f"the {step:,} updates. More would probably help: --resume --set training.steps={2 * step}"
            )
    return lines
