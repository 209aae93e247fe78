"""The largest of many columns. V columns, C of them wanted."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 100  # columns


def largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` largest of the last axis and where they are, all there are if fewer.

    Looked for in the blocks of columns with the largest maxima, which must hold them: a maximum takes a tenth of the
    time of a search for several.
    """
    *rows, V = scores.shape
    blocks = V // BLOCK
    if count >= blocks:
        return scores.topk(min(count, V))
    headed = scores[..., : blocks * BLOCK].view(*rows, blocks, BLOCK)
    block = headed.amax(-1).topk(count).indices
    inside = headed.gather(-2, block[..., None].expand(*rows, count, BLOCK)).flatten(-2)
    value, place = torch.cat([inside, scores[..., blocks * BLOCK :]], -1).topk(count)
    column = block.gather(-1, (place // BLOCK).clamp(max=count - 1)) * BLOCK + place % BLOCK
    return value, torch.where(place < count * BLOCK, column, place + (blocks - count) * BLOCK)
