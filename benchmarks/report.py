"""What every result is filed with: the machine, the versions, the commit and the command."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from datetime import date
from pathlib import Path

import torch


def machine() -> str:
    """One line on where and with what a figure was measured."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent, check=False
    ).stdout.strip()
    arguments = [Path(word).name if word.startswith("/") else word for word in sys.argv[1:]]
    return (
        f"{date.today()}, {processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}, torch {torch.__version__}, commit {commit}; "
        f"`python {shlex.join([Path(sys.argv[0]).name, *arguments])}`"
    )


def processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


def write(path: Path | None, lines: list[str]) -> None:
    """The lines to a file, where one is given; they have been printed already."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
