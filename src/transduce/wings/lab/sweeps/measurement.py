"""The measurement of one cell, and the process that trains and measures it: ``python -m`` this module."""

from __future__ import annotations

import json
import logging
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch

from transduce import api
from transduce.answers.transducer import Transducer
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.files import write_text
from transduce.core.plugins import load_plugins
from transduce.core.text_files import read_json, read_text
from transduce.data.preparation import locate
from transduce.data.settings import Data
from transduce.metrics.base import metric
from transduce.metrics.bins import Bin, binned, lengths, unit_of
from transduce.metrics.significance import Interval, Resampling
from transduce.metrics.suitability import concerns
from transduce.runs.layout import ASKED, CHECKPOINTS, MEASURED, METRICS, STATE
from transduce.runs.lock import wait_until_free
from transduce.runs.run import Run
from transduce.training.budget import CLOCKS
from transduce.wings.lab.sweeps.processes import end_with_parent
from transduce.wings.lab.sweeps.question import SPLITS
from transduce.wings.records.changes import PLACES
from transduce.wings.records.making import validation_scores


@dataclass(frozen=True)
class Conditions:
    """The conditions under which a cell was trained, which change its speed.

    ``threads`` is the number of each cell's threads, ``jobs`` the number of cells trained at the same time. ``device``
    names the device of the model. ``machine`` names the processor's architecture and the versions of Python and torch.
    If the training's budget is in minutes, the conditions also change the score.
    """

    threads: int
    jobs: int
    device: str
    machine: str = ""

    @classmethod
    def here(cls, threads: int, jobs: int, device: str) -> Conditions:
        """The conditions with the ``machine`` of this process."""
        versions = f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
        return cls(threads, jobs, device, versions)


@dataclass(frozen=True)
class Measurement:
    """The numbers of a finished cell.

    ``metrics`` and ``intervals`` (95 %) are on ``split``, measured with the run's own search as ``transduce evaluate``
    does. ``asked`` is the split that the sweep requested; ``split`` differs if there is no test. ``validation`` has the
    best checkpoint's scores from training.

    ``search_seconds`` (own search) and ``greedy_seconds`` are per sentence, from text to text, by the training's clock.
    Both are 0 if no metric reads outputs. ``tokens_per_second`` is the median in the training log, in target tokens
    without padding. ``training_seconds`` include validation. ``lengths`` are the scores in groups by source length,
    which is counted in ``length_unit``. ``concerns`` are lines for people: which metrics do not suit the examples.
    """

    split: str
    examples: int
    metrics: dict[str, float]
    signatures: dict[str, str]
    parameters: int
    updates: int
    training_seconds: float
    tokens_per_second: float
    search_seconds: float
    greedy_seconds: float
    length_unit: str
    lengths: list[Bin]
    conditions: Conditions
    asked: str = SPLITS[0]
    intervals: dict[str, Interval] = field(default_factory=dict)
    validation: dict[str, float] = field(default_factory=dict)
    concerns: list[str] = field(default_factory=list)

    def write(self, run: Path) -> None:
        """Writes the measurement into the cell's folder ``run``, where ``read`` finds it. It marks the cell as
        finished.
        """
        write_text(run / MEASURED, json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, run: Path, asked: str | None = None) -> Measurement | None:
        """The measurement in the cell's folder ``run``.

        None if the cell is unfinished, or if it was measured for another split than ``asked``. If ``asked`` is None,
        any split will do.
        """
        if not (run / MEASURED).exists():
            return None
        record = read_json(run / MEASURED)
        record["lengths"] = [Bin(*each.values()) for each in record["lengths"]]  # older files have other names
        record["conditions"] = Conditions(**record["conditions"])
        record["intervals"] = {name: Interval(*each) for name, each in record.get("intervals", {}).items()}
        found = cls(**record)
        return found if asked in (None, found.asked) else None


def measured_split(data: Data, cache: Path, asked: str) -> str:
    """The split to measure a sweep's cells on: ``asked``, or "valid" if ``asked`` is "test" and the data have no test.

    Raises UserError if the data have no such split either.
    """
    splits = locate(data, cache)
    for split in SPLITS[SPLITS.index(asked) :]:
        if getattr(splits, split) is not None:
            return split
    sides = " or ".join(f"data.{split}" for split in SPLITS[SPLITS.index(asked) :])
    raise UserError(f"there is nothing to measure on: set {sides} (.source and .target, or .path)")


def measure(transducer: Transducer, run: Path, conditions: Conditions, asked: str = SPLITS[0]) -> Measurement:
    """Measures the finished run in the folder ``run`` and returns its numbers; writes nothing. ``transducer`` is its
    loaded model. The split is ``measured_split(..., asked)``.

    ``conditions`` are recorded, with the device that the model is on.
    """
    settings, there = transducer.settings, Run.open(run)
    split = measured_split(there.data, there.cache, asked)
    examples = there.examples(split)
    metrics = [metric(name) for name in settings["metrics"]]
    transducer([example.source for example in examples[:1]])  # warm-up: the first call of a kernel is slow
    clock = CLOCKS[settings["training"]["clock"]]
    found = transducer.evaluate(examples, metrics, clock=clock)
    greedy = found
    if not all(each.needs_forcing for each in metrics):
        greedy = transducer.evaluate(examples, [metric("exact")], transducer.search.resized(1), clock=clock, told=False)
    unit = unit_of(examples)
    state = read_json(run / CHECKPOINTS / "last" / STATE)
    return Measurement(
        split=split,
        examples=len(examples),
        metrics=found.scores,
        signatures={each.name: each.signature for each in metrics},
        parameters=sum(parameter.numel() for parameter in transducer.model.parameters()),
        updates=state["step"],
        training_seconds=state["seconds"],
        tokens_per_second=_tokens_per_second(run),
        search_seconds=found.seconds / len(examples),
        greedy_seconds=greedy.seconds / len(examples),
        length_unit=unit,
        lengths=binned(found.statistics, lengths(examples, unit)),
        conditions=replace(conditions, device=str(transducer.device)),
        asked=asked,
        intervals={each.name: Resampling().interval(each) for each in found.statistics},
        validation=_validation(run, settings),
        concerns=concerns(metrics, examples, transducer.normalize_target),
    )


def _validation(run: Path, settings: config.Table) -> dict[str, float]:
    """The scores of the best checkpoint on the validation data, as training measured them. The score that chose this
    checkpoint comes first. Empty if there was no validation.
    """
    scores = validation_scores(run)
    chosen_by = next(iter(settings["training"]["validation"]["metrics"]), "loss")
    return {name: scores[name] for name in sorted(scores, key=lambda name: name != chosen_by)}


def _tokens_per_second(run: Path) -> float:
    events = map(json.loads, filter(None, read_text(run / METRICS).split("\n")))
    return float(statistics.median(event["tokens_per_second"] for event in events if event["event"] == "update"))


def command(run: Path, conditions: Conditions, split: str, plugins: Sequence[str]) -> list[str]:
    """The command that runs ``main`` of this module in another process, as a list of arguments."""
    return [sys.executable, "-m", __name__, str(run), json.dumps(asdict(conditions)), split, *plugins]


def main(arguments: Sequence[str]) -> None:
    """The program of a cell's own process: trains or resumes the run that the folder's asked.toml describes, and writes
    its measurement.

    ``arguments`` are the folder, the conditions as JSON, the split and the plugins, in the order of ``command``. A
    resumed run keeps its own settings, but reads its data from the places in asked.toml. If the run was measured
    before, on another split, the new measurement keeps the earlier search times and conditions. Waits for the training
    of a sweep that was killed: it saves and ends.
    """
    folder, written, split, *plugins = arguments
    wait_until_free(Path(folder))
    run, conditions = Path(folder), Conditions(**json.loads(written))
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    load_plugins(plugins)
    places = {key: place for key, place in config.flatten(config.read(run / ASKED)).items() if key in PLACES}
    trained = api.train(run / ASKED, run, places, resume=True, device=conditions.device, threads=conditions.threads)
    found = measure(trained, run, conditions, split)
    if (before := Measurement.read(run)) is not None:
        times = {name: getattr(before, name) for name in ("search_seconds", "greedy_seconds", "conditions")}
        found = replace(found, **times)
    found.write(run)


if __name__ == "__main__":
    end_with_parent()
    main(sys.argv[1:])
