"""Several processes answer a folder of shards together."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from filelock import FileLock

from transduce import api
from transduce.answers.output_folder import CLAIMS, write_shards
from transduce.core.errors import UserError
from transduce.training.request import TrainingRequest


def answer(shard: Path) -> Iterable[str]:
    return [line.upper() for line in shard.read_text().splitlines()]


def shards(folder: Path) -> list[Path]:
    folder.mkdir()
    found = [folder / f"{number}.txt" for number in range(3)]
    for path in found:
        path.write_text(f"line of {path.name}\n")
    return found


def test_a_shard_is_answered_once_and_other_settings_are_refused(tmp_path: Path) -> None:
    every, out = shards(tmp_path / "in"), tmp_path / "out"
    write_shards(every, out, answer, {"beam": 1})
    assert [(out / each.name).read_text() for each in every] == [each.read_text().upper() for each in every]
    write_shards(every, out, lambda shard: pytest.fail("answered again"), {"beam": 1})
    with pytest.raises(UserError, match="begun with another run or other options"):
        write_shards(every, out, answer, {"beam": 2})


def test_a_shard_of_another_process_is_left_out_until_its_lock_is_free(tmp_path: Path) -> None:
    every, out = shards(tmp_path / "in"), tmp_path / "out"
    (out / CLAIMS).mkdir(parents=True)
    (out / CLAIMS / "settings.json").write_text("{}")
    other = FileLock(out / CLAIMS / "0.txt.lock", thread_local=False)
    other.acquire()
    working = threading.Thread(target=write_shards, args=(every, out, answer, {}))
    working.start()
    deadline = time.monotonic() + 60
    while not (out / "2.txt").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not (out / "0.txt").exists()
    assert working.is_alive()
    other.release()  # as the operating system does when the other process is killed
    working.join(60)
    assert (out / "0.txt").read_text() == "LINE OF 0.TXT\n"


def test_a_shard_that_fails_leaves_no_file_and_no_lock(tmp_path: Path) -> None:
    every, out = shards(tmp_path / "in"), tmp_path / "out"

    def broken(shard: Path) -> Iterable[str]:
        yield "half"
        raise UserError("a line is too long")

    with pytest.raises(UserError, match="too long"):
        write_shards(every, out, broken, {})
    assert not (out / "0.txt").exists()
    write_shards(every, out, answer, {})
    assert (out / "0.txt").read_text() == "LINE OF 0.TXT\n"


@pytest.mark.slow
def test_after_a_kill_the_folder_has_the_bytes_of_predict(tmp_path: Path) -> None:
    run, draw = tmp_path / "run", random.Random(1)
    settings = {
        "data.origin": {"type": "reverse", "pairs": 150, "longest": 6},
        "data.cache": str(tmp_path / "cache"),
        "training.steps": 20,
        "training.validation.times": 0,
    }
    api.train_run(TrainingRequest("reverse", run, settings), device="cpu", progress=False)
    every, out = shards(tmp_path / "in"), tmp_path / "out"
    for each in every:
        each.write_text("".join("".join(draw.choices("abcdef", k=5)) + "\n" for _ in range(500)))
    start = [sys.executable, "-m", "transduce", "predict", str(run), "--device", "cpu", "--threads", "1"]
    killed = subprocess.Popen([*start, str(tmp_path / "in"), "--out", str(out)])
    lock, deadline = out / CLAIMS / "0.txt.lock", time.monotonic() + 300
    while not lock.exists() and killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    assert not (out / "2.txt").exists()
    workers = [subprocess.Popen([*start, str(tmp_path / "in"), "--out", str(out)]) for _ in range(2)]
    assert [worker.wait(timeout=300) for worker in workers] == [0, 0]
    for each in every:
        assert subprocess.check_output([*start, str(each)], timeout=300) == (out / each.name).read_bytes()
