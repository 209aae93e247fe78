"""The events of TensorBoard have what metrics.jsonl has. A full disk is told with the folder, without a traceback."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from transduce import api
from transduce.cli import app
from transduce.training.callbacks import Started
from transduce.wings.lab.tensorboard import TensorBoard

R_DROP = {"objective": {"type": "r-drop", "weight": 3.0}}


def test_the_board_has_updates_parts_and_validations(tiny: dict[str, Any], tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    api.train("reverse", tmp_path / "run", tiny | R_DROP, device="cpu", progress=False)
    board = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    expected = {"train/loss", "train/rate", "train/divergence", "valid/loss", "valid/exact", "average/loss"}
    assert expected <= set(board.Tags()["scalars"])
    assert [event.step for event in board.Scalars("valid/loss")] == [3, 6, 8]


def test_a_full_disk_is_told_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(threading, "excepthook", app._ended)
    board = TensorBoard(tmp_path / "board")
    board.on_start(Started(tmp_path, 0, 0, "cpu", "float32"))

    def full(data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    worker = board.writer.file_writer.event_writer._async_writer._worker
    worker._record_writer.write = full
    board._add("train", {"loss": 1.0}, 1)
    worker.join()
    with pytest.raises(OSError, match=r"No space left on device: .*board"):
        board._add("train", {"loss": 1.0}, 2)
    assert capfd.readouterr().err == ""
