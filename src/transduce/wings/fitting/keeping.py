"""Makes the chosen model the user's run: one trial, a mixture of trials, or models that learn anew from all pairs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.files import replace_folder, write_text
from transduce.runs.layout import ASKED, LOCK, LOG, TENSORBOARD
from transduce.wings.fitting import trial
from transduce.wings.fitting.candidates import Candidate
from transduce.wings.fitting.given import Pair
from transduce.wings.fitting.mixtures import Choice, write_mixture
from transduce.wings.fitting.rounds import Trials
from transduce.wings.fitting.splits import View
from transduce.wings.lab.sweeps import processes

LEFT = (ASKED, LOG, LOCK, TENSORBOARD, trial.RESULT)  # parts of a trial that the run does not need


def keep(trials: Trials, chosen: Choice, score: float, pairs: Sequence[Pair], run: Path) -> None:
    """Makes ``run`` the chosen model, whose ``score`` is known. With several views, its members first learn from all
    ``pairs``.
    """
    if len(trials.views) == 1:
        members = [trials.run(member, trials.views[0].name) for member in chosen.members]
    else:
        members = [_refitted(trials, member, pairs) for member in chosen.members]
    if len(members) == 1:
        publish(members[0], run)
        return
    mixture = trials.folder.parent / "mixture"
    shutil.rmtree(mixture, ignore_errors=True)
    write_mixture(mixture, members, {trials.task.metric: score})
    publish(mixture, run)


def publish(trained: Path, run: Path) -> None:
    """Copies a trained run to ``run``, as a whole or not at all."""

    def fill(scratch: Path) -> None:
        shutil.copytree(trained, scratch, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*LEFT))

    replace_folder(run, fill)


def _refitted(trials: Trials, candidate: Candidate, pairs: Sequence[Pair]) -> Path:
    """The run of a candidate that learned from all pairs."""
    view = View("everything", pairs, ())
    run, test = trials.run(candidate, view.name), "data.test.path"
    files = view.write(trials.folder.parent / "data")
    files |= {key: path for key, path in trials.data[trials.views[0].name].items() if key == test}
    if not (run / ASKED).exists():
        write_text(run / ASKED, config.write(candidate.table(files, trials.plan.steps.get(candidate.name))))
    command = trial.command(run, trials.plan.threads, trials.device, None)
    for ended in processes.run([processes.Task(candidate.name, command, run / LOG)], 1):
        if ended.status != 0:
            raise UserError(f"{candidate.name} failed on all pairs: {ended.reason} (see {ended.task.log})")
    return run
