"""Trees of tensors: the states of models and searches, which these functions select, repeat, join and reorder.

A tree is a tensor, a ``Buffer``, a tuple of trees, a frozen dataclass of trees, an integer or ``None``. Each tensor has
one row per hypothesis. An integer describes the whole batch and does not change. A tree inside ``Shared`` has one row
per source: B rows where the others have B * K.
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
    """A tree that is the same for every hypothesis of one source, such as the encoder's projected keys. It keeps one
    row per source, and ``repeat`` and ``reorder`` do not copy it."""

    value: T


@dataclass(frozen=True)
class Buffer:
    """One vector per output position and head: ``values`` [rows, heads, capacity, D].

    Each row is filled up to its own length, which its owner keeps as a tensor. Positions beyond that length hold
    arbitrary finite numbers, so the owner must mask them.

    A search calls ``reserve`` before it steps. Then the buffer is ``reserved`` and its capacity is fixed: ``write``
    keeps the shape, so that a graph can hold the step. Without ``reserve``, each ``write`` adds room for its T
    positions. This suits teacher forcing and makes every call sequence valid.
    """

    values: Tensor
    reserved: bool = False

    @property
    def capacity(self) -> int:
        return self.values.shape[2]

    def write(self, new_NHTD: Tensor, places_NT: Tensor) -> Buffer:
        """Returns the buffer with T new positions [rows, heads, T, D], written at ``places_NT`` of each row.

        A buffer of capacity 0 ignores the places: the result holds exactly the new positions. If gradients are off, the
        call may write in place: the old buffer must not be used again.
        """
        if not self.capacity:
            return Buffer(new_NHTD)
        values = self.values if self.reserved else _resized(self.values, self.capacity + new_NHTD.shape[2])
        values = values.to(new_NHTD.dtype)  # narrower in autocast, from the first write on
        if torch.is_grad_enabled():
            index_NHTD = places_NT[:, None, :, None].expand_as(new_NHTD)
            return Buffer(values.scatter(2, index_NHTD, new_NHTD), self.reserved)
        rows_N1 = torch.arange(values.shape[0], device=values.device)[:, None]
        values[rows_N1, :, places_NT] = new_NHTD.transpose(1, 2)
        return Buffer(values, self.reserved)


def reserve(tree: T, capacity: int) -> T:
    """The tree with buffers of exactly this ``capacity``, which ``Buffer.write`` then keeps. Give at least 1.

    The caller guarantees that no row is longer. Smaller buffers are copied into larger ones; larger ones become views.
    """
    reserved: T = _map(_unchanged, _unchanged, tree, lambda buffer: Buffer(_resized(buffer.values, capacity), True))
    return reserved


def map(function: Callable[[Tensor], Tensor], tree: T, shared: Callable[[Tensor], Tensor] | None = None) -> T:
    """A new tree: applies ``function`` to each tensor, values of buffers included, and ``shared`` to each tensor inside
    ``Shared``. If ``shared`` is None, ``function`` is applied there too.
    """
    mapped: T = _map(function, function if shared is None else shared, tree)
    return mapped


def _map(
    function: Callable[[Tensor], Tensor],
    shared: Callable[[Tensor], Tensor],
    tree: object,
    buffer: Callable[[Buffer], Buffer] | None = None,
) -> Any:
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, Buffer) and buffer is not None:
        return buffer(tree)
    if isinstance(tree, Shared):
        return tree if shared is _unchanged and buffer is None else Shared(_map(shared, shared, tree.value, buffer))
    if isinstance(tree, tuple):
        return tuple([_map(function, shared, branch, buffer) for branch in tree])
    if tree is None or isinstance(tree, int):
        return tree
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        # not dataclasses.replace, which takes longer, and no cache of names, which spoils graphs of torch.export
        names = type(tree).__dataclass_fields__  # nor ``fields``, which makes a tuple of them
        return type(tree)(**{name: _map(function, shared, getattr(tree, name), buffer) for name in names})
    raise TypeError(
        f"a state holds tensors, tuples, integers and frozen dataclasses of these, not {type(tree).__name__}"
    )


def _unchanged(leaf: Tensor) -> Tensor:
    return leaf


def leaves(tree: object) -> list[Tensor]:
    """The tensors of a tree in the order of its fields, with those in ``Shared`` and the values of each ``Buffer``."""
    found: list[Tensor] = []

    def note(leaf: Tensor) -> Tensor:
        found.append(leaf)
        return leaf

    map(note, tree)
    return found


def grows(tree: object) -> bool:
    """True if the tree has a ``Buffer``: then the state needs memory for each position."""
    found: list[Buffer] = []

    def note(buffer: Buffer) -> Buffer:
        found.append(buffer)
        return buffer

    _map(_unchanged, _unchanged, tree, note)
    return bool(found)


def fill(tree: T, tensors: Sequence[Tensor]) -> T:
    """The same tree with other tensors, given in the order of ``leaves``."""
    following = iter(tensors)
    return map(lambda _: next(following), tree)


def rows(tree: object) -> int:
    """The number of rows of the tree's first tensor."""
    return leaves(tree)[0].shape[0]


def select(tree: T, rows_N: Tensor, sources_B: Tensor | None = None) -> T:
    """A copy with the given rows, in the given order. A row may occur several times.

    ``sources_B`` are the rows to select inside ``Shared``; None selects ``rows_N`` there too. A model gives each
    selected row the same result as the row in its old batch.
    """
    shared = rows_N if sources_B is None else sources_B
    return map(lambda leaf: leaf.index_select(0, rows_N), tree, lambda leaf: leaf.index_select(0, shared))


def reorder(tree: T, rows_N: Tensor) -> T:
    """Selects the given rows of each tensor outside ``Shared``, in the given order. Copies nothing inside it."""
    return map(lambda leaf: leaf.index_select(0, rows_N), tree, _unchanged)


def repeat(tree: T, times: int) -> T:
    """A tree with each row ``times`` times; the copies of a row are adjacent. Tensors inside ``Shared`` do not
    change.
    """
    return map(lambda leaf: leaf.repeat_interleave(times, 0), tree, _unchanged)


def fork(tree: T) -> T:
    """A copy that shares no memory, so that extending one does not change the other."""
    return map(torch.clone, tree)


def join(trees: Sequence[T]) -> T:
    """Concatenates the rows of several trees into one batch. The trees must have the same structure.

    Tensors that differ in other axes are padded with zeros at the end. Integers take the largest value. Joined buffers
    are ``reserved`` only if all of them are.
    """
    joined: T = _join(list(trees))
    return joined


def _join(trees: list[Any]) -> Any:
    first = trees[0]
    if isinstance(first, Tensor):
        sizes = [max(sizes) for sizes in zip(*(leaf.shape[1:] for leaf in trees), strict=True)]
        return torch.cat([_grow(leaf, sizes) for leaf in trees])
    if isinstance(first, Buffer):
        return Buffer(_join([each.values for each in trees]), all(each.reserved for each in trees))
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


def _resized(values_NHSD: Tensor, capacity: int) -> Tensor:
    """The tensor with exactly ``capacity`` positions: padded with zeros, or cut."""
    missing = capacity - values_NHSD.shape[2]
    if missing <= 0:
        return values_NHSD[:, :, :capacity]
    return torch.nn.functional.pad(values_NHSD, (0, 0, 0, missing))
