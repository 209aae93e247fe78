"""Neighbours as one: fewer and wider steps. B rows, S steps, D features."""

from __future__ import annotations

import torch
from torch import nn

from transduce.types import Padded


def join(x: Padded, count: int) -> Padded:
    """[B, ceil(S / count), count * D]: every ``count`` neighbours side by side, zeros where a row's last are fewer."""
    real_BSD = x.values.masked_fill(~x.mask[..., None], 0.0)
    whole_BSD = nn.functional.pad(real_BSD, (0, 0, 0, -real_BSD.shape[1] % count))
    joined_BSE = torch.unflatten(whole_BSD, 1, (-1, count)).flatten(2)
    return Padded(joined_BSE, (x.lengths + count - 1) // count)
