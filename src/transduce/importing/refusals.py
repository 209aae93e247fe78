"""Tells why a checkpoint of fairseq or JoeyNMT is not imported."""

from __future__ import annotations

from pathlib import Path

from transduce.errors import UserError


def check_toolkit(folder: Path) -> None:
    """Raises UserError, with the reason, if the folder has the files of fairseq or of JoeyNMT. Reads none of them."""
    if any(folder.glob("dict.*.txt")) and any(folder.glob("*.pt")):
        raise UserError(
            f"{folder} is a checkpoint of fairseq, which is not imported: its file is a pickle of Python objects (the "
            "arguments of its training), and unpickling them can run code"
        )
    if any(folder.glob("*.ckpt")) and any(folder.glob("*.y*ml")):
        raise UserError(
            f"{folder} is a checkpoint of JoeyNMT, which is not imported yet: its settings and vocabularies are in "
            "files that this version does not read"
        )
