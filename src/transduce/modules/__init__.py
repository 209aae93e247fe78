"""Building blocks of models. Each is a small class; a variant is another small class with the same methods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

from torch import nn

T = TypeVar("T")


def module_list(parts: Iterable[T]) -> Sequence[T]:
    """An ``nn.ModuleList`` whose elements keep their type for the type checker."""
    return cast("Sequence[T]", nn.ModuleList(cast("Iterable[nn.Module]", parts)))
