"""``history.jsonl``: when, where, by what command and with which versions a run was trained."""

from __future__ import annotations

import json
import platform
import sys
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

import torch

import transduce
from transduce.compute.processor import model_name
from transduce.core.files import append_line
from transduce.core.text_files import read_text
from transduce.runs import code
from transduce.runs.layout import HISTORY


def append_history(run: Path, step: int, device: str, changed: str | None = None) -> None:
    """Adds a line to a run's history.jsonl, when training begins (``step`` 0) or goes on after update ``step``.

    The line has ``step``, ``device``, the time now, and this process's command, current directory, threads, versions,
    code and processor. ``changed`` names the change of the data since the checkpoint.
    """
    own = code.code()
    record: dict[str, object] = {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "step": step,
        "command": sys.argv,
        "directory": str(Path.cwd()),
        "device": device,
        "threads": torch.get_num_threads(),
        "transduce": transduce.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": own.commit,
        "clean": own.clean,
        "platform": platform.platform(),
        "processor": model_name(),
    }
    if changed is not None:
        record["data"] = changed
    append_line(run / HISTORY, json.dumps(record, ensure_ascii=False))


def read_history(run: Path) -> list[dict[str, object]]:
    """The records that ``append_history`` wrote, in order. A line that a kill has cut is left out; empty if the run has
    no history.
    """
    if not (run / HISTORY).exists():
        return []
    found = []
    for line in read_text(run / HISTORY).split("\n"):
        with suppress(ValueError):
            record = json.loads(line)
            found += [record] if isinstance(record, dict) else []
    return found


def directories(run: Path) -> list[Path]:
    """The current directories of the processes that trained the run, each once, the latest first. A relative path in
    the run's settings is relative to one of them.
    """
    named = (record.get("directory") for record in read_history(run))
    return list(dict.fromkeys(Path(each) for each in [*named][::-1] if isinstance(each, str)))
