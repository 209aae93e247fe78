"""The annotations of constructors: which classes and kinds of values they accept, and the words for them."""

from __future__ import annotations

import collections.abc
import types
import typing
from pathlib import Path
from typing import Any, Final, Literal, Union

from transduce.core import registry
from transduce.core.config.errors import KindError, kind, shown

_WORDS: Final[dict[object, str]] = {
    str: "a string",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    Path: "a path (a string)",
    tuple: "an array",
    list: "an array",
    dict: "a table",
}

UNWRITTEN: Final = "which no file can write"


def members(annotation: object) -> list[Any]:
    """The classes or types that an annotation accepts, as a list: ``Factory[A] | B`` gives [A, B]. Unions and Factories
    are unwrapped.
    """
    origin = typing.get_origin(annotation)
    if origin in (Union, types.UnionType) or is_factory(origin):
        return [member for inner in typing.get_args(annotation) for member in members(inner)]
    return [annotation]


def chosen_by_type(annotation: object) -> bool:
    """True if one of the annotation's alternatives is a protocol, so that a table chooses the class by ``type``."""
    return any(protocol_of(member) for member in members(annotation))


def protocol_of(annotation: object) -> str | None:
    name = getattr(typing.get_origin(annotation) or annotation, "__name__", None)
    return name if name in registry.NAMES else None


def is_factory(origin: object) -> bool:  # by name: types.py would import torch
    return getattr(origin, "__name__", "") == "Factory" and origin.__module__ == "transduce.core.types"


def is_constructor(origin: object) -> bool:
    if not isinstance(origin, type) or origin.__module__ in ("builtins", "collections.abc", "pathlib"):
        return False
    # other protocols have no class
    return origin.__name__ in registry.NAMES or not getattr(origin, "_is_protocol", False)


def mismatch(value: object, annotation: object, path: str) -> KindError:
    fix = f'; write "{value}" in quotes' if annotation is str and type(value) in (int, float) else ""
    return KindError(path, f"{shown(value)} is {kind(value)}, expected {described(annotation)}{fix}")


def described(annotation: Any) -> str:
    """Names the values that a configuration may write for an annotation, in words for messages. A union's alternatives
    that no file can write are left out if there are others.
    """
    origin, inner = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if annotation in _WORDS:
        return _WORDS[annotation]
    if origin in (Union, types.UnionType):
        words = [described(member) for member in inner if member is not type(None)]
        return " or ".join([each for each in words if not each.endswith(UNWRITTEN)] or words)
    if origin is Literal:
        return " or ".join(shown(value) for value in inner)
    if origin in (tuple, list, collections.abc.Sequence):
        items = [described(item) for item in inner if item is not Ellipsis]
        return f"an array of {len(items)} ({', '.join(items)})" if len(items) > 1 else f"an array (of {items[0]})"
    if origin in (dict, collections.abc.Mapping):
        return f"a table (each key {described(inner[1])})"
    if is_factory(origin):
        return described(inner[0])
    if (protocol := protocol_of(annotation)) is not None:
        return "a table with type = " + " or ".join(f'"{name}"' for name in registry.NAMES[protocol])
    return f"a table ({origin.__name__})" if is_constructor(origin) else f"{annotation}, {UNWRITTEN}"
