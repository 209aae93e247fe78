"""A folder of shards, in commands that answer or measure it file by file, on one machine or on a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from transduce.core.errors import UserError


@dataclass(frozen=True)
class ShardOptions:
    """Options for a folder of shards in ``evaluate``. Raises UserError for a shard or a cluster without ``out``."""

    out: Annotated[
        Path | None,
        typer.Option(help="If --pairs is a folder of shards: the folder for their outputs.", metavar="FOLDER"),
    ] = None
    shard: Annotated[
        str | None, typer.Option(help="Answer only this file of the folder of shards.", metavar="NAME")
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(help="Answer the shards on the workers of the Dask scheduler at this address.", metavar="ADDRESS"),
    ] = None

    def __post_init__(self) -> None:
        if (self.shard or self.cluster) and self.out is None:
            raise UserError("--shard and --cluster are for a folder of shards: give another folder as --out")


def shards_of(folder: Path, out: Path, only: str | None = None) -> list[Path]:
    """The files of a folder, sorted by name, without those whose name begins with a dot; or the one with the name
    ``only``.

    Raises UserError if ``out`` is a file or the folder itself, and if there are no files.
    """
    if out.is_file() or (out.exists() and out.samefile(folder)):
        raise UserError(f"{folder} is a folder of shards: give a different folder as --out")
    found = sorted(each for each in folder.iterdir() if each.is_file() and not each.name.startswith("."))
    if not found:
        raise UserError(f"{folder} has no files: a folder of shards was expected")
    if only is None:
        return found
    chosen = [shard for shard in found if shard.name == only]
    if not chosen:
        raise UserError(
            f"--shard {only}: {folder} has no such file; it has {found[0].name} and {len(found) - 1} others"
        )
    return chosen
