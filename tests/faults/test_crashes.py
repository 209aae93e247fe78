"""What a loss of power may leave: the complete old file or the complete new one, and never less than was told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from disk import crashes, recorded

from transduce.core import files


def content(folder: Path) -> dict[str, str]:
    """The files of a folder, or of nothing, by name."""
    return {path.name: path.read_text() for path in sorted(folder.iterdir())} if folder.exists() else {}


def test_a_crash_may_leave_any_part_of_what_is_not_synced(tmp_path: Path) -> None:
    """The layer itself: a file that is written without care."""
    (tmp_path / "file").write_text("old")
    with recorded(tmp_path) as tape:
        with (tmp_path / "new").open("w") as new:
            new.write("new!")
        os.replace(tmp_path / "new", tmp_path / "file")
    left = [crash.tree for crash in crashes(tape)]
    for expected in (
        {"file": b"old"},
        {"file": b"old", "new": b""},
        {"file": b"old", "new": b"new!"},
        {"file": b"old", "new": b"ne"},
        {"file": b"old", "new": bytes(4)},
        {"file": b""},  # the rename came to the disk before the content
        {"file": b"new!"},
    ):
        assert expected in left
        left.remove(expected)
    assert left == []


def fill(word: str) -> Callable[[Path], None]:
    def filled(scratch: Path) -> None:
        for name in ("one", "two"):
            (scratch / name).write_text(word)

    return filled


@pytest.mark.parametrize("before", [False, True])
def test_a_file_is_old_or_new_and_new_once_it_is_told(before: bool, tmp_path: Path) -> None:
    path = tmp_path / "disk" / "a" / "b" / "file"
    (tmp_path / "disk").mkdir()
    if before:
        files.write_text(path, "old")
    with recorded(tmp_path / "disk") as tape:
        files.write_text(path, "new")
        tape.promise("written")
    for crash in crashes(tape):
        found = crash.tree.get("a/b/file")
        allowed = [b"new"] if crash.promised else [b"new", b"old" if before else None]
        assert found in allowed, crash


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("write", [files.make_folder, files.replace_folder])
def test_a_folder_is_old_or_new_and_new_once_it_is_told(
    write: Callable[[Path, Callable[[Path], None]], None], before: bool, tmp_path: Path
) -> None:
    if before and write is files.make_folder:
        pytest.skip("it keeps the folder that is there")
    (tmp_path / "disk").mkdir()
    if before:
        write(tmp_path / "disk" / "a" / "folder", fill("old"))
    with recorded(tmp_path / "disk") as tape:
        write(tmp_path / "disk" / "a" / "folder", fill("new"))
        tape.promise("written")
    new = {"one": "new", "two": "new"}
    for place, crash in enumerate(crashes(tape)):
        folder = crash.restore(tmp_path / str(place)) / "a" / "folder"
        allowed = [new] if crash.promised else [new, {"one": "old", "two": "old"} if before else {}]
        assert content(files.current_folder(folder)) in allowed, crash
        files.recover_folder(folder) if folder.parent.exists() else None
        assert content(folder) in allowed, crash
