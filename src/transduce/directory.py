"""A run directory: what lies in it, how a file gets there, and which weights of which runs are meant."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from transduce.errors import UserError

Checkpoint = Literal["best", "last", "average"]

CONFIG, TOKENIZERS, CHECKPOINTS, METRICS = "config.toml", "tokenizers", "checkpoints", "metrics.jsonl"
DATA, INHERITED, TENSORBOARD, SHORTLIST, LOCK = "data", "init.json", "tensorboard", "shortlist.safetensors", ".lock"
ASKED, MEASURED, LOG = "asked.toml", "measured.json", "log.txt"  # of a cell of a sweep
MODEL, STATE = "model.safetensors", "state.json"  # in a checkpoint's folder

REPLACED = {CONFIG, TOKENIZERS, METRICS, SHORTLIST, MEASURED}  # each is written as NAME.new first
PARTS = {CONFIG, TOKENIZERS, CHECKPOINTS, METRICS, DATA, INHERITED, TENSORBOARD, SHORTLIST, LOCK, ASKED, MEASURED, LOG}
PARTS |= {f"{name}.new" for name in REPLACED} | {f"{TOKENIZERS}.old"}
PAIRS = {f"{split}.jsonl{new}" for split in ("train", "valid") for new in ("", ".new")}
"""All that is ever written into a run directory, and into its folder of data."""


def replace_file(path: Path, text: str) -> None:
    """Write a file beside its place and then rename it: whoever reads it, even after a crash, reads a whole one."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def members(run: str | Path) -> list[Path]:
    """The run directories of "RUN+RUN"; one, where a directory has that very name."""
    parts = str(run).split("+")
    if len(parts) == 1 or Path(run).is_dir():
        return [Path(run).expanduser()]
    if not all(parts):
        raise UserError(f"run {str(run)!r}: a run directory was expected before and after each +")
    return [Path(part).expanduser() for part in parts]


def strangers(run: Path) -> list[str]:
    """What lies in a run directory and is no part of a run."""
    names = {path.name for path in run.iterdir()} - PARTS
    data = run / DATA
    inside = {path.name for path in data.iterdir()} - PAIRS if data.is_dir() else set()
    return sorted([*names, *(f"{DATA}/{name}" for name in inside)])


def find_weights(run: Path, checkpoint: Checkpoint) -> Path:
    """The file of a checkpoint; FileNotFoundError says what is there instead."""
    if not (run / CONFIG).exists():
        raise FileNotFoundError(f"{run} is no run directory: it has no {CONFIG}; train one with `transduce train`")
    path = run / CHECKPOINTS / checkpoint / MODEL
    if not path.exists():
        there = sorted(path.parent.name for path in (run / CHECKPOINTS).glob(f"*/{MODEL}"))
        raise FileNotFoundError(
            f"{run} has no checkpoint {checkpoint!r} ({path} is missing); it has: "
            f"{', '.join(there) or 'none yet, so train on with --resume'}"
        )
    return path
