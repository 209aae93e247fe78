"""Recipes: configurations that come with the package, one .toml for each result it stands for.

The comment a recipe opens with states what it should score, in how long, on what; its first line is the headline.
A recipe may be a change of another: ``base = "NAME"``, or a path of a .toml file, relative to its own.
"""

from __future__ import annotations

import itertools
import os
from importlib import resources
from pathlib import Path
from typing import Any

from transduce import config
from transduce.config.errors import kind, shown
from transduce.names import alternatives

FOLDER = resources.files(__name__)
BUDGET = ("steps", "epochs", "minutes")  # of training: given anew, one takes the place of all three


def names() -> list[str]:
    """The recipes there are, in alphabetical order."""
    return sorted(file.name.removesuffix(".toml") for file in FOLDER.iterdir() if file.name.endswith(".toml"))


def read(recipe: str | Path) -> config.Table:
    """The tables of a recipe by name, or of a .toml file by path, merged into those of its ``base``.

    A budget replaces the base's. ConfigError tells of a name that no recipe has (with the nearest), and of bases that
    go round in a circle.
    """
    return _read(os.path.normpath(recipe), ())


def based_on(name: str) -> list[str]:
    """The recipes whose ``base`` is ``name``."""
    return [other for other in names() if _tables(other).get("base") == name]


def without_budget(table: config.Table) -> config.Table:
    """The tables of a run without what they say of how long to train."""
    training = table.get("training", {})
    if not isinstance(training, dict):
        return table  # which is checked when a run is made of it
    return {**table, "training": {key: value for key, value in training.items() if key not in BUDGET}}


def describe(name: str) -> str:
    """The comment a recipe opens with, without its marks."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), _bytes(name).decode().splitlines())
    return "\n".join(line.removeprefix("#").removeprefix(" ").rstrip() for line in lines).strip()


def headline(name: str) -> str:
    """The first line of ``describe``."""
    return describe(name).partition("\n")[0]


def _read(recipe: str, changes: tuple[str, ...]) -> config.Table:
    """The tables of a recipe; ``changes`` are the recipes based on it through which it came to be read."""
    if recipe in changes:
        circle = " -> ".join([*changes[changes.index(recipe) :], recipe])
        raise config.ConfigError("base", f"a circle, {circle}: one of these must stand alone")
    table = _tables(recipe)
    if "base" not in table:
        return table
    name = _base(recipe, table.pop("base"))
    try:
        base = _read(name, (*changes, recipe))
    except FileNotFoundError:
        raise config.ConfigError("base", f"{recipe} is based on {name}, and there is no such file") from None
    training = table.get("training", {})
    anew = isinstance(training, dict) and any(key in BUDGET for key in training)
    return config.merge(without_budget(base) if anew else base, table)


def _tables(recipe: str) -> config.Table:
    return config.read(recipe) if _is_file(recipe) else config.parse(_bytes(recipe), f"recipe {recipe}")


def _base(recipe: str, base: Any) -> str:
    """What ``base`` in a recipe names; a path as seen from here, and always the same one, so that circles show."""
    if not isinstance(base, str):
        raise config.ConfigError(
            "base", f"{shown(base)} is {kind(base)}, expected a recipe's name or a .toml file's path"
        )
    return os.path.normpath(Path(recipe).parent / base) if _is_file(base) else base


def _is_file(recipe: str) -> bool:
    return recipe.endswith(".toml")


def _bytes(name: str) -> bytes:
    if name not in names():
        raise config.ConfigError("", f"no recipe {name!r}{alternatives(name, names())}; or give a path to a .toml file")
    return FOLDER.joinpath(f"{name}.toml").read_bytes()
