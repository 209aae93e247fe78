"""Recipes: configurations that come with the package, one .toml for each result it stands for.

The comment a recipe opens with states what it should score, in how long, on what; its first line is the headline.
"""

from __future__ import annotations

import itertools
from importlib import resources

from transduce import config
from transduce.names import alternatives

FOLDER = resources.files(__name__)


def names() -> list[str]:
    """The recipes there are, in alphabetical order."""
    return sorted(file.name.removesuffix(".toml") for file in FOLDER.iterdir() if file.name.endswith(".toml"))


def read(name: str) -> config.Table:
    """A recipe's tables; ConfigError names the nearest recipe where there is none of that name."""
    return config.parse(_bytes(name), f"recipe {name}")


def describe(name: str) -> str:
    """The comment a recipe opens with, without its marks."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), _bytes(name).decode().splitlines())
    return "\n".join(line.removeprefix("#").removeprefix(" ").rstrip() for line in lines).strip()


def headline(name: str) -> str:
    """The first line of ``describe``."""
    return describe(name).partition("\n")[0]


def _bytes(name: str) -> bytes:
    if name not in names():
        raise config.ConfigError("", f"no recipe {name!r}{alternatives(name, names())}; or give a path to a .toml file")
    return FOLDER.joinpath(f"{name}.toml").read_bytes()
