"""Files are written whole or not at all, are on the disk before they are named, and errors name the file."""

from __future__ import annotations

import errno
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from transduce.core import files
from transduce.core.errors import UserError
from transduce.models.weights import save_tensors


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files and folders that are synced to disk, in order. A renamed one is marked with "->"."""
    told: list[str] = []
    rename, replace, sync = Path.rename, Path.replace, files.sync

    def renamed(path: Path, target: Path) -> Path:
        told.append(f"-> {target.name}")
        return rename(path, target)

    def replaced(path: Path, target: Path) -> Path:
        told.append(f"-> {target.name}")
        return replace(path, target)

    def syncing(path: Path) -> None:
        told.append(files.scratch_of(path.name) or path.name)
        sync(path)

    monkeypatch.setattr(Path, "rename", renamed)
    monkeypatch.setattr(Path, "replace", replaced)
    monkeypatch.setattr(files, "sync", syncing)
    return told


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, synced: list[str]) -> None:
    files.write_text(tmp_path / "file", "content")
    assert synced == ["file", "-> file", tmp_path.name]


@pytest.mark.parametrize("write", [files.make_folder, files.replace_folder])
def test_a_folder_is_on_the_disk_before_it_has_its_name(write: object, tmp_path: Path, synced: list[str]) -> None:
    def fill(scratch: Path) -> None:
        (scratch / "inner").mkdir()
        (scratch / "inner" / "file").write_text("content")

    write(tmp_path / "folder", fill)  # type: ignore[operator]
    assert sorted(synced[:3]) == ["file", "folder", "inner"]
    assert synced[3:] == ["-> folder", tmp_path.name]


def test_a_kill_while_a_file_is_written_leaves_the_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.write_text(path, "earlier")

    def lines():
        yield "half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write_lines(path, lines())
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_two_processes_may_make_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"

    def fill(scratch: Path) -> None:
        (scratch / "file").write_text("second")
        files.make_folder(folder, lambda first: (first / "file").write_text("first"))

    files.make_folder(folder, fill)
    assert (folder / "file").read_text() == "first"
    assert list(tmp_path.iterdir()) == [folder]


def test_a_full_disk_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for write in (
        lambda path: files.write_text(path, "content"),
        lambda path: files.make_folder(path, lambda scratch: None),
        lambda path: files.replace_folder(path, lambda scratch: None),
    ):
        with pytest.raises(OSError, match=r"No space left on device: '.*/there'"):
            write(tmp_path / "there")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "", "/source"),  # a copy names its source
        OSError(errno.EDQUOT, ""),
        OSError("1000 requested and 512 written"),  # NumPy
        RuntimeError("Error: No space left on device (os error 28)"),  # safetensors, tokenizers
        RuntimeError("Error: Input/output error (os error 5)"),  # a damaged disk
    ],
)
def test_each_error_of_a_full_disk_names_the_file(tmp_path: Path, error: Exception) -> None:
    def fill(scratch: Path) -> None:
        raise error

    with pytest.raises(OSError, match="there") as caught:
        files.write_file(tmp_path / "there", fill)
    assert "source" not in str(caught.value)
    assert caught.value.filename in (str(tmp_path / "there"), None)


@pytest.mark.parametrize("error", [ValueError("of the content"), FileNotFoundError(errno.ENOENT, "", "/source")])
def test_another_error_stays_what_it_is(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)) as caught, files.named_errors(tmp_path / "there"):
        raise error
    assert caught.value is error


def test_a_device_gets_the_content_and_stays_a_device(tmp_path: Path, terminal: tuple[int, Path]) -> None:
    screen, device = terminal
    files.write_text(device, "content")
    assert os.read(screen, 99) == b"content"
    assert device.is_char_device()
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as pool:
        read = pool.submit((tmp_path / "pipe").read_text)
        files.write_text(tmp_path / "pipe", "content")
        assert read.result(timeout=60) == "content"


def test_what_a_kill_left_is_deleted_by_the_next_write(tmp_path: Path) -> None:
    (tmp_path / ".last-01234567").mkdir()
    (tmp_path / ".last-01234567" / "model").touch()
    files.replace_folder(tmp_path / "last", lambda scratch: None)
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_a_write_deletes_what_was_left_more_than_a_day_ago(tmp_path: Path) -> None:
    """Another process may be writing what is younger."""
    names = [".file-00000001", ".file-0000000x", ".file-2-00000001", ".file-00000002", ".file-00000003"]
    for name, hours in zip(names, (23.9, 26, 26, 24.1, 26), strict=True):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - hours * 3600,) * 2)
    files.write_text(tmp_path / "file", "content")
    assert sorted(path.name for path in tmp_path.iterdir()) == [*names[:3], "file"]


def test_what_cannot_be_deleted_stops_no_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    (tmp_path / ".last-01234567").mkdir()
    monkeypatch.setattr(os, "rmdir", refused)
    files.clear_scratch(tmp_path / "last")
    assert (tmp_path / ".last-01234567").is_dir()


def test_two_processes_may_make_one_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process makes the folder when this one has seen that it is missing."""
    is_dir, parent, seen = Path.is_dir, tmp_path / "parent", list[Path]()

    def missing_at_first(path: Path) -> bool:
        seen.append(path)
        return is_dir(path) and seen != [parent]

    parent.mkdir()
    monkeypatch.setattr(Path, "is_dir", missing_at_first)
    files.ensure_folder(parent)
    assert len(seen) > 1


def test_a_folder_or_a_file_without_rights_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_text(tmp_path / "file", "content")
    with pytest.raises(IsADirectoryError, match=f"Is a directory: '{tmp_path}'"):
        files.check_replaceable(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(PermissionError, match=f"Permission denied: '{tmp_path}/file'"):
        files.check_replaceable(tmp_path / "file")
    files.check_replaceable(tmp_path / "new")


def test_a_file_keeps_its_rights(tmp_path: Path) -> None:
    files.write_text(tmp_path / "file", "old")
    (tmp_path / "file").chmod(0o640)
    files.write_text(tmp_path / "file", "new")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_a_failed_replacement_leaves_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def refused(path: Path, target: Path) -> Path:
        if path.name.startswith(".folder-"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refused)
    for write in (files.make_folder, files.replace_folder):
        with pytest.raises(OSError, match=r"Input/output error: '.*/folder'"):
            write(tmp_path / "folder", lambda scratch: None)
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "folder" / "old").mkdir(parents=True)
    with pytest.raises(OSError, match=r"Input/output error: '.*/folder'"):
        files.replace_folder(tmp_path / "folder", lambda scratch: None)
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["old"]


def test_a_name_is_of_its_facts(tmp_path: Path) -> None:
    assert files.name_from(("a", 1)) == files.name_from(("a", 1)) != files.name_from(("a", 2))
    assert len(files.name_from(None)) == 12


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO])
def test_a_folder_that_must_be_written_is_told_with_its_purpose(number: int, tmp_path: Path) -> None:
    told = OSError if number == errno.EIO else UserError
    with pytest.raises(told) as caught, files.needs_writing(tmp_path, "it keeps data", "choose another"):
        raise OSError(number, os.strerror(number))
    if told is UserError:
        assert str(caught.value) == (
            f"{tmp_path} cannot be written ({os.strerror(number)}), and it keeps data: choose another"
        )


def test_everyone_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        files.write_text(tmp_path / "text", "content")
        save_tensors({"a": torch.zeros(2)}, tmp_path / "weights")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in sorted(tmp_path.iterdir())] == [0o644, 0o644]


def test_the_file_of_an_engine_has_its_ending_and_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "folder.engine").mkdir()
    assert files.is_engine_file(tmp_path / "g2p.engine")
    assert not files.is_engine_file(tmp_path / "g2p.zip")
    assert not files.is_engine_file(tmp_path / "folder.engine")
