"""TOML files as tables: read, write and merge."""

from __future__ import annotations

import sys
from pathlib import Path

import tomli_w

from transduce.core.config.errors import ConfigError, Table
from transduce.core.config.limits import FILE_BYTES, LONG_KEY, check_depth, too_deep

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read(path: str | Path) -> Table:
    """The table in a TOML file.

    Raises FileNotFoundError or another OSError if it cannot be read. Raises ConfigError for a device or a pipe, for
    more than ``limits.FILE_BYTES`` bytes, and as ``parse`` does.
    """
    path = Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ConfigError(str(path), "is a device or a pipe; a configuration is a regular file")
    with path.open("rb") as file:
        toml = file.read(FILE_BYTES + 1)
    return parse(toml, str(path))


def parse(toml: bytes, where: str) -> Table:
    """The table that the TOML bytes describe; ``where`` names them in errors.

    Raises ConfigError if the bytes are not UTF-8 or not TOML, with the line, or if they are too many or nested too
    deep.
    """
    if len(toml) > FILE_BYTES:
        raise ConfigError(where, f"has more than {FILE_BYTES:,} bytes, which no configuration needs")
    if LONG_KEY.search(toml):  # before parsing, which takes the square of the number of parts
        raise too_deep(where)
    try:
        table = tomllib.loads(toml.decode("utf-8-sig"))  # editors on Windows begin a file with a byte order mark
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(where, f"not UTF-8 at line {line}; save the file as UTF-8") from error
    except ValueError as error:  # not TOML, or a number of too many digits
        raise ConfigError(where, f"not TOML: {error}") from error
    except RecursionError:
        raise too_deep(where) from None
    check_depth(table, where)
    return table


def write(table: Table) -> str:
    """The table as TOML text, the inverse of ``parse``."""
    return tomli_w.dumps(table)


def merge(base: Table, over: Table) -> Table:
    """A new table: ``base`` with the keys of ``over``. Tables that both have are merged in the same way.

    For any other key the value of ``over`` wins. A table whose ``type`` changes is replaced as a whole, because its
    other keys are arguments of another constructor.
    """
    if "type" in over and over["type"] != base.get("type", over["type"]):
        return dict(over)
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def flatten(table: Table, path: str = "") -> Table:
    """The values of all nested tables in one dict, by dotted key: ``{"a": {"b": 1}}`` gives ``{"a.b": 1}``.

    Arrays count as values; empty tables give nothing. ``path`` is put before each key unchanged, so it should be empty
    or end with a dot.
    """
    flat: Table = {}
    for key, value in table.items():
        flat |= flatten(value, f"{path}{key}.") if isinstance(value, dict) else {path + key: value}
    return flat
