"""A run in the place of another, which is lost only once the new one has begun."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transduce import config
from transduce.directory import CONFIG, strangers
from transduce.errors import UserError
from transduce.training.callbacks import Callback, Started
from transduce.training.lock import alone
from transduce.training.settings import check_ancestors


class Forget(Callback):
    """Deletes a run that another has taken the place of, once that has begun."""

    def __init__(self, old: Path) -> None:
        self.old = old

    def on_start(self, started: Started) -> None:
        shutil.rmtree(self.old)


def _aside(run: Path) -> Path:
    """Where a run waits until the one that replaces it has begun."""
    return run.with_name(f"{run.name}.replaced")


def put_back(run: Path) -> None:
    """Put back the run that was set aside for a training that was killed before it had begun."""
    aside = _aside(run)
    if not (aside / CONFIG).exists() or (run / CONFIG).exists():
        return
    with alone(run, "training"):
        pass  # and nobody is
    if run.exists():
        if others := strangers(run):
            raise UserError(
                f"{run} was to replace {aside}, and has {', '.join(others[:5])}: move one of them elsewhere"
            )
        shutil.rmtree(run)
    aside.rename(run)


@contextmanager
def replacing(run: Path, table: config.Table) -> Iterator[tuple[Callback, ...]]:
    """A run set aside for another, and put back where that cannot begin.

    Raises ValueError where there is more than a run to lose, or the new one would start from it or learn from it.
    """
    if others := strangers(run):
        raise UserError(
            f"{run}: overwrite would delete what is no part of a run: {', '.join(others[:5])}; move it elsewhere, or "
            "choose another directory (out)"
        )
    check_ancestors(table, [run])
    with alone(run, "training"):
        pass  # and nobody is
    aside = _aside(run)
    if aside.exists():  # of a training that was killed before it began; the run that is there is newer
        if others := strangers(aside):
            raise UserError(f"{aside} is where {run} would wait, and has {', '.join(others[:5])}: move it elsewhere")
        shutil.rmtree(aside)
    run.rename(aside)
    try:
        yield (Forget(aside),)
    except BaseException:
        if aside.exists():
            shutil.rmtree(run, ignore_errors=True)
            aside.rename(run)
        raise
