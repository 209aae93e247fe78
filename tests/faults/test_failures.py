"""Operations that fail: each command ends in one line, the old file stays whole, and nothing half-written stays."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from disk import Tape, Tree, crashes
from failing import Ended, Failing, failing
from test_resume import same_bytes, toml

from selection import mostly_slow

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler: gcc")

TEXTS = ["abc", "cab", "b", "acca"]
OUTPUTS = {
    "predict": ("--out=DISK/out", "--device=cpu", "--threads=1", "--window=2"),
    "pack": ("--out=DISK/out", "--evaluate=none"),
    "engine": ("--to=engine", "--out=DISK/out.engine"),
    "native": ("--to=native", "--out=DISK/out"),
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failing]:
    with failing(tmp_path_factory.mktemp("failing")) as found:
        yield found


def there(folder: Path) -> Tree:
    """What the folder has now, without locks."""
    (now,) = crashes(Tape(folder))
    return {path: content for path, content in now.tree.items() if not path.endswith(".lock")}


def not_one_line(ended: Ended) -> str:
    """What is wrong with the end of a command that failed: it is one line, which names a file."""
    last = ended.told.strip().split("\n")[-1]
    if ended.status != 2 or "Traceback" in ended.told or not last.startswith("transduce: "):
        return f"status {ended.status}"
    return "" if "/" in last else "it names no file"


TRIED = [
    (name, every, error)
    for name, every in [*((name, 1) for name in OUTPUTS), ("predict", 6), ("native", 6)]
    for error in (errno.ENOSPC, errno.EIO)
]


@pytest.mark.parametrize(
    ("name", "every", "error"),
    mostly_slow(TRIED, fast=[("predict", 6, errno.ENOSPC), ("native", 6, errno.EIO)]),
)
def test_a_failing_write_leaves_the_old_file(
    name: str, every: int, error: int, broken: Failing, trained: Path, tmp_path: Path
) -> None:
    """On a full disk all later operations fail, too; a bad block fails once. ``every`` n-th operation is tried."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["export" if name in ("engine", "native") else name, str(trained)]
    command += [each.replace("DISK", str(disk)) for each in OUTPUTS[name]]
    ordered: dict[str, Any] = {
        "command": command,
        "below": str(disk),
        "error": error,
        "forever": error == errno.ENOSPC,
        "stdin": "".join(f"{text}\n" for text in TEXTS),
    }
    first = broken(nth=10**6, **ordered)
    assert first.status == 0, first.told
    assert first.counted > 3
    old = there(disk)
    wrong = []
    for nth in range(1, first.counted + 1, every):
        ended = broken(nth=nth, **ordered)
        now = there(disk)
        reason = "" if ended.status == 0 and now == old else not_one_line(ended)  # it may succeed in another way
        if not reason and now != old:
            kept = {path.replace("out.old", "out", 1): content for path, content in now.items()}  # no rename succeeds
            if {path: kept[path] for path in kept if not path.startswith("out.p")} != old:
                reason = f"it left {sorted(set(now) ^ set(old))}"
            for left in disk.glob("out.p*"):
                left.unlink()
            if not (disk / "out").exists() and (disk / "out.old").exists():
                (disk / "out.old").rename(disk / "out")
        if reason:
            wrong.append((nth, reason, ended.told))
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_training_that_cannot_write_goes_on_later(
    error: int, broken: Failing, tiny: dict[str, Any], trained: Path, tmp_path: Path
) -> None:
    sets = [f"--set={key}={toml(value)}" for key, value in tiny.items()]
    nth = counted = 1
    while nth <= counted:
        disk = tmp_path / f"disk-{nth}"
        disk.mkdir()
        command = ["train", "reverse", f"--out={disk / 'run'}", "--device=cpu", "--threads=1", "--resume", *sets]
        ordered: dict[str, Any] = {"command": command, "below": str(disk), "error": error}
        ended = broken(nth=nth, forever=error == errno.ENOSPC, **ordered)
        assert ended.status == 0 or not not_one_line(ended), ended.told
        again = broken(nth=10**6, forever=False, **ordered)
        assert again.status == 0, again.told
        same_bytes(disk / "run", trained)
        counted = max(counted, ended.counted, again.counted)
        shutil.rmtree(disk)
        nth += 24
