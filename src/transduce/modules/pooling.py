"""Many positions as one vector."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from transduce.types import Padded

Pooling = Literal["mean", "sum", "max"]


def pool(x_BSD: Tensor, source: Padded, pooling: Pooling) -> Tensor:
    """[B, D]: the mean, sum or maximum over each row's real positions."""
    if pooling == "max":
        return x_BSD.masked_fill(~source.mask[..., None], float("-inf")).amax(1)
    # As a product: in bfloat16 on the CPU a sum along an axis takes twenty times as long.
    summed_BD = torch.matmul(source.mask[:, None].to(x_BSD.dtype), x_BSD)[:, 0]
    return summed_BD if pooling == "sum" else summed_BD / source.lengths[:, None]
