"""Reading out logits in chunks: the logits [N, V] of N features can need more memory than is sensible at once."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from transduce import tree
from transduce.protocols import Distribution

R = TypeVar("R")

CHUNK = 2**25  # logits in memory at once: 128 MiB in float32


def chunk_slices(model: Distribution, output: Any) -> list[slice]:
    """Slices of the rows of the features ``output`` [N, ...], at least one, to read out one after the other. Each gives
    at most ``CHUNK`` logits, or has one row.

    To learn the vocabulary's size, this reads out one row. That readout has a gradient wherever gradients are enabled:
    autocast caches converted weights, and before PyTorch's PR 165068 it reused weights that were cached under
    ``no_grad``.
    """
    vocabulary = model.readout(tree.map(lambda leaf: leaf[:1], output)).shape[-1]
    size = max(1, CHUNK // vocabulary)
    return [slice(begin, begin + size) for begin in range(0, max(tree.rows(output), 1), size)]


def map_chunks(model: Distribution, function: Callable[..., R], output: Any, *others: Any) -> list[R]:
    """Calls ``function(output, *others)`` with each chunk of the N rows, and returns the list of its results.

    ``output`` are features [N, ...] of ``model``, and ``others`` have N rows, too. ``function`` receives the rows of a
    chunk and reads out their logits itself; a chunk has at most ``CHUNK`` of them (``chunk_slices``). With more than
    one chunk, nothing inside ``function`` is kept for the backward pass, which calls it again.
    """
    slices = chunk_slices(model, output)
    if len(slices) == 1:
        return [function(output, *others)]
    return [
        checkpoint(function, *(tree.map(itemgetter(part), each) for each in (output, *others)), use_reentrant=False)
        for part in slices
    ]


def sum_chunks(
    model: Distribution, function: Callable[..., tuple[Tensor, ...]], output: Any, *others: Any
) -> tuple[Tensor, ...]:
    """Like ``map_chunks``, for a function that returns a tuple of sums. Returns the tuple of their sums over all
    chunks.
    """
    sums = map_chunks(model, function, output, *others)
    return sums[0] if len(sums) == 1 else tuple(torch.stack(column).sum() for column in zip(*sums, strict=True))
