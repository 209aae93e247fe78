"""Overwriting: a new run takes the place of an old one, which is deleted once the new one has a checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transduce.core.errors import UserError
from transduce.core.files import write_text
from transduce.runs.checkpoints import has_checkpoint
from transduce.runs.layout import SET_ASIDE, foreign_files
from transduce.runs.lock import locked


def replaced_run(run: Path) -> Path | None:
    """The directory RUN.replaced, where an earlier run waits while ``run`` takes its place. None if no run waits there.

    A directory of that name counts only if overwriting made it: such a run has the file ``SET_ASIDE``.
    """
    aside = _aside(run)
    return aside if (aside / SET_ASIDE).exists() else None


def put_back(run: Path) -> None:
    """Puts back the run that was set aside for ``run``, if ``run`` was killed before it had a checkpoint. Otherwise
    does nothing.

    Raises UserError if a training is at work in ``run``, or if it holds files that are no part of a run.
    """
    earlier = replaced_run(run)
    if earlier is None or has_checkpoint(run):
        return
    with locked(run, "training"):
        if others := foreign_files(run):
            raise UserError(
                f"{run} was to replace {earlier}, and has {', '.join(others[:5])}: move one of them elsewhere"
            )
        shutil.rmtree(run)
        _rename_back(earlier, run)


@contextmanager
def replacing(run: Path) -> Iterator[None]:
    """A context in which a new run is trained in the place of ``run``. The earlier run waits as RUN.replaced meanwhile;
    the caller deletes it (``forget_replaced``). A run that waited there from before is deleted at the beginning.

    If the new run has no checkpoint at the end, the earlier run is put back. Raises UserError if a training is at work
    in ``run``, if ``run`` has files that are no part of a run, or if something else is called RUN.replaced.
    """
    if others := foreign_files(run):
        raise UserError(
            f"{run}: overwrite would delete what is no part of a run: {', '.join(others[:5])}; move it elsewhere, or "
            "choose another directory (out)"
        )
    aside = _aside(run)
    with locked(run, "training"):
        forget_replaced(run)  # the run that is there has a checkpoint, so the one aside is older
        if aside.exists():
            raise UserError(f"{aside} is where {run} would wait, and something else is there: move it elsewhere")
        write_text(run / SET_ASIDE, "")  # on the disk: without it, the run aside would not be found
        run.rename(aside)
    try:
        yield
    finally:
        if aside.exists() and not has_checkpoint(run):
            shutil.rmtree(run, ignore_errors=True)
            _rename_back(aside, run)


def forget_replaced(run: Path) -> None:
    """Deletes the run that was set aside for this one, if there is one without foreign files. Call it once this run has
    a checkpoint.
    """
    earlier = replaced_run(run)
    if earlier is not None and not foreign_files(earlier):
        shutil.rmtree(earlier)


def _aside(run: Path) -> Path:
    return run.with_name(f"{run.name}.replaced")


def _rename_back(aside: Path, run: Path) -> None:
    aside.rename(run)
    (run / SET_ASIDE).unlink()
