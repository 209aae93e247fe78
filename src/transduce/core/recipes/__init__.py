"""Recipes: configurations that come with the package, one .toml file for each result.

A recipe begins with a comment that describes it, usually with its data, time and score. The comment's first line is the
headline. A recipe can change another one: its key ``base`` is a recipe's name, or the path of a .toml file relative to
the folder of its own file. It can leave its settings to other recipes if there are few training pairs: ``sizes =
[{ below = 3000, recipe = "NAME" }]``. Its list ``about_data`` names settings that speak of its own data:
``config.user_data`` says what happens to them if a user brings other data.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.core import config
from transduce.core.config.errors import kind, shown
from transduce.core.config.user_data import ABOUT_DATA, SPLITS, Merged, without_own_data
from transduce.core.errors import MissingWingError
from transduce.core.registry import RECIPES, alternatives, imported
from transduce.core.text_files import kind_of

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

BUDGET = ("steps", "epochs", "minutes")  # limits of training; setting one replaces all three
SIZES = "sizes"


@dataclass(frozen=True)
class Size:
    """An entry of a recipe's ``sizes``: with fewer than ``below`` training pairs, the recipe ``recipe`` is better."""

    below: int
    recipe: str


def names() -> list[str]:
    """The names of all recipes of the package, sorted."""
    files = (file.name for folder in folders() for file in folder.iterdir())
    return sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml"))


def read(recipe: str | Path) -> config.Table:
    """The tables of a recipe by name, or of a .toml file by path, merged over the tables of its ``base``.

    The recipe's own values win. If it sets one of steps, epochs and minutes, the base's are all dropped. ``sizes`` and
    ``about_data`` are left out, because they are no settings of a run. If a user's .toml file brings data, what the
    package's recipes say about their own data is left out too (``config.user_data``).

    Raises ConfigError for an unknown name (with the nearest one), for a missing base, for circular bases, and for a
    file that is not TOML. Raises MissingWingError for a name that may belong to recipes that are not installed. Raises
    OSError if the .toml file itself cannot be read.
    """
    return merged(recipe).table


def merged(recipe: str | Path, settings: Mapping[str, object] | Sequence[str] = ()) -> Merged:
    """``Recipe.merged`` of a recipe by name or path. Raises what ``read`` and ``change`` raise."""
    return Recipe.of(recipe).merged(settings)


@dataclass(frozen=True)
class Recipe:
    """A recipe as its files say, each of them read once: the ``layers``, its base's first, and the ``sizes`` of its own
    file, the smallest first. A recipe does not inherit those of its base.
    """

    layers: tuple[Layer, ...]
    sizes: tuple[Size, ...]

    @classmethod
    def of(cls, recipe: str | Path) -> Recipe:
        """The recipe of this name, or of the .toml file at this path. Raises what ``read`` raises, and ConfigError if
        the sizes have another form than ``[{ below = 3000, recipe = "NAME" }]``.
        """
        layers = _layers(os.path.normpath(recipe), ())
        given = config.build({SIZES: layers[-1].sizes}, _Sizes).sizes
        return cls(tuple(layers), tuple(sorted(given, key=lambda size: size.below)))

    def merged(self, settings: Mapping[str, object] | Sequence[str] = (), pairs: config.Table | None = None) -> Merged:
        """The settings, as ``read`` gives them, with a user's changes, as ``change`` makes them.

        ``pairs`` is the table ``data`` of a user's pairs from Python, None without pairs. If there are pairs, all data
        of the recipe are left out, also the data of a user's .toml file. Raises what ``change`` raises.
        """
        count = len(self.layers) if pairs else sum(not layer.own for layer in self.layers)
        recipes, own = self.layers[:count], self.layers[count:]
        about = [key for layer in recipes for key in layer.about_data]
        mine = {} if pairs is None else {"data": pairs}
        brought = _over_all([*(layer.table for layer in own), change({}, settings), mine])
        base, notes = without_own_data(_over_all([layer.table for layer in recipes]), brought, about)
        if pairs and "data" in base:  # they have columns of their own
            base = {**base, "data": {key: value for key, value in base["data"].items() if key != "columns"}}
        table = change(_over_all([base, *(layer.table for layer in own)]), settings)
        return Merged(config.merge(table, mine), notes, tuple(config.flatten(brought)))


def continued(run: config.Table, settings: Mapping[str, object] | Sequence[str]) -> Merged:
    """The settings of a run that goes on, with a user's changes, by the same rule: a training set that the changes name
    replaces an origin that the run was trained on. Files of splits that the run names are the user's.
    """
    fixed = tuple(config.flatten(change({}, settings)))
    data = run.get("data", {})
    if "train" in data:
        return Merged(change(run, settings), (), fixed)
    theirs = {"data": {split: data[split] for split in SPLITS if split in data}}
    table, notes = without_own_data(run, config.merge(theirs, change({}, settings)))
    return Merged(change(table, settings), notes, fixed)


def change(table: config.Table, settings: Mapping[str, object] | Sequence[str]) -> config.Table:
    """A new table: ``table`` with the changes ``settings``: ``{"training.steps": 1000}`` or
    ``["training.steps=1000"]``. If they name a budget (steps, epochs, minutes), the table's own one is removed first.
    """
    if isinstance(settings, str):
        settings = [settings]
    keys = settings if isinstance(settings, Mapping) else [setting.partition("=")[0].strip() for setting in settings]
    if not {f"training.{limit}" for limit in BUDGET}.isdisjoint(keys):
        table = without_budget(table)
    return config.change(table, settings)


@dataclass(frozen=True)
class _Sizes:
    sizes: tuple[Size, ...]


def own_tables(recipe: str) -> config.Table:
    """The tables of a recipe's own file, by name or path. Its key ``base`` is among them, and the tables of its base
    are not.
    """
    return config.read(recipe) if _is_file(recipe) else config.parse(_bytes(recipe), f"recipe {recipe}")


def based_on(name: str) -> list[str]:
    """The names of the package's recipes whose own ``base`` is ``name``, sorted. A recipe that is based on one of these
    is not among them.
    """
    return [other for other in names() if own_tables(other).get("base") == name]


def is_base(name: str) -> bool:
    """Returns True if a recipe of the package has no model: others share its settings, and it is not trained."""
    return "model" not in read(name)


def without_budget(table: config.Table) -> config.Table:
    """A copy of a run's tables without the steps, epochs and minutes of training. If ``training`` is not a table,
    nothing is removed.
    """
    training = table.get("training", {})
    if not isinstance(training, dict):
        return table  # checked later, when a run is made of it
    return {**table, "training": {key: value for key, value in training.items() if key not in BUDGET}}


def describe(recipe: str) -> str:
    """The comment at the beginning of a recipe, without its # marks. ``recipe`` is a name or the path of a .toml file.

    Raises ConfigError for an unknown name, and OSError if the .toml file cannot be read.
    """
    text = Path(recipe).read_bytes() if _is_file(recipe) else _bytes(recipe)
    lines = itertools.takewhile(lambda line: line.startswith("#"), text.decode(errors="replace").splitlines())
    return "\n".join(line.removeprefix("#").removeprefix(" ").rstrip() for line in lines).strip()


def headline(name: str) -> str:
    """The first line of ``describe``."""
    return describe(name).partition("\n")[0]


def folders() -> list[Traversable]:
    """The folders of the package's recipes: of the hall, which has ``reverse`` alone, and of the wing ``recipes``."""
    with suppress(MissingWingError):
        return [resources.files(__name__), resources.files(imported(RECIPES, "the recipes"))]
    return [resources.files(__name__)]


@dataclass(frozen=True)
class Layer:
    """The settings of one recipe's own file, without its base's settings. ``own`` is True for a user's .toml file.
    ``sizes`` are not checked yet.
    """

    table: config.Table
    sizes: object
    about_data: tuple[str, ...]
    own: bool


def _layers(recipe: str, changes: tuple[str, ...]) -> list[Layer]:
    """The layers of a recipe, its base's first. ``recipe`` is a normalised path or a name. ``changes`` are the recipes
    that have this one as their base, directly or through others, the outermost first. Raises ConfigError if ``recipe``
    is among them: a circle.
    """
    if recipe in changes:
        circle = " -> ".join([*changes[changes.index(recipe) :], recipe])
        raise config.ConfigError("base", f"a circle, {circle}: one of these must stand alone")
    table = own_tables(recipe)
    sizes = table.pop(SIZES, [])
    about = config.build({ABOUT_DATA: table.pop(ABOUT_DATA, [])}, _AboutData).about_data
    base = table.pop("base", None)
    layer = Layer(table, sizes, about, _is_file(recipe))
    if base is None:
        return [layer]
    name = _base(recipe, base)
    try:
        return [*_layers(name, (*changes, recipe)), layer]
    except FileNotFoundError:
        raise config.ConfigError("base", f"{recipe} is based on {name}, and there is no such file") from None


@dataclass(frozen=True)
class _AboutData:
    about_data: tuple[str, ...]


def _over_all(tables: Sequence[config.Table]) -> config.Table:
    """The tables merged in order: each over the earlier ones."""
    return functools.reduce(_over, tables, {})


def _over(base: config.Table, table: config.Table) -> config.Table:
    """``table`` merged over ``base``. If it sets one of steps, epochs and minutes, the base's limits are dropped."""
    training = table.get("training", {})
    anew = isinstance(training, dict) and any(key in BUDGET for key in training)
    return config.merge(without_budget(base) if anew else base, table)


def _base(recipe: str, base: object) -> str:
    """Resolves the value of ``base`` in a recipe to the name or the path of another recipe. A path is joined to the
    folder of ``recipe`` and normalised, so that circles are detected. Raises ConfigError if the value is not a string.
    """
    if not isinstance(base, str):
        raise config.ConfigError(
            "base", f"{shown(base)} is {kind(base)}, expected a recipe's name or a .toml file's path"
        )
    return os.path.normpath(Path(recipe).parent / base) if _is_file(base) else base


def _is_file(recipe: str) -> bool:
    return recipe.endswith(".toml")


def _bytes(name: str) -> bytes:
    if name not in names():
        if (path := Path(name)).exists():
            raise config.ConfigError("", f"{name} is {(found := kind_of(path)).name}, and not a recipe: {found.remedy}")
        if path.suffix:
            raise config.ConfigError("", f"there is no file {name}, and no recipe of this name: check the path")
        if not difflib.get_close_matches(name, names(), n=1, cutoff=0.5):
            imported(
                RECIPES, f"the recipe {name!r}"
            )  # raises MissingWingError if only the recipes of the hall are there
        raise config.ConfigError("", f"no recipe {name!r}{alternatives(name, names())}; or give a path to a .toml file")
    return place(name).read_bytes()


def place(name: str) -> Traversable:
    """The file of a recipe of the package."""
    return next(file for folder in folders() if (file := folder.joinpath(f"{name}.toml")).is_file())
