"""Each command after a loss of power: it continues to the same bytes, or leaves the complete old or new file."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from disk import Crash, Tape, Tree, crashes, recorded
from test_resume import same_bytes

from selection import mostly_slow
from transduce import api
from transduce.core.files import current_folder
from transduce.runs.checkpoints import read_tensors
from transduce.runs.layout import CHECKPOINTS, MODEL, OPTIMIZER
from transduce.runs.training_state import State, read_state
from transduce.training.callbacks import Callback, Saved

Call = Callable[..., tuple[int, str, str]]
LINES = "".join(f"{line}\n" for line in ["abc", "cab", "b", "", "acca", "bb", "ca"])


class Promises(Callback):
    """Writes onto the tape what training tells: the update of the checkpoint last."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def on_checkpoint(self, saved: Saved) -> None:
        if saved.checkpoint == "last":
            self.tape.promise(str(saved.step))


@pytest.fixture(scope="module")
def training(tiny: dict[str, Any], trained: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Crash]:
    """What a loss of power may leave of the training of ``trained``."""
    disk = tmp_path_factory.mktemp("training")
    with recorded(disk) as tape:
        callbacks = [Promises(tape)]
        api.train("reverse", disk / "runs" / "run", tiny, callbacks=callbacks, device="cpu", progress=False)
    same_bytes(disk / "runs" / "run", trained)
    return crashes(tape, lambda crash: frozenset(crash.visible.items()))


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_checkpoint_that_was_told_is_never_lost(every: int, training: list[Crash], tmp_path: Path) -> None:
    checked = set()
    for crash in training[::every]:
        read = (f"{CHECKPOINTS}/last", "metrics.jsonl")
        there = {path: content for path, content in crash.visible.items() if any(name in path for name in read)}
        if (key := (crash.promised, frozenset(there.items()))) in checked:
            continue
        checked.add(key)
        folder = Crash(_with_folders(there), 0, None).restore(tmp_path / str(len(checked)))
        last = current_folder(folder / "runs" / "run" / CHECKPOINTS / "last")
        if last.exists():
            read_tensors(last / MODEL)
            read_tensors(last / OPTIMIZER)
        state = read_state(last) if last.exists() else State()
        assert state.step >= int(crash.promised or 0), crash.after
        metrics = crash.tree.get("runs/run/metrics.jsonl") or b""
        assert metrics.count(b"\n") >= (state.events or 0), "what was measured before the checkpoint is lost"
    assert len(checked) > 4


def _with_folders(tree: Tree) -> Tree:
    folders: Tree = {str(above): None for path in tree for above in reversed(Path(path).parents) if str(above) != "."}
    return folders | tree


@pytest.mark.parametrize("count", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_training_goes_on_to_the_same_bytes(
    count: int, training: list[Crash], tiny: dict[str, Any], trained: Path, tmp_path: Path
) -> None:
    for place, crash in enumerate(random.Random(count).sample(training, count)):
        run = crash.restore(tmp_path / str(place)) / "runs" / "run"
        api.train("reverse", run, tiny, resume=True, device="cpu", progress=False)
        same_bytes(run, trained)
        for line in (run / "metrics.jsonl").read_text().splitlines():
            json.loads(line)


# --------------------------------------------------------------- output files


@pytest.mark.parametrize("target", mostly_slow(["out.tsv", "new/folder/out.tsv"], fast=["new/folder/out.tsv"]))
def test_predictions_are_whole_or_are_continued(target: str, trained: Path, call: Call, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["--device=cpu", "--window=2", "--format=tsv"]
    with recorded(disk) as tape:
        status, _, err = call("predict", trained, "--out", disk / target, *options, stdin=LINES.encode())
        assert status == 0, err
        tape.promise("written")
    expected = (disk / target).read_bytes()
    found = crashes(tape, lambda crash: frozenset(crash.visible.items()))
    for place, crash in enumerate(found):
        out = crash.restore(tmp_path / str(place)) / target
        if crash.promised or crash.tree.get(target) is not None:
            assert out.read_bytes() == expected
        if crash.promised:
            continue
        status, _, err = call("predict", trained, "--out", out, *options, "--resume", stdin=LINES.encode())
        if status:
            assert any(reason in err for reason in ("it is complete", "delete", "move")), err
            assert err.count("\n") == 1
        else:
            assert out.read_bytes() == expected
            assert [each.name for each in out.parent.iterdir()] == [out.name]


@pytest.mark.parametrize(
    "command",
    [
        ("pack", "--out=DISK/run.zip", "--evaluate=none"),
        ("pack", "--out=DISK/packed", "--evaluate=none"),
        ("export", "--to=native", "--out=DISK/native"),
        ("export", "--to=engine", "--out=DISK/run.engine"),
    ],
    ids=["zip", "folder", "native", "engine"],
)
@pytest.mark.parametrize("before", [False, True])
def test_what_is_shipped_is_old_or_new(
    command: tuple[str, ...], before: bool, trained: Path, sister: Path, call: Call, tmp_path: Path
) -> None:
    """Another run was shipped there before."""
    disk = tmp_path / "disk"
    disk.mkdir()
    name = command[-2 if command[0] == "pack" else -1].rpartition("/")[2]
    options = [each.replace("DISK", str(disk)) for each in command[1:]]
    old: Tree = {}
    if before:
        status, _, err = call(command[0], sister, *options)
        assert status == 0, err
        old = _under(Tape(disk), name)
    with recorded(disk) as tape:
        status, _, err = call(command[0], trained, *options)
        assert status == 0, err
        tape.promise("written")
    new = _under(Tape(disk), name)
    assert new != old
    for crash in crashes(tape, lambda crash: frozenset(crash.visible.items())):
        read = name if name in crash.tree else f"{name}.old"
        found = {
            path.replace(read, name, 1): content for path, content in crash.tree.items() if path.split("/")[0] == read
        }
        assert found == new or (not crash.promised and found == old), sorted(found)


def _under(tape: Tape, name: str) -> Tree:
    """What stands there now under a name."""
    (now,) = crashes(tape)
    return {path: content for path, content in now.tree.items() if path.split("/")[0] == name}


def test_prepared_data_are_whole(tiny: dict[str, Any], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    settings = tiny | {"data.cache": str(cache), "training.steps": 1}

    def train(cache: Path, run: str) -> None:
        asked = settings | {"data.cache": str(cache)}
        api.train("reverse", tmp_path / run, asked, device="cpu", progress=False)

    with recorded(cache) as tape:
        train(cache, "first")
    whole = {path: content for path, content in crashes(tape)[-1].visible.items() if content is not None}
    for crash in crashes(tape, lambda crash: frozenset(crash.visible.items())):
        for path, content in crash.visible.items():
            assert content is None or content == whole[path], path
