"""A training as a value: the run directory, its settings, and whether it goes on with a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from transduce.core import config
from transduce.core.config.user_data import Merged
from transduce.runs.own_pairs import OwnPairs
from transduce.training.sizes import Alternative

NEW_DATA: Final = "new-data"
Resume = bool | Literal["new-data"]


@dataclass(frozen=True)
class Job:
    """What is to be trained: the run in the directory ``run`` with the settings ``merged.table``. ``merged`` also has
    lines for people about them, and the keys that the user has set: the data change none of these.

    ``resume`` continues from the run's last checkpoint, or begins if there is none. A counted model has no state to
    continue from. It is counted again if its settings changed; otherwise ``resume`` is a no-op. If the data have
    changed since the checkpoint, training is refused, unless ``resume`` is "new-data": then an epoch begins with them.
    ``overwrite`` begins again, and deletes the earlier run once the new one has a checkpoint. ``pairs`` from Python are
    written into the run's folder ``data``. ``sizes`` are other settings for few training pairs.
    """

    run: Path
    merged: Merged
    resume: Resume = False
    overwrite: bool = False
    pairs: OwnPairs | None = None
    sizes: tuple[Alternative, ...] = ()

    @property
    def table(self) -> config.Table:
        return self.merged.table

    @property
    def new_data(self) -> bool:
        return self.resume == NEW_DATA

    def with_table(self, table: config.Table) -> Job:
        """The same job with other settings, which are final: no other ones for few pairs."""
        return replace(self, merged=replace(self.merged, table=table), sizes=())
