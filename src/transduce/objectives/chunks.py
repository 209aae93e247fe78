"""Reading out by parts: N features may have more logits [N, V] than memory should hold at once."""

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

CHUNK = 2**25  # logits held at once: 128 MiB in float32


def chunks(model: Distribution, output: Any) -> list[slice]:
    """Parts of the features ``output`` [N, ...] whose logits are at most ``CHUNK``; at least one part.

    One row is read out, with a gradient where there are gradients: autocast keeps the weights it has converted, and,
    before PyTorch's PR 165068, used them without a gradient once that had happened under ``no_grad``.
    """
    vocabulary = model.readout(tree.map(lambda leaf: leaf[:1], output)).shape[-1]
    size = max(1, CHUNK // vocabulary)
    return [slice(begin, begin + size) for begin in range(0, max(tree.rows(output), 1), size)]


def by_parts(model: Distribution, part: Callable[..., R], output: Any, *beside: Any) -> list[R]:
    """What ``part`` gives of N features and of what stands beside them [N, ...]; of a chunk after the other, where the
    logits would not fit in one, and these are made again for the backward pass."""
    pieces = chunks(model, output)
    if len(pieces) == 1:
        return [part(output, *beside)]
    every = (output, *beside)
    return [
        checkpoint(part, *(tree.map(itemgetter(piece), each) for each in every), use_reentrant=False)
        for piece in pieces
    ]


def summed(
    model: Distribution, part: Callable[..., tuple[Tensor, ...]], output: Any, *beside: Any
) -> tuple[Tensor, ...]:
    """The sums that ``part`` gives, as ``by_parts`` has them."""
    sums = by_parts(model, part, output, *beside)
    return sums[0] if len(sums) == 1 else tuple(torch.stack(column).sum() for column in zip(*sums, strict=True))
