"""``transduce recipes``: the recipes in the package."""

from __future__ import annotations

from typing import Annotated

import typer


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Show this recipe, or this .toml file, with all its settings: its own and its base's.",
            metavar="RECIPE",
        ),
    ] = None,
) -> None:
    """List the recipes in the package: the expected score, the time and the data of each; or show one recipe."""
    from transduce.core import config
    from transduce.core import recipes as package

    if name is not None:
        settings = config.write(package.read(name))
        print("".join(f"# {line}".rstrip() + "\n" for line in package.describe(name).splitlines()))
        print(settings, end="")
        return
    for each in package.names():
        description = package.describe(each)
        if package.is_base(each):
            description += f"\nA base without a model. Train one of these: {', '.join(package.based_on(each))}"
        print(f"{each}\n    " + description.replace("\n", "\n    ") + "\n")
