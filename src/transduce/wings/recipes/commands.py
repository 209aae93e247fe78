"""``transduce recipes``: the recipes in the package."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from dataclasses import dataclass
from typing import Annotated

import typer

WIDE = 130  # columns of a terminal that has room for one line a recipe
INDENT = "      "


@dataclass(frozen=True)
class Line:
    """A recipe's line in the list. Its record has the ``score`` and the ``minutes``; "" without a record."""

    name: str
    headline: str
    score: str
    minutes: str


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Show this recipe, or this .toml file, with all its settings: its own and its base's.",
            metavar="RECIPE",
        ),
    ] = None,
    search: Annotated[
        str | None, typer.Option(help="Only the recipes whose name or description has this text.", metavar="TEXT")
    ] = None,
) -> None:
    """List the recipes in the package by task, with score and time; or show one recipe.

    \b
    Examples:
      transduce recipes
      transduce recipes --search speech
      transduce recipes g2p
    """
    from transduce.core import config
    from transduce.core import recipes as package
    from transduce.core.errors import UserError

    if name is not None:
        settings = config.write(package.read(name))
        print("".join(f"# {line}".rstrip() + "\n" for line in package.describe(name).splitlines()))
        print(settings, end="")
        return
    wanted = (search or "").casefold()
    found = [each for each in package.names() if wanted in f"{each}\n{package.describe(each)}".casefold()]
    if not found:
        raise UserError(f"no recipe has {search!r} in its name or its description; `transduce recipes` lists all")
    print_list(found)


def print_list(names: list[str]) -> None:
    """Prints the lines of recipes, below the headings of their tasks. A narrow terminal gets two lines for each recipe,
    and a pipe gets one.
    """
    from transduce.wings.recipes.tasks import TASKS, task_of

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    longest = max(map(len, names))
    for task in TASKS:
        lines = [line_of(name) for name in names if task_of(name) == task]
        if lines:
            typer.secho(f"\n{task}", bold=True)
        for line in lines:
            facts = f"  {line.name:<{longest + 2}}{line.score:<25}{line.minutes:<9}"
            if width is None or width >= WIDE:
                typer.echo(f"{facts}{line.headline}"[:width].rstrip())
            else:
                typer.echo(facts.rstrip())
                typer.echo(textwrap.indent(textwrap.fill(line.headline, width - len(INDENT)), INDENT))
    typer.echo(
        "\nScores and minutes: on the machine of docs/results.md. `transduce recipes NAME` shows a recipe, and "
        "`transduce train NAME` trains it."
    )


def line_of(name: str) -> Line:
    """A recipe's line, from the comment at its beginning. A base that is not trained itself names who shares it."""
    from transduce.core import recipes as package

    described = package.describe(name)
    headline = re.sub(r"\s+", " ", described.partition("\n")[0])
    if package.is_base(name):
        return Line(name, f"{headline} A base without a model of: {', '.join(package.based_on(name))}.", "", "")
    text = re.sub(r"\s+", " ", described)
    score = re.search(r"\bScore[^:]*(?:\([^)]*\))?: ([\w-]+ -?[\d.]+)", text)
    minutes = re.search(r", (\d[\d.]*) minutes;", text)
    return Line(name, headline, score[1] if score else "", f"{minutes[1]} min" if minutes else "")
