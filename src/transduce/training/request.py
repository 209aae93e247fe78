"""What a user asks of a training, as a value, and the job that it is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.recipes import Recipe, based_on, change, continued
from transduce.core.registry import service
from transduce.data.settings import Units
from transduce.runs.layout import CONFIG
from transduce.runs.own_pairs import OwnPairs
from transduce.runs.replacement import put_back
from transduce.runs.run import Run
from transduce.training.job import Job, Resume
from transduce.training.sizes import Alternative

AUTO = "auto"  # stands for the recipe that suits the data
HELD_OUT = 20  # one pair in this number is kept for validation


@dataclass(frozen=True)
class TrainingRequest:
    """The training of a recipe as a user asks for it: ``transduce.train`` describes the fields. Raises UserError if
    both ``resume`` and ``overwrite`` are set.
    """

    recipe: str | Path
    out: str | Path | None = None
    settings: Mapping[str, object] | Sequence[str] = ()
    pairs: Iterable[tuple[str, str]] | None = None
    resume: Resume = False
    overwrite: bool = False
    init: str | Path | None = None
    teacher: str | Path | None = None

    def __post_init__(self) -> None:
        if self.resume and self.overwrite:
            raise UserError("resume goes on with a run and overwrite deletes it: give one of them")

    @property
    def run(self) -> Path:
        """The run directory: ``out``, or by default ``runs/NAME``, where NAME is the recipe's file name without its
        suffix. A link, or a path such as ".", is resolved to a path whose folder can be renamed.
        """
        folder = Path("runs") / Path(self.recipe).stem if self.out is None else Path(self.out)
        return folder.resolve() if folder.is_symlink() or folder.name in ("", "..") else folder

    @property
    def changes(self) -> Mapping[str, object] | list[str]:
        """The ``settings`` with the run to start from and the run to learn from, if they are given."""
        named = {"init.run": self.init, "distillation.teacher": self.teacher}
        parents = {key: str(run) for key, run in named.items() if run is not None}
        if isinstance(self.settings, Mapping):
            return {**self.settings, **parents}
        given = [self.settings] if isinstance(self.settings, str) else self.settings
        return [*given, *(f"{key}={json.dumps(run)}" for key, run in parents.items())]

    def job(self, first: bool = True) -> Job:
        """The job: a run that goes on with its own settings, or the recipe with the user's changes.

        The ``first`` process puts back a run that was being overwritten when a training was killed.
        """
        run = self.run
        goes_on = bool(self.resume) and (run / CONFIG).exists()
        if first and not goes_on:
            put_back(run)
            goes_on = bool(self.resume) and (run / CONFIG).exists()
        if not goes_on:
            return self.new()
        settings = Run.read(run).settings
        return Job(run, continued(settings, self.changes), self.resume)

    def new(self) -> Job:
        """The job of a run that begins, also if there is a run already."""
        if self.recipe == AUTO:
            chosen: TrainingRequest = service("request for data")(self)
            return chosen.new()
        run, recipe = self.run, Recipe.of(self.recipe)
        own = None if self.pairs is None else self._divided(self.pairs, recipe)
        files = own.settings(run) if own else None
        sizes = tuple(
            Alternative(size.below, size.recipe, Recipe.of(size.recipe).merged(self.changes, files).table)
            for size in recipe.sizes
        )
        merged = recipe.merged(self.changes, files)
        if "model" not in merged.table and (based := based_on(str(self.recipe))):
            raise config.ConfigError(
                "model", f"missing; {self.recipe} is the base of {', '.join(based)}: train one of these, or set a model"
            )
        return Job(run, merged, self.resume, self.overwrite, own, sizes)

    def _divided(self, pairs: Iterable[tuple[str, str]], recipe: Recipe) -> OwnPairs:
        """A user's pairs, divided into splits. None is held out if the settings name a validation set. Raises
        ConfigError if they set a key of the data that the pairs replace.
        """
        data, given = recipe.merged(self.settings).table.get("data", {}), change({}, self.settings).get("data", {})
        if replaced := given.keys() & {"origin", "columns", "train"}:
            raise config.ConfigError(
                f"data.{min(replaced)}", "pairs are given, which are what is trained on: leave one of the two out"
            )
        if config.build(data.get("units", {}), Units, path="data.units").signal is not None:
            pairs = ((os.path.abspath(path), target) for path, target in pairs)  # the file that names them is elsewhere
        return OwnPairs.split(pairs, None if "valid" in given else HELD_OUT)
