"""State as a value: a tree of tensors with one row per hypothesis, moved about by these functions alone.

A tree is a tensor, a tuple of trees, a frozen dataclass of trees, or ``None``. Integers ride along unchanged:
they are facts of the whole batch (how much of a buffer is filled), the same for every row. A leaf wrapped in
``Shared`` belongs to the source, not to the hypothesis: it has B rows where the others have B * K.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True)
class Shared(Generic[T]):
    """The same for every hypothesis of one source (projected keys of the encoder): never copied per beam."""

    value: T


def map(function: Callable[[Tensor], Tensor], tree: T, shared: Callable[[Tensor], Tensor] | None = None) -> T:
    """The tree with ``function`` applied to each leaf, and ``shared`` (default: the same) to those in ``Shared``."""
    mapped: T = _map(function, function if shared is None else shared, tree)
    return mapped


def _map(function: Callable[[Tensor], Tensor], shared: Callable[[Tensor], Tensor], tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, Shared):
        return Shared(_map(shared, shared, tree.value))
    if isinstance(tree, tuple):
        return tuple(_map(function, shared, branch) for branch in tree)
    if tree is None or isinstance(tree, int):
        return tree
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        fields = {f.name: _map(function, shared, getattr(tree, f.name)) for f in dataclasses.fields(tree)}
        return dataclasses.replace(tree, **fields)
    raise TypeError(
        f"a state holds tensors, tuples, integers and frozen dataclasses of these, not {type(tree).__name__}"
    )


def leaves(tree: Any) -> list[Tensor]:
    """The tensors of a tree, in order."""
    found: list[Tensor] = []

    def note(leaf: Tensor) -> Tensor:
        found.append(leaf)
        return leaf

    map(note, tree)
    return found


def fill(tree: T, tensors: Sequence[Tensor]) -> T:
    """The same tree with other tensors, in the order of ``leaves``."""
    following = iter(tensors)
    return map(lambda _: next(following), tree)


def rows(tree: Any) -> int:
    """The number of rows, as the first leaf has it."""
    return leaves(tree)[0].shape[0]


def select(tree: T, rows_N: Tensor, sources_B: Tensor | None = None) -> T:
    """Rows of a tree, in the order given. ``sources_B`` are the rows wanted of ``Shared`` leaves, by default the
    same ones; the law *row* says that selecting before a model and after it are the same."""
    shared = rows_N if sources_B is None else sources_B
    return map(lambda leaf: leaf.index_select(0, rows_N), tree, lambda leaf: leaf.index_select(0, shared))


def reorder(tree: T, rows_N: Tensor) -> T:
    """Rows of all that belongs to hypotheses; what is ``Shared`` stays as it is (no copy)."""
    return map(lambda leaf: leaf.index_select(0, rows_N), tree, lambda leaf: leaf)


def repeat(tree: T, times: int) -> T:
    """``times`` hypotheses of every row, adjacent; what is ``Shared`` stays as it is."""
    return map(lambda leaf: leaf.repeat_interleave(times, 0), tree, lambda leaf: leaf)


def fork(tree: T) -> T:
    """A copy that can be extended without disturbing the original."""
    return map(torch.clone, tree)


def join(trees: Sequence[T]) -> T:
    """One batch of several, row after row; buffers of unequal length are filled up with zeros (positions beyond a
    row's own length are never read), and integers take the largest."""
    joined: T = _join(list(trees))
    return joined


def _join(trees: list[Any]) -> Any:
    first = trees[0]
    if isinstance(first, Tensor):
        sizes = [max(sizes) for sizes in zip(*(leaf.shape[1:] for leaf in trees), strict=True)]
        return torch.cat([_grow(leaf, sizes) for leaf in trees])
    if isinstance(first, tuple):
        return tuple(_join(list(branches)) for branches in zip(*trees, strict=True))
    if first is None:
        return None
    if isinstance(first, int):
        return max(trees)
    fields = [f.name for f in dataclasses.fields(first)]
    return dataclasses.replace(first, **{name: _join([getattr(t, name) for t in trees]) for name in fields})


def _grow(leaf: Tensor, sizes: list[int]) -> Tensor:
    missing = [size - have for size, have in zip(sizes, leaf.shape[1:], strict=True)]
    if not any(missing):
        return leaf
    padding = [pad for size in reversed(missing) for pad in (0, size)]
    return torch.nn.functional.pad(leaf, padding)
