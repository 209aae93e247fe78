"""Tells why a checkpoint of fairseq is not imported."""

from __future__ import annotations

from pathlib import Path

from transduce.core.errors import UserError


def check_toolkit(folder: Path) -> None:
    """Raises UserError, with the reason, if the folder has the files of fairseq. Reads none of them."""
    if any(folder.glob("dict.*.txt")) and any(folder.glob("*.pt")):
        raise UserError(
            f"{folder} is a checkpoint of fairseq, which is not imported: its file is a pickle of Python objects (the "
            "arguments of its training), and unpickling them can run code; train a recipe on the same data, "
            "or translate with fairseq"
        )
