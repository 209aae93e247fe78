"""The rule for a user's own data: which settings of a recipe end where the user brings data.

The user brings data if their own settings name a training set or another type of origin, or if pairs are given from
Python. The user's own settings are their .toml files, ``--set`` and the argument ``settings``.

A recipe speaks of its own data in ``OF_THE_DATA``, and in the keys of its list ``about_data``. If the user brings data,
these settings are left out if they are in the table ``data``. Others, such as a metric's season, stay, because most
have no sensible default; a line names them. A setting that the user sets too always stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transduce.core.config.errors import Table, shown

ABOUT_DATA = "about_data"
SPLITS = ("train", "valid", "test")
ORIGIN = "data.origin"
OF_THE_DATA = (ORIGIN, *(f"data.{split}" for split in SPLITS))


@dataclass(frozen=True)
class Merged:
    """The settings of a recipe with a user's changes. ``notes`` are lines for people about settings that speak of the
    recipe's own data. ``fixed`` are the keys that the user has set.
    """

    table: Table
    notes: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()


def without_own_data(recipe: Table, own: Table, about: Iterable[str] = ()) -> tuple[Table, tuple[str, ...]]:
    """The tables of a recipe without the settings of its own data, if ``own``, the user's settings, bring other data.
    Returns them with lines for people; the tables unchanged and no line if the user brings none.

    ``about`` are the keys of the recipe's ``about_data``.
    """
    if not _brings(own, recipe):
        return recipe, ()
    found = {key: _at(recipe, key) for key in (*OF_THE_DATA, *about) if _at(own, key) is None}
    found = {key: value for key, value in found.items() if value is not None}
    left_out = {key: value for key, value in found.items() if key.startswith("data.")}
    for key in left_out:
        recipe = _without(recipe, key.split("."))
    return recipe, (*_left_out(left_out, own), *_kept({key: found[key] for key in found.keys() - left_out.keys()}))


def borrowed(data: object, splits: Sequence[str] = ("valid", "test")) -> list[str]:
    """A list with one line for people if the settings ``data`` of a run name its training set and another of the
    ``splits`` comes from an origin, which has other data; otherwise an empty list. Does not check that the origin has
    that split.
    """
    if not isinstance(data, dict) or data.get("train") is None or data.get("origin") is None:
        return []
    theirs = [split for split in splits if data.get(split) is None]
    wanted = " and ".join(f"data.{split}" for split in theirs)
    return (
        [f"{' and '.join(theirs)}: of the origin {_kind(data['origin'])}, not of your training data; set {wanted}"]
        if theirs
        else []
    )


def _brings(own: Table, recipe: Table) -> bool:
    kind = _kind(_at(own, ORIGIN))
    return _at(own, "data.train") is not None or kind not in (None, _kind(_at(recipe, ORIGIN)))


def _left_out(found: Table, own: Table) -> Iterable[str]:
    missing = [split for split in SPLITS[1:] if _at(own, f"data.{split}") is None]
    others = {key: value for key, value in found.items() if key not in OF_THE_DATA}
    if not others and not (missing and found):
        return  # all splits are given, so an origin had no effect
    named = [f"{key} ({_kind(value) or shown(value)})" for key, value in found.items()]
    line = f"your data replace the recipe's, so its {' and '.join(named)} {'is' if len(named) == 1 else 'are'} left out"
    if _at(own, ORIGIN) is None and missing:
        keys = " and ".join(f"data.{split}" for split in missing)
        line += f": there is no {' and no '.join(missing)} split; set {keys}"
        if kind := _kind(found.get(ORIGIN)):
            line += f", or {ORIGIN}.type={kind} if the recipe's fit your data"
    yield line


def _kept(found: Table) -> Iterable[str]:
    if found:
        named = ", ".join(f"{key} = {shown(value)}" for key, value in sorted(found.items()))
        yield f"chosen for the recipe's data, so set them if yours differ: {named}"


def _kind(value: object) -> str | None:
    """The type of a table, or of the string that stands for it; None for anything else."""
    kind = value.get("type") if isinstance(value, dict) else value
    return kind if isinstance(kind, str) else None


def _at(table: object, key: str) -> object:
    """The value of a dotted key; None if the table does not have it."""
    for part in key.split("."):
        table = table.get(part) if isinstance(table, dict) else None
    return table


def _without(table: Table, keys: Sequence[str]) -> Table:
    """A copy of the table without a key that it has."""
    key, *deeper = keys
    if deeper:
        return {**table, key: _without(table[key], deeper)}
    return {name: value for name, value in table.items() if name != key}
