"""The plan of a ``fit``: which candidates train for how many updates. A limit in minutes becomes updates once, by the
speed of this machine, so that what follows depends on no clock.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transduce.core import config
from transduce.core.files import write_text
from transduce.core.stages import Stage
from transduce.core.text_files import read_json
from transduce.runs.layout import ASKED, LOG
from transduce.wings.fitting import trial
from transduce.wings.fitting.candidates import Candidate, Task
from transduce.wings.lab.sweeps import processes

log = logging.getLogger("transduce.fit")

PLAN = "plan.json"
RESERVE = 0.8  # part of the minutes for updates; validation, mixtures and counting take the rest
SLOWER = 1.25  # two trainings at a time slow each other down by about this
FEWEST = 100  # updates that teach a network anything


@dataclass(frozen=True)
class Plan:
    """``candidates`` in the order of the rules, the ``steps`` of each that learns by updates, how many ``jobs`` run at
    a time with how many ``threads`` each. ``notes`` are lines for people about what a limit left out.
    """

    candidates: tuple[Candidate, ...]
    steps: Mapping[str, int]
    jobs: int
    threads: int
    notes: tuple[str, ...] = field(default=())

    def write(self, folder: Path) -> None:
        names = [each.name for each in self.candidates]
        kept = {"candidates": names, "steps": self.steps, "jobs": self.jobs, "threads": self.threads}
        write_text(folder / PLAN, json.dumps({**kept, "notes": self.notes}, indent=1))

    @classmethod
    def read(cls, folder: Path, task: Task) -> Plan | None:
        """The plan that a ``fit`` in this folder made before; None without one."""
        if not (folder / PLAN).exists():
            return None
        kept = read_json(folder / PLAN)
        known = {each.name: each for each in task.candidates}
        if not set(kept["candidates"]) <= set(known):
            return None
        chosen = tuple(known[name] for name in kept["candidates"])
        return cls(chosen, kept["steps"], kept["jobs"], kept["threads"], tuple(kept["notes"]))


def plan(
    task: Task, views: int, data: Mapping[str, str], folder: Path, minutes: float | None, cores: int, device: str
) -> Plan:
    """Without ``minutes``, all candidates have their recipes' updates. With them, the speed of each is measured on a
    few updates: the candidates that fit stay, in the order of the rules, and if only one is left and its updates do not
    fit either, it gets fewer.
    """
    learning = [each for each in task.candidates if not each.instant]
    steps = {each.name: count for each in learning if (count := each.steps()) is not None}
    jobs = max(1, min(cores, views * max(1, len(learning))))
    threads = max(1, cores // jobs)
    if minutes is None:
        return Plan(task.candidates, steps, jobs, threads)
    seconds = {
        each.name: _seconds(each, data, folder / "probes", threads, device) for each in learning if each.name in steps
    }
    allowed = 60 * minutes * RESERVE * jobs / (SLOWER if jobs > 1 else 1)
    costs = {name: steps[name] * seconds[name] * views for name in seconds}
    kept = [each.name for each in learning if each.name in costs]
    while len(kept) > 1 and needed(costs, kept) > allowed:
        kept.pop()
    notes = []
    if left := [each.name for each in learning if each.name in costs and each.name not in kept]:
        most = needed(costs, [each.name for each in learning if each.name in costs])
        more = math.ceil(minutes * most / allowed)
        notes.append(
            f"{minutes:g} minutes leave no time for {', '.join(left)} here. To train all candidates: --minutes {more}"
        )
    first = kept[0] if kept else None
    if first is not None and costs[first] > allowed:
        if views == 1:  # one training alone has the whole machine
            jobs, threads, allowed = 1, cores, 60 * minutes * RESERVE
        reached = max(min(FEWEST, steps[first]), int(allowed / (seconds[first] * views)))
        if reached < steps[first]:
            more = math.ceil(minutes * steps[first] / reached)
            notes.append(
                f"warning: {minutes:g} minutes allow about {reached:,} of the {steps[first]:,} updates of {first} "
                f"here. All of them take about {more} minutes: --minutes {more}"
            )
            steps[first] = reached
    chosen = tuple(each for each in task.candidates if each.instant or each.name in kept or each.name not in costs)
    return Plan(chosen, steps, jobs, threads, tuple(notes))


def needed(costs: Mapping[str, float], names: Sequence[str]) -> float:
    """The seconds of successive halving: a quarter of each candidate, and the rest of two."""
    if len(names) <= 2:
        return sum(costs[name] for name in names)
    dearest = sorted((costs[name] for name in names), reverse=True)[:2]
    return sum(costs[name] for name in names) / 4 + 3 / 4 * sum(dearest)


def _seconds(candidate: Candidate, data: Mapping[str, str], folder: Path, threads: int, device: str) -> float:
    """The seconds of an update of a candidate, in a training of some seconds that is thrown away."""
    run = folder / candidate.name
    shutil.rmtree(run, ignore_errors=True)
    write_text(run / ASKED, config.write(candidate.table(data, candidate.steps())))
    task = processes.Task(candidate.name, trial.probe(run, threads, device), run / LOG)
    with Stage(f"measures the speed of {candidate.name}"):
        ended = next(processes.run([task], 1, {"OMP_NUM_THREADS": str(threads)}))
    found = trial.pace(run)
    if ended.status == 0 and found is not None:
        shutil.rmtree(run, ignore_errors=True)
        return found
    log.warning("%s: its speed could not be measured (%s), so it is planned as slow", candidate.name, ended.reason)
    return 1.0


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
