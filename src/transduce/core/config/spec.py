"""A checked constructor call as a value: it can be called, compared, and written as a table."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from transduce.core import registry
from transduce.core.config.annotations import described, members, protocol_of
from transduce.core.config.errors import ConfigError, Table, join, shown
from transduce.core.errors import out_of_memory

T = TypeVar("T")
REQUIRED: Final = object()  # the default of a parameter without one


@dataclass(frozen=True)
class Spec(Generic[T]):
    """A checked constructor call as a value. If ``deferred``, its owner calls it later, possibly several times: so a
    parameter annotated ``Factory[T]`` receives it.

    ``arguments`` are those that differ from the constructor's defaults: values, and Specs for nested calls. ``path`` is
    the table's key in its file, for errors; it does not count in comparisons.
    """

    constructor: type[T]
    arguments: Table
    name: str | None = None  # the table's ``type``, if it chooses among classes
    deferred: bool = False
    path: str = dataclasses.field(default="", compare=False)

    def __call__(self, *args: object, **kwargs: object) -> T:
        """Constructs a new object, with further arguments from the caller.

        The table may leave out what the caller gives (a width, parameters), but may not contradict it. Raises
        ConfigError for a contradiction, an argument that the constructor does not take, a missing argument, a
        ValueError of the constructor, or too little memory.
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
        require_all(self.constructor, arguments, self.path)
        try:
            return self.constructor(**arguments)
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(self.path, str(error)) from error
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            raise ConfigError(
                self.path,
                f"{self.constructor.__name__} needs more memory than this machine has ({_first_line(error)}); choose "
                "smaller widths or fewer layers",
            ) from error

    def _bind(self, args: tuple[object, ...], kwargs: Table) -> Table:
        try:
            return inspect.signature(self.constructor).bind_partial(*args, **kwargs).arguments
        except TypeError as error:
            raise ConfigError(
                self.path, f"{self.constructor.__name__} does not take what is set where it is used: {error}"
            ) from error

    def table(self) -> Table:
        """The call as a table for TOML, with all defaults. Defaults that TOML cannot write are left out.

        Raises ConfigError if TOML cannot write a value that differs from its default.
        """
        written: Table = {} if self.name is None else {"type": self.name}
        for name, parameter in parameters_of(self.constructor).items():
            value = as_toml(self.arguments.get(name, parameter.default))
            if value is not None:
                written[name] = value
            elif name in self.arguments:
                raise ConfigError(join(self.path, name), "TOML cannot write None, and it is not the default here")
        return written


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["MemoryError"])[0]


def construct(value: object) -> Any:
    """Makes the objects inside a value: replaces each Spec by the result of its call, also inside dicts, lists and
    tuples. Deferred Specs stay.
    """
    if isinstance(value, Spec):
        return value if value.deferred else value()
    return _map(construct, value)


def as_toml(value: object) -> Any:
    """Converts a checked value for TOML: a Spec becomes a table, a path a string, a tuple a list. None, or an object of
    another class, becomes None.
    """
    if isinstance(value, Spec):
        return value.table()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [as_toml(item) for item in value]  # reading gives lists
    return _map(as_toml, value) if isinstance(value, (str, bool, int, float, list, dict)) else None


def _map(function: Callable[[object], object], value: object) -> object:
    if isinstance(value, dict):
        return {key: function(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(function(item) for item in value)
    return value


# --------------------------------------------------------------- signatures


class Parameter(NamedTuple):
    """A parameter of a constructor. The default is ``REQUIRED`` if there is none, and a Spec for a dataclass's
    instance.
    """

    annotation: object
    default: object


def parameters_of(constructor: type) -> dict[str, Parameter]:
    """The constructor's parameters by name, without ``*args`` and ``**kwargs``, which a configuration cannot set. The
    caller must not change them: they are made once, until a class is registered.
    """
    return _parameters(constructor, registry.registrations())


@cache
def _parameters(constructor: type, registrations: int) -> dict[str, Parameter]:
    """The parameters, with the names that classes have after so many registrations."""
    fields = dataclasses.fields(constructor) if dataclasses.is_dataclass(constructor) else ()
    factories = {f.name: f.default_factory for f in fields if f.default_factory is not dataclasses.MISSING}
    found = {}
    for name, (annotation, default) in _signature(constructor).items():
        default = factories[name]() if name in factories else default
        found[name] = Parameter(annotation, REQUIRED if default is REQUIRED else as_spec(default, annotation))
    return found


@cache
def _signature(constructor: type) -> dict[str, tuple[object, object]]:
    """The annotation and the default of each parameter. Cached, because evaluating annotations takes most of a check's
    time.
    """
    # A dataclass inherits fields from other modules. Only the class knows in which module to look up an annotation.
    is_generated = "__dataclass_params__" in vars(constructor)
    try:
        hints = typing.get_type_hints(constructor if is_generated else constructor.__init__)  # type: ignore[misc]
    except NameError as error:
        where = f"{constructor.__module__}.{constructor.__qualname__}"
        raise TypeError(f"{where}: {error} in an annotation; import it outside of TYPE_CHECKING") from error
    return {
        name: (hints.get(name, Any), REQUIRED if parameter.default is parameter.empty else parameter.default)
        for name, parameter in inspect.signature(constructor).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


def as_spec(value: Any, annotation: object) -> Any:
    """A default in the form that reading a table would give.

    A class becomes a deferred Spec and a dataclass's instance a Spec, if ``annotation`` accepts them. A tuple becomes a
    tuple of its items' forms. Any other value stays.
    """
    constructor = value if isinstance(value, type) else type(value)
    for member in members(annotation):
        if constructor is tuple and typing.get_origin(member) is tuple:
            return tuple(as_spec(item, typing.get_args(member)[0]) for item in value)
        name = registry.name_of(protocol_of(member) or "", constructor)
        if name or member is constructor:
            if isinstance(value, type):
                return Spec(constructor, {}, name, deferred=True)
            if dataclasses.is_dataclass(constructor):
                parameters = parameters_of(constructor)
                arguments = {key: as_spec(getattr(value, key), p.annotation) for key, p in parameters.items()}
                differing = {key: one for key, one in arguments.items() if one != parameters[key].default}
                return Spec(constructor, differing, name)
    return value


def require_all(constructor: type, arguments: Collection[str], path: str) -> None:
    parameters = parameters_of(constructor)
    missing = [name for name, p in parameters.items() if p.default is REQUIRED and name not in arguments]
    if missing:
        needs = " and ".join(f"{name}, {described(parameters[name].annotation)}" for name in missing)
        raise ConfigError(join(path, missing[0]), f"missing; {constructor.__name__} needs {needs}")
