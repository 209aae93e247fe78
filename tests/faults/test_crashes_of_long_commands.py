"""A loss of power while a run is overwritten, in a sweep and in a fit: what was done is kept, and the rest goes on."""

from __future__ import annotations

import importlib
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from disk import Crash, crashes, recorded
from test_fit import PAIRS
from test_resume import same_bytes

from transduce import api
from transduce.core.files import current_folder
from transduce.runs.layout import CHECKPOINTS, MODEL
from transduce.runs.run import Run
from transduce.wings.fitting.fit import Wishes, fit
from transduce.wings.lab.sweeps import processes
from transduce.wings.lab.sweeps.sweep import sweep


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps and fits run their trainings here, where they are recorded."""

    def run(
        tasks: Sequence[processes.Task], jobs: int, environment: Mapping[str, str] | None = None, watch: Any = None
    ) -> Iterator[processes.Ended]:
        for task in tasks:
            task.log.parent.mkdir(parents=True, exist_ok=True)
            task.log.touch()
            began, (_, _, module, *arguments) = time.monotonic(), task.command
            importlib.import_module(module).main(arguments)
            yield processes.Ended(task, 0, time.monotonic() - began)

    monkeypatch.setattr(processes, "run", run)


def chosen(found: list[Crash], count: int) -> list[Crash]:
    return random.Random(count).sample(found, min(count, len(found)))


@pytest.mark.parametrize("count", [30, pytest.param(None, marks=pytest.mark.slow)])
def test_an_overwritten_run_is_there_until_the_new_one_has_a_checkpoint(
    count: int | None, tiny: dict[str, Any], trained: Path, tmp_path: Path
) -> None:
    disk, name = tmp_path / "disk", "run"
    disk.mkdir()
    short = tiny | {"training.steps": 2, "training.validation.every": 2, "training.average": 1}
    api.train("reverse", disk / name, tiny, device="cpu", progress=False)
    same_bytes(disk / name, trained)
    old = (trained / CHECKPOINTS / "best" / MODEL).read_bytes()
    with recorded(disk) as tape:
        api.train("reverse", disk / name, short, overwrite=True, device="cpu", progress=False)
    new = (disk / name / CHECKPOINTS / "best" / MODEL).read_bytes()
    assert new != old
    found = crashes(tape, lambda crash: frozenset(path for path in crash.visible))
    for place, crash in enumerate(found[:count]):
        run = Run.open(crash.restore(tmp_path / str(place)) / name)
        folders = [current_folder(run.path / CHECKPOINTS / checkpoint) for checkpoint in ("best", "last")]
        left = [folder / MODEL for folder in folders if folder.exists()]
        assert left, crash.after
        assert left[0].read_bytes() in (old, new), crash.after


@pytest.mark.parametrize("count", [1, pytest.param(40, marks=pytest.mark.slow)])
def test_a_sweep_goes_on(
    count: int, tiny: dict[str, Any], tmp_path: Path, in_this_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.wings.lab.sweeps.sweep._draw", lambda results: None)  # a picture takes a second
    settings = tiny | {"training.steps": 3, "training.validation.every": 3, "training.average": 1}
    del settings["model.encoder.width"]
    asked: dict[str, Any] = {"vary": {"model.encoder.width": [4, 6]}, "seeds": 1, "settings": settings, "threads": 1}

    def swept(out: Path) -> dict[str, bytes]:
        sweep("reverse", out=out, device="cpu", **asked)
        return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("best/model.safetensors"))}

    disk = tmp_path / "disk"
    disk.mkdir()
    with recorded(disk) as tape:
        expected = swept(disk / "sweep")
    assert len(expected) == 2
    for place, crash in enumerate(chosen(crashes(tape, lambda crash: frozenset(crash.visible)), count)):
        assert swept(crash.restore(tmp_path / str(place)) / "sweep") == expected, crash.after


@pytest.mark.parametrize("count", [1, pytest.param(40, marks=pytest.mark.slow)])
def test_a_fit_goes_on(count: int, tmp_path: Path, in_this_process: None) -> None:
    wishes = Wishes(candidates=("g2p-joint",))

    def fitted(out: Path) -> tuple[str, float, bytes]:
        found = fit(PAIRS[:60], PAIRS[200:215], out=out / "run", wishes=wishes, threads=1, tell=lambda line: None)
        return found.name, found.score, (out / "run" / CHECKPOINTS / "best" / MODEL).read_bytes()

    disk = tmp_path / "disk"
    disk.mkdir()
    with recorded(disk) as tape:
        expected = fitted(disk)
        tape.promise("fitted")
    for place, crash in enumerate(chosen(crashes(tape, lambda crash: frozenset(crash.visible)), count)):
        out = crash.restore(tmp_path / str(place))
        if crash.promised:
            assert (out / "run" / CHECKPOINTS / "best" / MODEL).read_bytes() == expected[2]
        assert fitted(out) == expected, crash.after
