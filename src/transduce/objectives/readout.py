"""Reading out logits in chunks, because all logits [N, V] of N features at once may need too much memory."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Protocol, TypeVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from transduce.core import tree
from transduce.core.protocols import Distribution

R = TypeVar("R")

CHUNK = 2**22  # logits in memory at once: 16 MiB in float32


def chunk_slices(model: Distribution, output: object) -> list[slice]:
    """Slices of the rows of the features ``output`` [N, ...], at least one, to read out one after the other. Each gives
    at most ``CHUNK`` logits, or has one row. The number of rows of all but the last is a power of two. So products need
    no additional rows of zeros (``modules.linear``), whose gradient would copy all logits.

    To learn the vocabulary's size, this function reads out one row. This readout has a gradient if gradients are
    enabled. The reason is that autocast caches converted weights. Before PyTorch's PR 165068 it reused weights that
    were cached under ``no_grad``.
    """
    vocabulary = model.readout(tree.map(lambda leaf: leaf[:1], output)).shape[-1]
    size = 1 << max(1, CHUNK // vocabulary).bit_length() - 1
    return [slice(begin, begin + size) for begin in range(0, max(tree.rows(output), 1), size)]


def map_chunks(model: Distribution, function: Callable[..., R], output: object, *others: object) -> list[R]:
    """Calls ``function(output, *others)`` with each chunk of the N rows, and returns the list of its results.

    ``output`` are features [N, ...] of ``model``, and ``others`` have N rows, too. ``function`` receives the rows of a
    chunk and reads out their logits itself, at most ``CHUNK`` of them (``chunk_slices``). If there is more than one
    chunk, the tensors inside ``function`` are not kept for the backward pass, which calls it again.
    """
    slices = chunk_slices(model, output)
    if len(slices) == 1:
        return [function(output, *others)]
    return [
        checkpoint(function, *(tree.map(itemgetter(part), each) for each in (output, *others)), use_reentrant=False)
        for part in slices
    ]


def sum_chunks(
    model: Distribution, function: Callable[..., tuple[Tensor, ...]], output: object, *others: object
) -> tuple[Tensor, ...]:
    """Calls ``function`` as ``map_chunks`` does, for a function that returns a tuple of sums over its rows. Returns the
    tuple of their sums over all chunks. Only the first of them has a gradient.

    If there is more than one chunk, the gradient of each chunk is computed at once, and its logits are freed. So no
    logit is read out twice, and only one chunk of logits is in memory.
    """
    slices = chunk_slices(model, output)
    if len(slices) == 1:
        return _first_alone(function(output, *others))
    every = (output, *others)
    leaves, gradients = tree.leaves(every), _Gradients()
    sums: list[tuple[Tensor, ...]] = []
    for part in slices:
        rows = [leaf[part].detach().requires_grad_(leaf.requires_grad) for leaf in leaves]
        found = function(*tree.fill(every, rows))
        if found[0].requires_grad:
            gradients.add(found[0], [leaf for leaf in rows if leaf.requires_grad])
        sums.append(tuple(each.detach() for each in found))
    total, *rest = (torch.stack(column).sum() for column in zip(*sums, strict=True))
    return gradients.linked(total, [leaf for leaf in leaves if leaf.requires_grad]), *rest


def _first_alone(sums: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return sums[0], *(each.detach() for each in sums[1:])


class _Gradients:
    """The gradient of a sum of chunks with respect to the rows of the features and to each parameter that the readout
    uses. It is collected chunk by chunk.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[Tensor | None, ...]] = []
        self.parameters: dict[Tensor, Tensor] = {}

    def add(self, total: Tensor, own: list[Tensor]) -> None:
        """Adds the gradient of ``total``, the sum of one chunk, with respect to its rows ``own`` and the parameters."""
        parameters = [leaf for leaf in _graph_leaves(total) if not any(leaf is row for row in own)]
        with torch.autocast(total.device.type, enabled=False):  # a backward pass runs without autocast
            found = torch.autograd.grad(total, [*own, *parameters], allow_unused=True)
        self.rows.append(found[: len(own)])
        for parameter, gradient in zip(parameters, found[len(own) :], strict=True):
            if gradient is None:
                continue
            if parameter in self.parameters:
                self.parameters[parameter] += gradient
            else:
                self.parameters[parameter] = gradient

    def linked(self, total: Tensor, output: list[Tensor]) -> Tensor:
        """Returns ``total`` with the collected gradients with respect to ``output`` (all rows) and the parameters."""
        if not self.rows:
            return total
        columns = list(zip(*self.rows, strict=True))
        pieces = [
            torch.cat([torch.zeros_like(leaf[:0]) if each is None else each for each in column])
            for leaf, column in zip(output, columns, strict=True)
        ]
        linked: Tensor = _Linked.apply(  # type: ignore[no-untyped-call]
            total, [*pieces, *self.parameters.values()], *output, *self.parameters
        )
        return linked


class _Known(Protocol):
    gradients: list[Tensor]


class _Linked(torch.autograd.Function):
    """A value whose ``gradients`` with respect to the other arguments are already computed."""

    @staticmethod
    def forward(ctx: _Known, total: Tensor, gradients: list[Tensor], *_: Tensor) -> Tensor:
        ctx.gradients = gradients
        return total.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: _Known, gradient: Tensor) -> tuple[Tensor | None, ...]:
        known = ctx.gradients
        del ctx.gradients  # a second backward pass would find them scaled
        if gradient.device.type != "cpu" or gradient != 1:  # comparing on a GPU would wait for the result
            known = [each.mul_(gradient) for each in known]
        return None, None, *known


def _graph_leaves(total: Tensor) -> list[Tensor]:
    """The leaves of the graph of ``total``: the tensors that a backward pass would give a gradient."""
    found, seen, open_nodes = [], set(), [total.grad_fn]
    while open_nodes:
        node = open_nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        open_nodes.extend(following for following, _ in node.next_functions)
    return found
