"""The events of TensorBoard: the curves of a training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.core.files import named_errors
from transduce.runs.layout import TENSORBOARD
from transduce.training.callbacks import Callback, Finished, Started, Update, Validated


def boards(run: Path) -> list[Callback]:
    """A callback that writes the events of a ``run``, in a list; an empty list if TensorBoard is not installed."""
    try:
        import tensorboard  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        return []
    return [TensorBoard(run / TENSORBOARD)]


class TensorBoard(Callback):
    """Writes TensorBoard events of updates and validations into ``folder``; needs the extra ``tensorboard``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_start(self, started: Started) -> None:
        from torch.utils.tensorboard import SummaryWriter

        with named_errors(self.folder):
            self.writer: Any = SummaryWriter(str(self.folder), purge_step=started.step + 1)

    def on_update(self, update: Update) -> None:
        values = {name: getattr(update, name) for name in ("loss", "nll", "norm", "rate", "tokens_per_second")}
        self._add("train", {**values, **update.parts, **update.tallies}, update.step)

    def on_validation(self, validated: Validated) -> None:
        self._add(validated.what, {"loss": validated.loss, **validated.metrics}, validated.step)

    def on_finish(self, finished: Finished) -> None:
        with named_errors(self.folder):
            self.writer.close()

    def _add(self, group: str, values: Mapping[str, float], step: int) -> None:
        with named_errors(self.folder):  # of the writer's thread, which it raises here
            for name, value in values.items():
                self.writer.add_scalar(f"{group}/{name}", value, step)
