"""Turns tables into objects. ``check`` only checks a table, ``build`` also constructs, ``resolve`` adds defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import TypeVar

from transduce.core.config.checking import UNKNOWN, check_value
from transduce.core.config.errors import Table
from transduce.core.config.spec import as_toml, construct

T = TypeVar("T")


def check(table: Table | str, expected: object, facts: Collection[str] = (), path: str = "") -> None:
    """Raises ConfigError unless the table, with all nested tables, describes a valid object of the class or protocol
    ``expected``. Makes no object.

    ``facts`` are the names of the facts that only the data will give, such as vocabulary sizes. ``path`` is the table's
    key in its file, for the errors.
    """
    check_value(table, expected, path, dict.fromkeys(facts, UNKNOWN))


def build(table: Table | str, expected: Callable[..., T], facts: object | None = None, path: str = "") -> T:
    """Checks the table and makes the object that it describes: an ``expected`` object or, for ``Factory[T]``, a Spec
    that makes T when it is called.

    ``expected`` is a class, a protocol or a ``Factory[T]``. It is annotated Callable because type checkers refuse
    protocols for ``type[T]``. ``facts`` is a dataclass of what only the data know, such as vocabulary sizes. ``path``
    is the table's key in its file, for the errors. Raises ConfigError if a key is unknown or missing, or if a value is
    invalid; a ValueError of a constructor becomes a ConfigError, too.
    """
    built: T = construct(check_value(table, expected, path, _known(facts)))
    return built


def resolve(table: Table | str, expected: object, facts: object | None = None, path: str = "") -> Table:
    """A new table with all defaults and facts written out, so that later versions read it in the same way.

    Leaves out defaults that are None, which TOML cannot write, and defaults that are neither values nor dataclasses.
    Raises ConfigError as ``check`` does: no constructor is called. Also raises it for a value that TOML cannot write.
    """
    resolved: Table = as_toml(check_value(table, expected, path, _known(facts)))
    return resolved


def build_and_resolve(
    table: Table | str, expected: Callable[..., T], facts: object | None = None, path: str = ""
) -> tuple[T, Table]:
    """A pair: the results of ``build`` and of ``resolve``, with one check of the table."""
    call = check_value(table, expected, path, _known(facts))
    return construct(call), as_toml(call)


def _known(facts: object | None) -> Table:
    if facts is None:
        return {}
    return {field.name: getattr(facts, field.name) for field in dataclasses.fields(facts)}  # type: ignore[arg-type]
