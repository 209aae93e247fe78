"""``history.jsonl``: when, where, by what command and with which versions a run was trained."""

from __future__ import annotations

import json
import platform
import sys
from datetime import datetime, timezone
from pathlib import Path

import torch

import transduce
from transduce.files import append_line
from transduce.runs.layout import HISTORY


def append_history(run: Path, step: int, device: str) -> None:
    """Adds a line for a training that begins, or goes on after update ``step``, now and in this process."""
    record = {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "step": step,
        "command": sys.argv,
        "directory": str(Path.cwd()),
        "device": device,
        "threads": torch.get_num_threads(),
        "transduce": transduce.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
    }
    append_line(run / HISTORY, json.dumps(record))


def directories(run: Path) -> list[Path]:
    """The directories in which the run was trained, the last one first. Its relative paths are relative to these."""
    if not (run / HISTORY).exists():
        return []
    found = []
    for line in (run / HISTORY).read_text(encoding="utf-8").splitlines():
        try:
            found.append(Path(json.loads(line)["directory"]))
        except (ValueError, KeyError, TypeError):  # a line that a kill has cut
            continue
    return list(dict.fromkeys(reversed(found)))
