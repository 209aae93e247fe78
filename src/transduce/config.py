"""A run is a constructor call written down: nested TOML tables, checked against the constructors themselves.

A table's keys are the keyword arguments of a constructor; where the constructor's parameter is annotated with a
protocol of ``names.NAMES``, ``type = "name"`` chooses the class, and a bare ``"name"`` is short for a table of just
that. A parameter annotated ``Factory[T]`` receives a partial call instead of an instance. What only the data knows
is filled in by parameter name from ``facts``. There is no other schema.
"""

from __future__ import annotations

import dataclasses
import datetime
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from transduce.spec import UNKNOWN, ConfigError, Table, as_toml, construct, join, kind, shown, specify

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")

__all__ = [
    "ConfigError",
    "Table",
    "assign",
    "build",
    "change",
    "check",
    "merge",
    "override",
    "parse",
    "read",
    "resolve",
    "write",
]


# ------------------------------------------------------------------ tables


def read(path: str | Path) -> Table:
    """The tables of a TOML file; ConfigError names the file, line and column of what is not TOML."""
    return parse(Path(path).read_bytes(), str(path))


def parse(toml: bytes, where: str) -> Table:
    """The tables of TOML bytes; ``where`` names them in errors."""
    try:
        return tomllib.loads(toml.decode("utf-8-sig"))  # editors on Windows begin a file with a byte order mark
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(where, f"not UTF-8 at line {line}; save the file as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(where, f"not TOML: {error}") from error


def write(table: Table) -> str:
    """The table as TOML, the inverse of ``read``."""
    return tomli_w.dumps(table)


def merge(base: Table, over: Table) -> Table:
    """``base`` with the keys of ``over``, table by table.

    A table whose ``type`` changes is replaced whole: its other keys were another constructor's arguments.
    """
    if "type" in over and over["type"] != base.get("type", over["type"]):
        return dict(over)
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def flatten(table: Table, path: str = "") -> dict[str, Any]:
    """Its values by dotted key, however deep they lie."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= flatten(value, f"{path}{key}.") if isinstance(value, dict) else {path + key: value}
    return flat


def override(table: Table, setting: str) -> Table:
    """The table with one key set, as ``--set model.encoder.layers=2`` says it; missing tables are made.

    The right side is a TOML value; what TOML does not know is taken as a string, so quotes are seldom needed.
    Setting another ``type`` empties the table first (as in ``merge``): set that before its other keys.
    """
    return _assign(table, *_parsed(setting), "")


def assign(table: Table, key: str, value: Any) -> Table:
    """``override`` from Python: ``assign(table, "model.encoder.layers", 2)``."""
    return _assign(table, *_given(key, value), "")


def change(table: Table, settings: Mapping[str, Any] | Sequence[str]) -> Table:
    """The table with several keys set, in order: ``{"model.encoder.layers": 2}`` or ``["model.encoder.layers=2"]``.

    Of a key that is set again the last counts. ConfigError where a later setting empties the table that an earlier one
    has set a key of, as another ``type`` does: what was asked would be gone without a word.
    """
    if isinstance(settings, Mapping):
        given = (_given(key, value) for key, value in settings.items())
    else:
        given = (_parsed(setting) for setting in ([settings] if isinstance(settings, str) else settings))
    setters: dict[tuple[str, ...], list[str]] = {}  # of each key that was set
    lost: dict[tuple[str, ...], tuple[list[str], Any]] = {}  # and what has emptied its table since
    for keys, value in given:
        table = _assign(table, keys, value, "")
        setters = {leaf: setter for leaf, setter in setters.items() if setter != keys}
        setters |= dict.fromkeys(_leaves((*keys,), value), keys)
        lost = {leaf: lost.get(leaf, (keys, value)) for leaf in setters if not _holds(table, leaf)}
    for leaf, (keys, value) in lost.items():
        raise ConfigError(".".join(leaf), f"set, and lost again with {'.'.join(keys)}: {_advice(leaf, keys, value)}")
    return table


def _advice(leaf: tuple[str, ...], keys: list[str], value: Any) -> str:
    """How to keep a key that was lost with a later one."""
    if keys[-1] == "type":
        return "set the type first"
    if not isinstance(value, str):
        return "set that first"
    return f"set all of it in one, {'.'.join(keys)}={{type = {shown(value)}, {'.'.join(leaf[len(keys) :])} = ...}}"


def _leaves(keys: tuple[str, ...], value: Any) -> Iterator[tuple[str, ...]]:
    """What is set with a value: each key of a table, all the way down."""
    if not isinstance(value, dict):
        yield keys
        return
    for key, inner in value.items():
        yield from _leaves((*keys, key), inner)


def _holds(table: Table, keys: tuple[str, ...]) -> bool:
    """Whether the table has the key; a bare name is a table's ``type``."""
    inner: Any = table
    for number, key in enumerate(keys):
        if not isinstance(inner, dict):
            return isinstance(inner, str) and keys[number:] == ("type",)
        if key not in inner:
            return False
        inner = inner[key]
    return True


def _parsed(setting: str) -> tuple[list[str], Any]:
    """The key, in its parts, and the value of ``a.key=value``."""
    key, equals, text = setting.partition("=")
    keys = [part.strip() for part in key.split(".")]
    if not equals or not all(keys):
        raise ConfigError("", f"cannot set {setting!r}: expected a.key=value, such as model.encoder.layers=2")
    return keys, _value(text.strip(), setting)


def _given(key: str, value: Any) -> tuple[list[str], Any]:
    """The same, of a dotted key and a value from Python."""
    keys = key.split(".")
    if not all(keys):
        raise ConfigError("", f"cannot set {key!r}: expected a dotted key, such as model.encoder.layers")
    return keys, list(value) if isinstance(value, tuple) else value


def _assign(table: Table, keys: list[str], value: Any, path: str) -> Table:
    key, *deeper = keys
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


def _value(text: str, setting: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError as error:
        if text[:1] in ("[", "{", '"', "'"):
            raise ConfigError("", f"cannot set {setting!r}: the value is not TOML: {error}") from error
        return text
    if set(parsed) != {"value"} or isinstance(parsed["value"], (datetime.date, datetime.time)):
        return text  # no parameter takes a date; several lines are no value
    return parsed["value"]


# -------------------------------------------------------------------- calls


def check(table: Table | str, expected: Any, facts: Collection[str] = (), path: str = "") -> None:
    """Raise ConfigError unless the table is a call that makes what is ``expected``, all the way down.

    Nothing is constructed. ``facts`` are the names of what the data will tell; ``path`` is where the table stands in
    its file, for the errors.
    """
    specify(table, expected, path, dict.fromkeys(facts, UNKNOWN))


def build(table: Table | str, expected: Callable[..., T], facts: object | None = None, path: str = "") -> T:
    """Check the table and make the call it stands for.

    ``expected`` is a class, a protocol or a ``Factory[T]`` (a Callable to type checkers, as ``type[T]`` would refuse
    protocols); ``facts`` is a dataclass of what only the data knows.
    """
    built: T = construct(specify(table, expected, path, _known(facts)))
    return built


def resolve(table: Table | str, expected: Any, facts: object | None = None, path: str = "") -> Table:
    """The table with every default and fact written in, so that it means the same on any other day.

    Left out are None, which TOML cannot write, and defaults that are neither values nor dataclasses.
    """
    resolved: Table = as_toml(specify(table, expected, path, _known(facts)))
    return resolved


def _known(facts: object | None) -> Table:
    if facts is None:
        return {}
    return {field.name: getattr(facts, field.name) for field in dataclasses.fields(facts)}  # type: ignore[arg-type]
