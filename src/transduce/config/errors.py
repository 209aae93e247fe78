"""Errors in a configuration, and the words for places, values and kinds in their messages."""

from __future__ import annotations

import json
from typing import Any, Final

from transduce.errors import UserError

Table = dict[str, Any]

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


def shown(value: Any) -> str:
    """The value as TOML writes it. It is for messages: None and objects are shown by ``str``."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {shown(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(shown(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (str, bool)) else str(value)


def kind(value: Any) -> str:
    """The kind of a TOML value with its article: "a string", "a table", "a number". For other values the class: "a
    NoneType".
    """
    return _KINDS.get(type(value), f"a {type(value).__name__}")
