"""Several processes train one model: batches are divided by padded tokens, and 1, 2 and 4 processes learn alike."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transduce import api
from transduce.compute.crew import ALONE, Crew, join
from transduce.core.errors import UserError
from transduce.core.types import Batch, Padded
from transduce.data.batch_shares import cut, shard
from transduce.models.weights import load_tensors
from transduce.training.request import TrainingRequest

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=7)
PLAIN: dict[str, Any] = {"device": "cpu", "progress": False}
TOLERANCE = 1e-5  # relative for a loss, absolute for a weight after 20 updates


def padded(longest: list[int], parts: list[tuple[int, int]]) -> int:
    return max((end - begin) * max(longest[begin:end]) for begin, end in parts)


def every_cut(rows: int, parts: int) -> Iterator[list[tuple[int, int]]]:
    for count in range(min(parts, rows)):
        for places in combinations(range(1, rows), count):
            yield list(zip((0, *places), (*places, rows), strict=True))


@given(LENGTHS, st.integers(1, 4))
def test_parts_are_the_rows_and_the_largest_is_as_small_as_possible(longest: list[int], parts: int) -> None:
    found = cut(np.array(longest), parts)
    assert len(found) <= parts
    assert [row for begin, end in found for row in range(begin, end)] == list(range(len(longest)))
    assert padded(longest, found) == min(padded(longest, each) for each in every_cut(len(longest), parts))


@given(LENGTHS, st.integers(1, 4))
def test_shards_are_the_batch(lengths: list[int], world: int) -> None:
    rows = [[number + 1] * length for number, length in enumerate(lengths)]
    batch = Batch(Padded.of(rows), Padded.of([row[:1] for row in rows]), torch.arange(len(rows)))
    found: list[list[int]] = []
    for rank in range(world):
        part, counts = shard(batch, rank, world)
        assert part.source.values.shape[1] == int(part.source.lengths.max())
        assert len(part.source.lengths) == len(part.target.lengths) == len(part.ids) >= 1
        if counts:
            values, sizes = part.source.values.tolist(), part.source.lengths.tolist()
            assert [row[:1] for row in values] == part.target.values.tolist()
            found += [row[:size] for row, size in zip(values, sizes, strict=True)]
    assert found == rows


def test_one_process_exchanges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert join() == ALONE
    assert ALONE.share(3) == 3
    assert ALONE.gather(3) == [3]
    assert ALONE.clock(time.monotonic) is time.monotonic
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(UserError, match="numbers were expected"):
        join()


# ------------------------------------------------------------------- processes

# Threads of the connections that are left can abort the process while the interpreter ends.
TRANSDUCE = """
import sys
from pathlib import Path
from transduce.cli.app import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
names = [task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")]
assert not [name for name in names if "gloo" in name], names
"""


def settings(run: Path) -> dict[str, str]:
    """A small model without dropout for the recipe ``reverse``."""
    return {
        "data.origin": '{type="reverse", pairs=150, longest=6}',
        "data.cache": f'"{run.parent / "cache"}"',
        "model.encoder.width": "6",
        "model.decoder.width": "12",
        "training.batching.tokens": "60",
        "training.accumulate": "2",
        "training.precision": '"float32"',
        "training.average": "2",
        "training.validation.every": "10",
        "training.validation.metrics": '["exact", "perplexity"]',
    }


def command(processes: int, run: Path, *more: str, restarts: int = 0) -> list[str]:
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    program = run.with_suffix(".py")
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(TRANSDUCE)
    start += [f"--max-restarts={restarts}", str(program), "train", "reverse", "--out", str(run)]
    options = [f"--set={key}={value}" for key, value in settings(run).items()]
    return [*start, *options, "--device", "cpu", "--threads", "1", *more]


def run_all(start: list[str], run: Path) -> list[dict[str, Any]]:
    """Trains, and returns the events of metrics.jsonl."""
    done = subprocess.run(start, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == f"{run}\n"  # only the first process reports
    return events(run)


def events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def check_alike(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    assert [(each["event"], each["step"]) for each in one] == [(each["event"], each["step"]) for each in other]
    for mine, theirs in zip(one, other, strict=True):
        for key in ("loss", "nll", "norm"):
            if key in theirs:
                assert mine[key] == pytest.approx(theirs[key], rel=TOLERANCE)
        if "metrics" in theirs:
            assert mine["metrics"] == pytest.approx(theirs["metrics"], rel=TOLERANCE)


def check_weights(one: Path, other: Path) -> None:
    for checkpoint in ("last", "best", "average"):
        mine, theirs = (load_tensors(run / "checkpoints" / checkpoint / "model.safetensors") for run in (one, other))
        assert mine.keys() == theirs.keys()
        assert max(float((mine[name] - theirs[name]).abs().max()) for name in mine) < TOLERANCE


@pytest.mark.slow
def test_any_number_of_processes_learns_alike(tmp_path: Path) -> None:
    """Four processes train for 12 updates, and two processes continue until 20. Losses and weights are the same as with
    one process.
    """
    one, several = tmp_path / "one", tmp_path / "several"
    options = [f"{key}={value}" for key, value in settings(one).items()]
    alone = [
        api.train_run(TrainingRequest("reverse", one, [*options, steps], resume=resume), **PLAIN) and events(one)
        for steps, resume in (("training.steps=12", False), ("training.steps=20", True))
    ]
    check_alike(alone[0], run_all(command(4, several, "--set=training.steps=12"), several))
    more = ("--set=training.steps=20", "--resume", "--processes=2")
    command_itself = [sys.executable, "-m", "transduce", *command(1, several, *more)[7:]]
    check_alike(alone[1], run_all(command_itself, several))
    check_weights(one, several)


@pytest.mark.slow
def test_divided_parameters_learn_alike(tmp_path: Path) -> None:
    """Two processes with FSDP train for 12 updates and resume until 20. Losses and weights are the same as with one
    process. One process can resume their checkpoint.
    """
    one, several = tmp_path / "one", tmp_path / "several"
    options = [f"{key}={value}" for key, value in settings(one).items()]
    alone = [
        api.train_run(TrainingRequest("reverse", one, [*options, steps], resume=resume), **PLAIN) and events(one)
        for steps, resume in (("training.steps=12", False), ("training.steps=20", True), ("training.steps=24", True))
    ]
    divided = '--set=training.parallel="fsdp"'
    check_alike(alone[0], run_all(command(2, several, "--set=training.steps=12", divided), several))
    check_alike(alone[1], run_all(command(2, several, "--set=training.steps=20", divided, "--resume"), several))
    api.train_run(
        TrainingRequest("reverse", several, ["training.steps=24"], resume=True), **PLAIN
    )  # one process goes on
    check_alike(alone[2], events(several))
    check_weights(one, several)


def workers(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers in /proc")
def test_a_killed_process_loses_only_the_updates_since_the_checkpoint(tmp_path: Path) -> None:
    """torchrun starts all processes again, and --resume continues from the last checkpoint."""
    run = tmp_path / "run"
    more = ("--set=training.steps=200", "--set=training.checkpoint_every=10", "--set=training.validation.every=100")
    started = subprocess.Popen(
        command(2, run, *more, "--resume", restarts=1), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    state = run / "checkpoints" / "last" / "state.json"
    deadline = time.monotonic() + 600
    while not state.exists() and time.monotonic() < deadline and started.poll() is None:
        time.sleep(0.05)
    os.kill(workers(started.pid)[-1], signal.SIGKILL)
    _, errors = started.communicate(timeout=600)
    assert started.returncode == 0, errors[-3000:]
    history = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    assert [entry["step"] % 10 for entry in history] == [0, 0]
    assert 0 < history[1]["step"] < 200
    steps = [each["step"] for each in events(run) if each["event"] == "update"]
    assert steps == sorted(set(steps))
    assert steps[-1] == 200


def test_each_process_draws_its_own_numbers_and_the_same_ones_in_any_python() -> None:
    before = torch.get_rng_state()
    Crew(0, 3).draw_own(1, 0)
    assert torch.equal(torch.get_rng_state(), before)
    seeds = []
    for rank, step in ((1, 0), (2, 0), (1, 1)):
        Crew(rank, 3).draw_own(1, step)
        seeds.append(torch.initial_seed())
    assert seeds == [77803131892610477, 15529898885419721899, 1216048222597914020]  # numpy promises these
