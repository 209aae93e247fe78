"""Errors in a configuration, and the words for places, values and kinds in their messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from transduce.core.errors import UserError

Table = dict[str, Any]
TableView = Mapping[str, Any]  # a table that is only read
LONGEST: Final = 200  # characters of a text in a message
BITS: Final = 256  # of an integer in a message

_KINDS: Final[dict[type, str]] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "a table",
}


class ConfigError(UserError):
    """An error in a configuration, at the dotted key ``path`` ("" for none)."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path


class KindError(ConfigError):
    """A configuration has a value of the wrong kind: a string for a number, an array for a table."""


def join(path: str, key: str) -> str:
    """The dotted path of ``key`` in the table at ``path`` ("" for the outermost table)."""
    return f"{path}.{key}" if path else key


def shown(value: object) -> str:
    """The value as TOML writes it. It is for messages: None and objects are shown by ``str``, long texts are cut, and a
    huge integer is shown by its size.
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {shown(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(shown(one) for one in value) + "]"
    if isinstance(value, str) and len(value) > LONGEST:
        value = f"{value[:LONGEST]}…"
    if isinstance(value, int) and value.bit_length() > BITS:  # Python refuses to write thousands of digits
        return f"an integer of {value.bit_length():,} bits"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (str, bool)) else str(value)


def kind(value: object) -> str:
    """The kind of a TOML value with its article: "a string", "a table", "a number". For other values the class: "a
    NoneType".
    """
    return _KINDS.get(type(value), f"a {type(value).__name__}")
