"""``transduce import``: a run of a model that another toolkit has trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def import_(
    folder: Annotated[
        Path,
        typer.Argument(help="A folder with a checkpoint of Marian, OPUS-MT or JoeyNMT.", metavar="FOLDER"),
    ],
    out: Annotated[Path | None, typer.Option(help="The run directory; by default runs/FOLDER.", metavar="DIR")] = None,
) -> None:
    """Make a run of a checkpoint of Marian, OPUS-MT or JoeyNMT.

    The logits of the first two are compared with the original's.

    \b
    Examples:
      transduce import opus-mt-de-en --out runs/de-en
    """
    from transduce.wings.engines.importing.run import import_run

    done = import_run(folder, Path("runs") / folder.resolve().name if out is None else out)
    for line in (*([] if done.agreement is None else [str(done.agreement)]), *done.notes):
        print(f"{done.run}: {line}")
