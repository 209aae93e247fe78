"""Successive halving: all candidates train a share of their updates, and the better half goes on (Jamieson and
Talwalkar 2016). A candidate that goes on loses nothing: its training pauses, and continues exactly.
"""

from __future__ import annotations

import logging
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.files import write_text
from transduce.core.stages import Stage
from transduce.metrics.base import metric
from transduce.runs.checkpoints import saved_step
from transduce.runs.layout import ASKED, CHECKPOINTS, CONFIG, LOG
from transduce.wings.fitting import trial
from transduce.wings.fitting.candidates import Candidate, Task
from transduce.wings.fitting.planning import Plan
from transduce.wings.fitting.splits import View
from transduce.wings.fitting.trial import Result, progress, scores_until
from transduce.wings.lab.sweeps import processes

log = logging.getLogger("transduce.fit")

SHARES = (1 / 4, 1 / 2)  # of the budget, after which the better half goes on
EVERY = 20.0  # seconds between two lines about the running trials
ALWAYS = 2  # candidates that are never dropped, because their mixture may be better than each


@dataclass(frozen=True)
class Trials:
    """The trials of the candidates of a task on the ``views``, in folders below ``folder``, by a ``plan``. ``data`` has
    the settings of each view's files. ``tell`` receives lines for people.
    """

    task: Task
    views: Sequence[View]
    data: Mapping[str, Mapping[str, str]]
    folder: Path
    plan: Plan
    device: str
    tell: Callable[[str], None]

    def run(self, candidate: Candidate, view: str) -> Path:
        return self.folder / candidate.name / view

    def results(self, candidate: Candidate) -> list[Result] | None:
        """The result on each view; None if one of them is not finished."""
        found = [Result.read(self.run(candidate, view.name)) for view in self.views]
        return None if any(each is None for each in found) else [each for each in found if each is not None]

    def score(self, candidate: Candidate) -> float | None:
        """The mean of the metric over the views, weighted by their examples; None if it is not finished."""
        found = self.results(candidate)
        if found is None:
            return None
        sizes = [len(each.outputs) for each in found]
        return sum(each.scores[self.task.metric] * size for each, size in zip(found, sizes, strict=True)) / sum(sizes)

    def train(self, better: Callable[[Candidate], None]) -> None:
        """Trains the candidates. ``better`` is called with each candidate that is finished and better than all before
        it. What is finished already is not trained again.
        """
        running = [each for each in self.plan.candidates if each.name in self.plan.steps]
        whole = [each for each in self.plan.candidates if not each.instant and each not in running]
        self._round([each for each in self.plan.candidates if each.instant], None, better)
        for share in SHARES:
            if len(running) > ALWAYS:
                self._round(running, share, better)
                running, dropped = self._halved(running, share)
                if dropped:
                    self.tell(f"after {share:.0%} of the updates, these go no further: {', '.join(dropped)}")
        self._round([*running, *whole], None, better)

    def _round(self, candidates: Sequence[Candidate], share: float | None, better: Callable[[Candidate], None]) -> None:
        """Trains the candidates up to a share of their updates; None is the end."""
        tasks = {}
        for candidate in candidates:
            for view in self.views:
                run = self.run(candidate, view.name)
                until = None if share is None else math.ceil(share * self.plan.steps[candidate.name])
                if Result.read(run) is None and not (until and self._reached(run, until)):
                    self._begin(candidate, view, run)
                    command = trial.command(run, self.plan.threads, self.device, until)
                    tasks[str(run)] = candidate, processes.Task(str(run), command, run / LOG)
        best = self.best()
        environment = {"OMP_NUM_THREADS": str(self.plan.threads)}
        pending = [task for _, task in tasks.values()]
        watch = Watch(self.tell, share or 1.0)
        names = ", ".join(dict.fromkeys(candidate.name for candidate, _ in tasks.values()))
        with Stage(f"trains {names}"):
            for ended in processes.run(pending, self.plan.jobs, environment, watch):
                candidate = tasks[ended.task.name][0]
                if ended.status != 0:
                    self.tell(f"{candidate.name} failed: {ended.reason} (see {ended.task.log})")
                    continue
                score = self.score(candidate)
                if score is None:
                    continue
                self.tell(f"{candidate.name}: {self.task.metric} {score:.2f} on validation, {self._cost(candidate)}")
                if best is None or self.sign * score > self.sign * (self.score(best) or 0.0):
                    best = candidate
                    better(candidate)

    def _begin(self, candidate: Candidate, view: View, run: Path) -> None:
        if (run / CONFIG).exists() and not (run / ASKED).exists():
            shutil.rmtree(run)
        if not (run / ASKED).exists():
            table = candidate.table(self.data[view.name], self.plan.steps.get(candidate.name))
            write_text(run / ASKED, config.write(table))

    def _reached(self, run: Path, until: int) -> bool:
        """True if a trial has paused at the update ``until`` before."""
        return saved_step(run / CHECKPOINTS / "last") >= until

    def _halved(self, candidates: Sequence[Candidate], share: float) -> tuple[list[Candidate], list[str]]:
        """The better half by the best validation so far, and the names of the others. All go on if one of them
        does not validate by the metric of the task.
        """
        scores = {}
        for candidate in candidates:
            until = math.ceil(share * self.plan.steps[candidate.name])
            found = [scores_until(self.run(candidate, view.name), until, self.task.metric) for view in self.views]
            if not all(found):
                return list(candidates), []  # not comparable
            scores[candidate.name] = fmean(max(self.sign * value for value in each) for each in found)
        ranked = sorted(candidates, key=lambda each: -scores[each.name])
        kept = ranked[: max(ALWAYS, math.ceil(len(ranked) / 2))]
        return [each for each in candidates if each in kept], [each.name for each in ranked[len(kept) :]]

    def best(self) -> Candidate | None:
        """The finished candidate with the best score."""
        finished = [(each, self.score(each)) for each in self.plan.candidates]
        known = [(each, score) for each, score in finished if score is not None]
        return max(known, key=lambda each: self.sign * each[1])[0] if known else None

    @property
    def finished(self) -> list[Candidate]:
        """The finished candidates, the best first. Raises UserError if there is none."""
        found = [each for each in self.plan.candidates if self.score(each) is not None]
        if not found:
            raise UserError(f"no candidate could be trained: see {LOG} in the folders below {self.folder}")
        return sorted(found, key=lambda each: -self.sign * (self.score(each) or 0.0))

    @property
    def sign(self) -> int:
        """1 if higher values of the metric are better, otherwise -1."""
        return 1 if metric(self.task.metric).higher_is_better else -1

    def _cost(self, candidate: Candidate) -> str:
        found = self.results(candidate) or []
        minutes = sum(each.minutes for each in found)
        return f"{minutes:.1f} minutes of training, {1000 * fmean(each.seconds for each in found):.1f} ms an output"


class Watch:
    """Tells after each ``EVERY`` seconds how far the running trials are. They end at a ``share`` of their updates."""

    def __init__(self, tell: Callable[[str], None], share: float = 1.0) -> None:
        self.tell, self.share, self.last = tell, share, time.monotonic()
        self._first: dict[str, tuple[float, float]] = {}  # the time and the share at the first look, by name

    def __call__(self, tasks: Sequence[processes.Task]) -> None:
        if time.monotonic() - self.last < EVERY:
            return
        self.last = time.monotonic()
        shares = {task.log.parent.parent.name: progress(task.log.parent) for task in tasks}
        if line := self.line({name: share for name, share in shares.items() if share is not None}, self.last):
            self.tell(line)

    def line(self, shares: Mapping[str, float], now: float) -> str:
        """How far the trials are at the time ``now``, in seconds, and how long the slowest of them still trains."""
        for name, share in shares.items():
            self._first.setdefault(name, (now, share))
        told = [f"{name} {100 * share:.0f} %" for name, share in shares.items()]
        left = []
        for name, share in shares.items():
            began, first = self._first[name]
            left += [(now - began) * (self.share - share) / (share - first)] if share > first else []
        more = f", about {max(0.1, max(left) / 60):.1f} minutes left" if left and len(left) == len(shares) else ""
        return f"trained so far: {', '.join(told)} of the updates{more}" if told else ""
