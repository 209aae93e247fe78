"""``transduce distance``: the edit distance of two texts, with its table and its alignments."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli import formats
from transduce.core.errors import UserError

if TYPE_CHECKING:
    from transduce.metrics.edit_distance import Alignment, EditTable


def distance(
    source: Annotated[str, typer.Argument(help="A text.", metavar="SOURCE")],
    target: Annotated[str, typer.Argument(help="The text to change it into.", metavar="TARGET")],
    units: Annotated[str, typer.Option(help="characters or words.")] = "characters",
    insertion: Annotated[float, typer.Option(help="The cost of inserting a unit,")] = 1,
    deletion: Annotated[float, typer.Option(help="of deleting one,")] = 1,
    substitution: Annotated[float, typer.Option(help="of substituting one,")] = 1,
    transposition: Annotated[
        float | None, typer.Option(help="of exchanging two neighbours; not allowed if not given.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All optimal alignments instead of one.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write a page (.html) or a drawing (.svg) instead.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Show the edit distance of two texts: the filled table and the best path.

    The number of optimal alignments stands below the table.

    \b
    Examples:
      transduce distance kitten sitting
      transduce distance "a b c" "a c" --units words
    """
    from transduce.metrics import edit_distance as edits
    from transduce.wings.looking.reports.distance.page import save

    if out is not None and as_json:
        raise UserError("--out draws the table and --json writes it for programs: leave out one of them")
    if out is not None and every:
        raise UserError(
            "--out draws the table and the first optimal alignments, and --all is for the terminal: leave it out"
        )
    table = edits.distance(source, target, units, insertion, deletion, substitution, transposition)
    alignments = table.alignments() if every else [table.alignment()]
    if out is not None:
        save(table, out)
    elif as_json:
        print(formats.as_json(_as_record(table, alignments)))
    else:
        _print_table_and_alignments(table, alignments)


def _print_table_and_alignments(table: EditTable[object], alignments: Iterable[Alignment[object]]) -> None:
    """Prints the table, the distance and the alignments. If the terminal is too narrow for the table, says so on
    standard error in the place of the table.
    """
    from transduce.metrics.units import columns
    from transduce.wings.looking.reports.distance.terminal import alignment_lines, lines

    drawn = lines(table)
    available, needed = shutil.get_terminal_size().columns, max(map(columns, drawn))
    if sys.stdout.isatty() and needed > available:
        typer.echo(
            f"the table takes {needed} columns and the terminal has {available}: see it with --out FILE.html", err=True
        )
    else:
        print("\n".join([*drawn, ""]))
    print(f"distance {table.distance:g}, {table.count:,} optimal alignment{'' if table.count == 1 else 's'}")
    for alignment in alignments:
        print("\n".join(["", *alignment_lines(alignment, available)]))


def _as_record(table: EditTable[object], alignments: Iterable[Alignment[object]]) -> dict[str, object]:
    return {
        "distance": table.distance,
        "count": table.count,
        "table": table.distances,
        "alignments": [[asdict(edit) for edit in alignment] for alignment in alignments],
    }
