"""Building blocks of models. Each is a small class; a variant is another small class with the same methods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

from torch import nn

T = TypeVar("T")


def module_list(parts: Iterable[T]) -> Sequence[T]:
    """Returns ``nn.ModuleList(parts)``. The return type tells the type checker the class of the parts; nothing else
    differs.
    """
    return cast("Sequence[T]", nn.ModuleList(cast("Iterable[nn.Module]", parts)))
