"""Code of the package on a page of the book, taken from the package by its name. It is never copied."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from textwrap import dedent
from typing import Any

MOST_LINES = 45  # without the docstring; a chapter shows ten to thirty


@dataclass(frozen=True)
class Source:
    """The code of a function or class. Jupyter and the site show it as Python."""

    name: str
    code: str

    def _repr_markdown_(self) -> str:
        return f"`{self.name}`\n\n```python\n{self.code}\n```\n"


def source(name: str, *more: str) -> Source:
    """The code of ``name``, such as "transduce.search.ranking.Average.__call__", without its docstring; ``more`` are
    further names of the same module. Raises ValueError if the package has no such name, or if the code is too long to
    be read beside a formula.
    """
    parts = [f"# {'.'.join(each.split('.')[-2:])}\n{_code(each)}" if more else _code(each) for each in (name, *more)]
    lines = sum(part.count("\n") + 1 for part in parts)
    if lines > MOST_LINES:
        raise ValueError(f"{name} has {lines} lines, and the book shows at most {MOST_LINES}: name a smaller part")
    return Source(", ".join((name, *more)), "\n\n".join(parts))


def _code(name: str) -> str:
    value = found(name)
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, cached_property):
        value = value.func
    lines = dedent(inspect.getsource(inspect.unwrap(value))).splitlines()
    return "\n".join(_without_docstring(lines))


def found(name: str) -> Any:
    """The object with this dotted name. Raises ValueError if there is none."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value: Any = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        try:
            for part in parts[end:]:
                value = inspect.getattr_static(value, part) if isinstance(value, type) else getattr(value, part)
        except AttributeError:
            break
        return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    raise ValueError(f"the package has no {name}: the code may have moved, so name its new place")


def _without_docstring(lines: list[str]) -> list[str]:
    node: Any = ast.parse("\n".join(lines)).body[0]
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        lines = lines[: first.lineno - 1] + lines[first.end_lineno :]
    while lines and not lines[-1].strip():
        lines.pop()
    return [line for number, line in enumerate(lines) if line.strip() or lines[number - 1].strip()]
