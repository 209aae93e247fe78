"""``transduce data``: a summary of the data that a run would train on."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Plugins, SetOption
from transduce.core.plugins import load_plugins


def data(
    recipe: Annotated[
        str,
        typer.Argument(
            help="A recipe, a .toml file, or a file of data: .tsv, .csv, .jsonl, .txt, .dict, .tmx, .conllu, "
            ".conll or .trees."
        ),
    ],
    settings: SetOption = None,
    out: Annotated[Path, typer.Option(help="The folder of runs; they reuse the data that is prepared here.")] = Path(
        "runs"
    ),
    plugin: Plugins = None,
) -> None:
    """Summarise the data that a run would train on.

    It tells lengths, unknown tokens, duplicates, overlap between splits, and a sample.

    \b
    Examples:
      transduce data translation --set data.train.path=train.tsv
    """
    from transduce.core import config
    from transduce.core import recipes as package
    from transduce.core.config.user_data import Merged, borrowed
    from transduce.core.registry import alternatives
    from transduce.data.settings import Data
    from transduce.training.settings import Settings
    from transduce.wings.looking.survey import survey

    load_plugins(plugin)
    if _is_data(recipe):
        made = Merged(package.change(_data_only(recipe), settings or []))
    else:
        made = package.merged(recipe, settings or [])
    table = made.table
    tables = [field.name for field in dataclasses.fields(Settings)]
    for key in table:
        if key not in tables:
            raise config.ConfigError(key, f"a run has no such settings{alternatives(key, tables)}")
    built = config.build(table.get("data", {}), Data, path="data")
    found = survey(built, built.cache or out / ".cache")
    for line in (*found.lines(), *borrowed(table.get("data")), *made.notes):
        print(line)


def _is_data(path: str) -> bool:
    """True if the name ends like a file of data (also before ``.gz``), False for a recipe or a .toml file."""
    from transduce.data.corpora import FORMATS

    return path.lower().removesuffix(".gz").endswith(tuple(FORMATS))


def _data_only(path: str) -> dict[str, object]:
    """The settings of a run whose training set is the file at ``path``. A .txt file has targets only.

    The units of CoNLL files are symbols separated by spaces: words and tags. Those of files of trees are words, and
    tags that stand for a tree. The units of all other files are characters.
    """
    name = path.lower().removesuffix(".gz")
    sides = ("target",) if name.endswith(".txt") else ("source", "target")
    if name.endswith(".trees"):
        return {"data": {"train": {"path": path}, "units": {"source": "symbols", "target": "tree-tags"}}}
    unit = "symbols" if name.endswith((".conll", ".conllu")) else "characters"
    return {"data": {"train": {"path": path}, "units": dict.fromkeys(sides, unit)}}
