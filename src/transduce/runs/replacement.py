"""Overwriting: a new run takes the place of an old one, which is deleted once the new one has a checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transduce.errors import UserError
from transduce.runs.checkpoints import has_checkpoint
from transduce.runs.layout import CONFIG, foreign_files
from transduce.runs.lock import locked


def set_aside(run: Path) -> Path:
    """The directory RUN.replaced, where a run waits while another one takes its place. It need not exist."""
    return run.with_name(f"{run.name}.replaced")


def put_back(run: Path) -> None:
    """Puts back the run that was set aside for ``run``, if ``run`` was killed before it had a checkpoint. Otherwise
    does nothing.

    Raises UserError if a training is at work in ``run``, or if it holds files that are no part of a run.
    """
    aside = set_aside(run)
    if not (aside / CONFIG).exists() or has_checkpoint(run):
        return
    with locked(run, "training"):
        if others := foreign_files(run):
            raise UserError(
                f"{run} was to replace {aside}, and has {', '.join(others[:5])}: move one of them elsewhere"
            )
        shutil.rmtree(run)
        aside.rename(run)


@contextmanager
def replacing(run: Path) -> Iterator[None]:
    """Sets the run aside while the context is entered. At the end, puts it back if the new run has no checkpoint. A run
    that was set aside before is deleted.

    Raises UserError if a training is at work there, or if a file that would be deleted is no part of a run.
    """
    if others := foreign_files(run):
        raise UserError(
            f"{run}: overwrite would delete what is no part of a run: {', '.join(others[:5])}; move it elsewhere, or "
            "choose another directory (out)"
        )
    aside = set_aside(run)
    with locked(run, "training"):
        if aside.exists():  # the run that is there has a checkpoint, so the one aside is older
            if others := foreign_files(aside):
                raise UserError(
                    f"{aside} is where {run} would wait, and has {', '.join(others[:5])}: move it elsewhere"
                )
            shutil.rmtree(aside)
        run.rename(aside)
    try:
        yield
    finally:
        if aside.exists() and not has_checkpoint(run):
            shutil.rmtree(run, ignore_errors=True)
            aside.rename(run)


def forget_replaced(run: Path) -> None:
    """Deletes the run that was set aside for this one, if there is one without foreign files. Call it once this run has
    a checkpoint.
    """
    aside = set_aside(run)
    if (aside / CONFIG).exists() and not foreign_files(aside):
        shutil.rmtree(aside)
