"""Checks a table against the constructor that it calls: unknown keys, missing keys, and values of another kind."""

from __future__ import annotations

import collections.abc
import types
import typing
from pathlib import Path
from typing import Any, Final, Literal, Union

from transduce.core import registry
from transduce.core.config.annotations import (
    chosen_by_type,
    described,
    is_constructor,
    is_factory,
    mismatch,
    protocol_of,
)
from transduce.core.config.errors import ConfigError, KindError, Table, join, shown
from transduce.core.config.limits import check_integer, check_number
from transduce.core.config.spec import REQUIRED, Spec, parameters_of, require_all

UNKNOWN: Final = object()  # the value of a fact while only its name is known
_SCALARS: Final[dict[object, tuple[type, ...]]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (float, int),
    Path: (str,),
    type(None): (type(None),),
}


def check_value(value: object, annotation: object, path: str, facts: Table) -> Any:
    """Returns a configuration's value in the form that the annotation expects. A table that describes an object becomes
    a Spec.

    ``facts`` fill missing required parameters of the same name; a given value must equal the fact. A fact may be
    ``UNKNOWN``: then a given value is not compared. Raises ConfigError, which names the ``path``, the value and what
    the annotation accepts.
    """
    origin: Any = typing.get_origin(annotation) or annotation
    if origin in (Any, object):
        return value
    if origin in (Union, types.UnionType):
        return _check_union(value, annotation, path, facts)
    if origin in _SCALARS and type(value) in _SCALARS[origin]:  # by type(): True is no integer
        if origin is Path:
            return Path(str(value)).expanduser()
        if type(value) is int:
            check_integer(value, path)
        if type(value) is float:
            check_number(value, path)
        return value if value is None else origin(value)
    if origin is Literal and any(value == one and type(value) is type(one) for one in typing.get_args(annotation)):
        return value
    if origin in (tuple, list, collections.abc.Sequence) and isinstance(value, (list, tuple)):
        return _check_array(list(value), annotation, path, facts)
    if origin in (dict, collections.abc.Mapping) and isinstance(value, dict):
        item = (typing.get_args(annotation) or (str, Any))[1]
        return {key: check_value(one, item, join(path, key), facts) for key, one in value.items()}
    if is_factory(origin):
        return _check_keys_and_values(value, typing.get_args(annotation)[0], path, facts, deferred=True)
    if is_constructor(origin):
        return _check_keys_and_values(value, annotation, path, facts, deferred=False)
    raise mismatch(value, annotation, path)


def _check_union(value: object, annotation: object, path: str, facts: Table) -> object:
    members = sorted(typing.get_args(annotation), key=lambda member: member is not type(value))  # 3 is int, not float
    errors = []
    for member in members:
        try:
            return check_value(value, member, path, facts)
        except ConfigError as error:
            errors.append(error)
    # If the value has the right kind for one member, report the error inside it.
    inside = [error for error in errors if error.path != path or not isinstance(error, KindError)]
    raise max(inside, key=lambda error: len(error.path)) if inside else mismatch(value, annotation, path)


def _check_array(values: list[object], annotation: object, path: str, facts: Table) -> object:
    origin, items = typing.get_origin(annotation) or annotation, typing.get_args(annotation) or (Any,)
    if origin is tuple and len(items) > 1 and items[1] is not Ellipsis:
        if len(values) != len(items):
            raise mismatch(values, annotation, path)
    else:
        items = (items[0],) * len(values)
    read = [
        check_value(one, item, f"{path}[{i}]", facts) for i, (one, item) in enumerate(zip(values, items, strict=True))
    ]
    return read if origin is list else tuple(read)


def _check_keys_and_values(value: object, annotation: object, path: str, facts: Table, deferred: bool) -> Spec[object]:
    constructor, name, given = _choose(value, annotation, path)
    parameters = parameters_of(constructor)
    for key in given:
        if key not in parameters:
            what = f"{constructor.__name__} takes no such key"
            known = [*parameters] if name is None else [*parameters, "type"]
            raise ConfigError(join(path, key), what + registry.alternatives(key, known))
    arguments = {}
    for key, parameter in parameters.items():
        fact = facts.get(key, UNKNOWN)
        if key in given:
            argument = check_value(given[key], parameter.annotation, join(path, key), facts)
            if fact is not UNKNOWN and argument != fact:
                raise ConfigError(join(path, key), f"{shown(given[key])}, but the data has {fact}; leave the key out")
        elif key in facts and parameter.default is REQUIRED:
            argument = fact
        else:
            continue
        if argument != parameter.default:
            arguments[key] = argument
    # The caller of a deferred call adds values (widths, parameters), but no parts that a table chooses by name.
    handed = {key for key, parameter in parameters.items() if deferred and not chosen_by_type(parameter.annotation)}
    require_all(constructor, {*arguments, *given, *handed}, path)
    return Spec(constructor, arguments, name, deferred, path)


def _choose(value: object, annotation: Any, path: str) -> tuple[type, str | None, Table]:
    """Decides which constructor a table calls. Returns the constructor, the ``type`` that the table names (None if it
    names none), and the table's other keys. For a protocol, a string in the place of a table is its type. Raises
    ConfigError for a value that is no table, and for a missing or unknown type.
    """
    protocol = protocol_of(annotation)
    given = {"type": value} if protocol and isinstance(value, str) else value
    if not isinstance(given, dict):
        raise mismatch(value, annotation, path)
    if protocol is None:
        return typing.get_origin(annotation) or annotation, None, given
    if "type" not in given:
        raise ConfigError(join(path, "type"), f"missing; expected {described(annotation)}")
    name = given["type"]
    if not isinstance(name, str) or name not in registry.NAMES[protocol]:
        raise ConfigError(
            path if isinstance(value, str) else join(path, "type"),
            f"{shown(name)} is no {protocol}{registry.alternatives(str(name), registry.NAMES[protocol])}",
        )
    return registry.find(protocol, name), name, {key: one for key, one in given.items() if key != "type"}
