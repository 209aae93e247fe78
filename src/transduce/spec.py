"""Constructor calls written down as tables, checked against the constructors' signatures and annotations."""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import json
import types
import typing
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, Union

from transduce import names
from transduce.errors import UserError

T = TypeVar("T")
Table = dict[str, Any]


class ConfigError(UserError):
    """Something wrong in a configuration, at the dotted ``path``."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path


class KindError(ConfigError):
    """A value of another kind than was expected: a string for a number, an array for a table."""


@dataclass(frozen=True)
class Spec(Generic[T]):
    """A checked constructor call; one that is ``deferred`` is what a parameter annotated ``Factory[T]`` receives.

    ``arguments`` are those that differ from the constructor's defaults: values, and Specs for inner calls.
    """

    constructor: type[T]
    arguments: Table
    name: str | None = None  # what the table's ``type`` says, where it chooses among classes
    deferred: bool = False
    path: str = dataclasses.field(default="", compare=False)

    def __call__(self, *args: Any, **kwargs: Any) -> T:
        """Construct, anew each time, with further arguments of the holder's.

        What the holder knows (a width, parameters) the table may leave out, and may not contradict.
        """
        handed = self._bind(args, kwargs)
        for name in handed.keys() & self.arguments.keys():
            if self.arguments[name] != handed[name]:
                raise ConfigError(
                    join(self.path, name),
                    f"{shown(as_toml(self.arguments[name]))} contradicts {shown(handed[name])}, which is set where "
                    f"this {self.constructor.__name__} is used; leave the key out",
                )
        arguments = {name: construct(argument) for name, argument in self.arguments.items()} | handed
        _require(self.constructor, arguments, self.path)
        try:
            return self.constructor(**arguments)
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(self.path, str(error)) from error

    def _bind(self, args: tuple[Any, ...], kwargs: Table) -> Table:
        try:
            return inspect.signature(self.constructor).bind_partial(*args, **kwargs).arguments
        except TypeError as error:
            raise ConfigError(
                self.path, f"{self.constructor.__name__} does not take what is set where it is used: {error}"
            ) from error

    def table(self) -> Table:
        """The call as a table, defaults included."""
        written: Table = {} if self.name is None else {"type": self.name}
        for name, parameter in _parameters(self.constructor).items():
            value = as_toml(self.arguments.get(name, parameter.default))
            if value is not None:
                written[name] = value
            elif name in self.arguments:
                raise ConfigError(join(self.path, name), "TOML cannot write None, and it is not the default here")
        return written


def construct(value: Any) -> Any:
    """What a value of ``specify`` stands for: its calls made, except the deferred ones."""
    if isinstance(value, Spec):
        return value if value.deferred else value()
    return _map(construct, value)


def as_toml(value: Any) -> Any:
    """A value of ``specify`` written down again; None where TOML cannot write it."""
    if isinstance(value, Spec):
        return value.table()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [as_toml(item) for item in value]  # as reading gives an array
    return _map(as_toml, value) if isinstance(value, (str, bool, int, float, list, dict)) else None


def _map(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, dict):
        return {key: function(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(function(item) for item in value)
    return value


# ------------------------------------------------------ values by annotation

_REQUIRED: Final = object()  # the default of a parameter without one
UNKNOWN: Final = object()  # the value of a fact while only its name is known
_SCALARS: Final[dict[Any, tuple[type, ...]]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (float, int),
    Path: (str,),
    type(None): (type(None),),
}


def specify(value: Any, annotation: Any, path: str, facts: Table) -> Any:
    """The value as the annotation wants it, with Specs for the calls it stands for.

    ``facts`` fill required parameters of their names; a fact may be ``UNKNOWN``. Raises ConfigError, naming the
    place by ``path``, the value and what the annotation takes.
    """
    origin = typing.get_origin(annotation) or annotation
    if origin in (Any, object):
        return value
    if origin in (Union, types.UnionType):
        return _specify_union(value, annotation, path, facts)
    if origin in _SCALARS and type(value) in _SCALARS[origin]:  # by type(): True is no integer
        if origin is Path:
            return Path(value).expanduser()
        return value if value is None else origin(value)
    if origin is Literal and any(value == one and type(value) is type(one) for one in typing.get_args(annotation)):
        return value
    if origin in (tuple, list, collections.abc.Sequence) and isinstance(value, (list, tuple)):
        return _specify_array(list(value), annotation, path, facts)
    if origin in (dict, collections.abc.Mapping) and isinstance(value, dict):
        item = (typing.get_args(annotation) or (str, Any))[1]
        return {key: specify(one, item, join(path, key), facts) for key, one in value.items()}
    if _is_factory(origin):
        return _specify_call(value, typing.get_args(annotation)[0], path, facts, deferred=True)
    if _is_constructor(origin):
        return _specify_call(value, annotation, path, facts, deferred=False)
    raise _mismatch(value, annotation, path)


def _specify_union(value: Any, annotation: Any, path: str, facts: Table) -> Any:
    members = sorted(typing.get_args(annotation), key=lambda member: member is not type(value))  # 3 is int, not float
    errors = []
    for member in members:
        try:
            return specify(value, member, path, facts)
        except ConfigError as error:
            errors.append(error)
    # Of the right kind for one of them, and wrong inside: that is what to tell, not the list of kinds.
    inside = [error for error in errors if error.path != path or not isinstance(error, KindError)]
    raise max(inside, key=lambda error: len(error.path)) if inside else _mismatch(value, annotation, path)


def _specify_array(values: list[Any], annotation: Any, path: str, facts: Table) -> Any:
    origin, items = typing.get_origin(annotation) or annotation, typing.get_args(annotation) or (Any,)
    if origin is tuple and len(items) > 1 and items[1] is not Ellipsis:
        if len(values) != len(items):
            raise _mismatch(values, annotation, path)
    else:
        items = (items[0],) * len(values)
    read = [specify(one, item, f"{path}[{i}]", facts) for i, (one, item) in enumerate(zip(values, items, strict=True))]
    return read if origin is list else tuple(read)


def _specify_call(value: Any, annotation: Any, path: str, facts: Table, deferred: bool) -> Spec[Any]:
    constructor, name, given = _choose(value, annotation, path)
    parameters = _parameters(constructor)
    for key in given:
        if key not in parameters:
            what = f"{constructor.__name__} takes no such key"
            raise ConfigError(join(path, key), what + names.alternatives(key, parameters))
    arguments = {}
    for key, parameter in parameters.items():
        fact = facts.get(key, UNKNOWN)
        if key in given:
            argument = specify(given[key], parameter.annotation, join(path, key), facts)
            if fact is not UNKNOWN and argument != fact:
                raise ConfigError(join(path, key), f"{shown(given[key])}, but the data has {fact}; leave the key out")
        elif key in facts and parameter.default is _REQUIRED:
            argument = fact
        else:
            continue
        if argument != parameter.default:
            arguments[key] = argument
    # who makes a deferred call adds values of its own (widths, parameters), and no parts that have names in tables
    handed = {key for key, parameter in parameters.items() if deferred and not _named(parameter.annotation)}
    _require(constructor, {*arguments, *given, *handed}, path)
    return Spec(constructor, arguments, name, deferred, path)


def _choose(value: Any, annotation: Any, path: str) -> tuple[type, str | None, Table]:
    """The constructor a table calls, the name it has in the table, and the arguments."""
    protocol = _protocol(annotation)
    given = {"type": value} if protocol and isinstance(value, str) else value
    if not isinstance(given, dict):
        raise _mismatch(value, annotation, path)
    if protocol is None:
        return typing.get_origin(annotation) or annotation, None, given
    if "type" not in given:
        raise ConfigError(join(path, "type"), f"missing; expected {_described(annotation)}")
    name = given["type"]
    if not isinstance(name, str) or name not in names.NAMES[protocol]:
        raise ConfigError(
            path if isinstance(value, str) else join(path, "type"),
            f"{shown(name)} is no {protocol}{names.alternatives(str(name), names.NAMES[protocol])}",
        )
    return names.find(protocol, name), name, {key: one for key, one in given.items() if key != "type"}


def _require(constructor: type, arguments: Collection[str], path: str) -> None:
    parameters = _parameters(constructor)
    missing = [name for name, p in parameters.items() if p.default is _REQUIRED and name not in arguments]
    if missing:
        needs = " and ".join(f"{name}, {_described(parameters[name].annotation)}" for name in missing)
        raise ConfigError(join(path, missing[0]), f"missing; {constructor.__name__} needs {needs}")


# --------------------------------------------------------------- signatures


class Parameter(NamedTuple):
    """A parameter of a constructor; its default in the form reading gives values: instances as Specs."""

    annotation: Any
    default: Any


def _parameters(constructor: type) -> dict[str, Parameter]:
    """The constructor's parameters by name; ``*args`` and ``**kwargs`` are no part of a configuration."""
    # A dataclass inherits fields from other modules, and only the class knows in which to look their annotations up.
    is_generated = "__dataclass_params__" in vars(constructor)
    try:
        hints = typing.get_type_hints(constructor if is_generated else constructor.__init__)  # type: ignore[misc]
    except NameError as error:
        where = f"{constructor.__module__}.{constructor.__qualname__}"
        raise TypeError(f"{where}: {error} in an annotation; import it outside of TYPE_CHECKING") from error
    fields = dataclasses.fields(constructor) if dataclasses.is_dataclass(constructor) else ()
    factories = {f.name: f.default_factory for f in fields if f.default_factory is not dataclasses.MISSING}
    found = {}
    for name, parameter in inspect.signature(constructor).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        annotation, default = hints.get(name, Any), parameter.default
        default = factories[name]() if name in factories else default
        found[name] = Parameter(annotation, _REQUIRED if default is parameter.empty else _unbuild(default, annotation))
    return found


def _unbuild(value: Any, annotation: Any) -> Any:
    """A default in the form reading gives: the Spec of a dataclass's instance or of a class, else the value itself."""
    constructor = value if isinstance(value, type) else type(value)
    for member in _members(annotation):
        name = names.name_of(_protocol(member) or "", constructor)
        if name or member is constructor:
            if isinstance(value, type):
                return Spec(constructor, {}, name, deferred=True)
            if dataclasses.is_dataclass(constructor):
                parameters = _parameters(constructor)
                arguments = {key: _unbuild(getattr(value, key), p.annotation) for key, p in parameters.items()}
                differing = {key: one for key, one in arguments.items() if one != parameters[key].default}
                return Spec(constructor, differing, name)
    return value


def _members(annotation: Any) -> list[Any]:
    """The annotation's alternatives, out of their unions and Factories."""
    origin = typing.get_origin(annotation)
    if origin in (Union, types.UnionType) or _is_factory(origin):
        return [member for inner in typing.get_args(annotation) for member in _members(inner)]
    return [annotation]


def _named(annotation: Any) -> bool:
    """Whether a table chooses it by its ``type``."""
    return any(_protocol(member) for member in _members(annotation))


def _protocol(annotation: Any) -> str | None:
    name = getattr(typing.get_origin(annotation) or annotation, "__name__", None)
    return name if name in names.NAMES else None


def _is_factory(origin: Any) -> bool:  # by name: types.py would import torch
    return getattr(origin, "__name__", "") == "Factory" and origin.__module__ == "transduce.types"


def _is_constructor(origin: Any) -> bool:
    if not isinstance(origin, type) or origin.__module__ in ("builtins", "collections.abc", "pathlib"):
        return False
    return origin.__name__ in names.NAMES or not getattr(origin, "_is_protocol", False)  # else nothing to be called


# ------------------------------------------------------------------- errors


_KINDS: Final[dict[type, str]] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "a table",
}
_WORDS: Final[dict[Any, str]] = {
    str: "a string",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    Path: "a path (a string)",
    tuple: "an array",
    list: "an array",
    dict: "a table",
}


def join(path: str, key: str) -> str:
    """The dotted path of a key in the table at ``path``."""
    return f"{path}.{key}" if path else key


def _mismatch(value: Any, annotation: Any, path: str) -> KindError:
    fix = f'; write "{value}" in quotes' if annotation is str and type(value) in (int, float) else ""
    return KindError(path, f"{shown(value)} is {kind(value)}, expected {_described(annotation)}{fix}")


def shown(value: Any) -> str:
    """The value as TOML writes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {shown(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(shown(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (str, bool)) else str(value)


def kind(value: Any) -> str:
    """What TOML calls such a value."""
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def _described(annotation: Any) -> str:
    """What a configuration may write for an annotation."""
    origin, inner = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if annotation in _WORDS:
        return _WORDS[annotation]
    if origin in (Union, types.UnionType):
        return " or ".join(_described(member) for member in inner if member is not type(None))
    if origin is Literal:
        return " or ".join(shown(value) for value in inner)
    if origin in (tuple, list, collections.abc.Sequence):
        items = [_described(item) for item in inner if item is not Ellipsis]
        return f"an array of {len(items)} ({', '.join(items)})" if len(items) > 1 else f"an array (of {items[0]})"
    if origin in (dict, collections.abc.Mapping):
        return f"a table (each key {_described(inner[1])})"
    if _is_factory(origin):
        return _described(inner[0])
    if (protocol := _protocol(annotation)) is not None:
        return "a table with type = " + " or ".join(f'"{name}"' for name in names.NAMES[protocol])
    return f"a table ({origin.__name__})" if _is_constructor(origin) else f"{annotation}, which no file can write"
