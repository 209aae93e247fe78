"""When finished rows leave a batch. N rows, of any kind."""

from __future__ import annotations

import torch
from torch import Tensor


def room(rows: int) -> int:
    """The rows that a batch has while ``rows`` of them go on: the next power of two.

    They leave by halves, and not each as it ends: to move the others costs as much as half a step, and in bfloat16 the
    CPU makes a kernel for every new shape. A tenth of what is computed is then of rows that have finished.
    """
    return 1 << (rows - 1).bit_length() if rows else 0


def staying(going_N: Tensor) -> Tensor:
    """The rows that stay: all, in order, or those that are ``going`` and as many others as there is room for."""
    size = room(int(going_N.sum()))
    if size >= len(going_N):
        return torch.arange(len(going_N), device=going_N.device)
    return (~going_N).byte().argsort(stable=True)[:size]
