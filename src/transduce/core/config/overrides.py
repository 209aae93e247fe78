"""Keys that are set one by one: ``--set model.encoder.layers=2`` on the command line, or from Python."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator, Mapping, Sequence

from transduce.core.config.errors import ConfigError, Table, join, kind, shown
from transduce.core.config.limits import check_depth, check_parts, too_deep
from transduce.core.config.tables import merge

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def override(table: Table, setting: str) -> Table:
    """A new table with one key set by ``setting``, such as ``model.encoder.layers=2``; creates missing tables.

    The right side is a TOML value. If it is not TOML, it is a string, so quotes are seldom needed. Without a right side
    the key is taken back: its default holds again. Setting another ``type`` empties its table first (as in ``merge``),
    so set the type before the other keys. Raises ConfigError for a malformed setting, or if a part of the key holds a
    value that is no table.
    """
    return _assign(table, *_parse_setting(setting), "")


def assign(table: Table, key: str, value: object) -> Table:
    """A new table with one key set, as by ``override``, to a Python value: ``assign(table, "model.encoder.layers",
    2)``. None takes the key back.
    """
    return _assign(table, *_split_key(key, value), "")


def change(table: Table, settings: Mapping[str, object] | Sequence[str]) -> Table:
    """A new table with several keys set, in order: ``{"model.encoder.layers": 2}`` or ``["model.encoder.layers=2"]``.

    If a key is set twice, the last value wins. Raises ConfigError as ``override`` does, if a key is taken back that a
    table with settings does not have, and if a later setting empties a table in which an earlier one has set a key, for
    example by another ``type``: the earlier setting would be lost silently.
    """
    full = bool(table)
    if isinstance(settings, Mapping):
        given = (_split_key(key, value) for key, value in settings.items())
    else:
        given = (_parse_setting(setting) for setting in ([settings] if isinstance(settings, str) else settings))
    setters: dict[tuple[str, ...], list[str]] = {}  # for each key: the setting that set it
    lost: dict[tuple[str, ...], tuple[list[str], object]] = {}  # for each lost key: the setting that emptied its table
    for keys, value in given:
        if full and value is None and not _holds(table, (*keys,)):
            raise ConfigError(".".join(keys), "it is not set, so there is nothing to take back")
        table = _assign(table, keys, value, "")
        setters = {leaf: setter for leaf, setter in setters.items() if setter != keys}
        setters |= dict.fromkeys(() if value is None else _leaves((*keys,), value), keys)
        lost = {leaf: lost.get(leaf, (keys, value)) for leaf in setters if not _holds(table, leaf)}
    for leaf, (keys, value) in lost.items():
        raise ConfigError(
            ".".join(leaf), f"set, and lost again with {'.'.join(keys)}: {_how_to_keep(leaf, keys, value)}"
        )
    return table


def _how_to_keep(leaf: tuple[str, ...], keys: list[str], value: object) -> str:
    """Advice to a user whose setting was lost: ``leaf`` is its key, ``keys`` and ``value`` the later setting."""
    if keys[-1] == "type":
        return "set the type first"
    if not isinstance(value, str):
        return "set that first"
    return f"set all of it in one, {'.'.join(keys)}={{type = {shown(value)}, {'.'.join(leaf[len(keys) :])} = ...}}"


def _leaves(keys: tuple[str, ...], value: object) -> Iterator[tuple[str, ...]]:
    """The full keys that a setting sets: ``keys``, or for a table the keys of all values inside it."""
    if not isinstance(value, dict):
        yield keys
        return
    for key, inner in value.items():
        yield from _leaves((*keys, key), inner)


def _holds(table: Table, keys: tuple[str, ...]) -> bool:
    """True if the table has the key. A string in place of a table counts as its ``type``."""
    inner: object = table
    for number, key in enumerate(keys):
        if not isinstance(inner, dict):
            return isinstance(inner, str) and keys[number:] == ("type",)
        if key not in inner:
            return False
        inner = inner[key]
    return True


def _parse_setting(setting: str) -> tuple[list[str], object]:
    """The parts of the key, and the parsed value, of ``a.key=value``. Raises ConfigError if it has another form, or if
    the value begins like TOML and is none.
    """
    key, equals, text = setting.partition("=")
    keys = [part.strip() for part in key.split(".")]
    if not equals or not all(keys):
        raise ConfigError("", f"cannot set {setting[:60]!r}: expected a.key=value, such as model.encoder.layers=2")
    check_parts(keys, setting)
    return keys, _parse_value(text.strip(), setting)


def _split_key(key: str, value: object) -> tuple[list[str], object]:
    """The parts of a dotted key from Python, and its value. A tuple becomes a list, as TOML reads arrays. Raises
    ConfigError if a part of the key is empty, or if there are too many parts.
    """
    keys = key.split(".")
    if not all(keys):
        raise ConfigError("", f"cannot set {key!r}: expected a dotted key, such as model.encoder.layers")
    check_parts(keys, key)
    return keys, list(value) if isinstance(value, tuple) else value


def _assign(table: Table, keys: list[str], value: object, path: str) -> Table:
    key, *deeper = keys
    if not deeper and value is None:
        return {other: kept for other, kept in table.items() if other != key}
    if not deeper:
        return merge(table, {"type": value}) if key == "type" else {**table, key: value}
    inner, path = table.get(key, {}), join(path, key)
    if not isinstance(inner, dict):
        fix = f'; to give it options, set all of it: {path}={{type = "{inner}", {deeper[0]} = ...}}'
        raise ConfigError(
            path,
            f"{shown(inner)} is {kind(inner)}, not a table to set {'.'.join(deeper)!r} in"
            + (fix if isinstance(inner, str) else ""),
        )
    return {**table, key: _assign(inner, deeper, value, path)}


def _parse_value(text: str, setting: str) -> object:
    if not text:
        return None
    try:
        parsed = tomllib.loads(f"value = {text}")
    except RecursionError:
        raise too_deep(setting[:60]) from None
    except ValueError as error:  # not TOML, or a number of too many digits
        if text[:1] in ("[", "{", '"', "'"):
            raise ConfigError("", f"cannot set {setting[:60]!r}: the value is not TOML: {error}") from error
        return text
    if set(parsed) != {"value"} or isinstance(parsed["value"], (datetime.date, datetime.time)):
        return text  # no parameter takes a date, and a value has one line
    check_depth(parsed["value"], setting[:60])
    return parsed["value"]
