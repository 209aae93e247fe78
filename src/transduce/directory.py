"""A run directory and the machine: which weights, of which runs, on which device."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

Checkpoint = Literal["best", "last", "average"]

PARTS = {
    *("config.toml", "config.toml.new", "tokenizers", "tokenizers.new", "tokenizers.old", "checkpoints", ".lock"),
    *("metrics.jsonl", "metrics.new", "tensorboard", "data", "init.json"),
    *("shortlist.safetensors", "shortlist.safetensors.new"),
    *("asked.toml", "measured.json"),  # of a sweep
}
PAIRS = {f"{split}.jsonl{new}" for split in ("train", "valid") for new in ("", ".new")}
"""All that is ever written into a run directory, and into its folder of data."""


def members(run: str | Path) -> list[Path]:
    """The run directories of "RUN+RUN"; one, where a directory has that very name."""
    parts = str(run).split("+")
    if len(parts) == 1 or Path(run).is_dir():
        return [Path(run).expanduser()]
    if not all(parts):
        raise ValueError(f"run {str(run)!r}: a run directory was expected before and after each +")
    return [Path(part).expanduser() for part in parts]


def strangers(run: Path) -> list[str]:
    """What lies in a run directory and is no part of a run."""
    names = {path.name for path in run.iterdir()} - PARTS
    data = run / "data"
    inside = {path.name for path in data.iterdir()} - PAIRS if data.is_dir() else set()
    return sorted([*names, *(f"data/{name}" for name in inside)])


def find_weights(run: Path, checkpoint: Checkpoint) -> Path:
    """The file of a checkpoint; FileNotFoundError says what is there instead."""
    if not (run / "config.toml").exists():
        raise FileNotFoundError(f"{run} is no run directory: it has no config.toml; train one with `transduce train`")
    path = run / "checkpoints" / checkpoint / "model.safetensors"
    if not path.exists():
        there = sorted(path.parent.name for path in (run / "checkpoints").glob("*/model.safetensors"))
        raise FileNotFoundError(
            f"{run} has no checkpoint {checkpoint!r} ({path} is missing); it has: "
            f"{', '.join(there) or 'none yet, so train on with --resume'}"
        )
    return path


def choose_device(name: str) -> torch.device:
    """cpu, cuda (or cuda:1) and mps as they are; auto is the first of cuda, mps and cpu that is there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device {name!r}: expected cpu, cuda, cuda:1, mps or auto") from None
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(device.type, False):
        raise ValueError(
            f"device {name!r} is not on this machine; there is: {', '.join(k for k, v in there.items() if v)}"
        )
    return device
