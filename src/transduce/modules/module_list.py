"""Modules in a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

from torch import nn

T = TypeVar("T")


def module_list(parts: Iterable[T]) -> Sequence[T]:
    """An ``nn.ModuleList``, which to the type checker stays a sequence of what was put in."""
    return cast("Sequence[T]", nn.ModuleList(cast("Iterable[nn.Module]", parts)))
