"""What a query may read, as a bias on its energies. B rows, T queries, S keys."""

from __future__ import annotations

import torch
from torch import Tensor

from transduce.types import widened


def mask_bias(mask_BS: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where the mask is True, minus infinity elsewhere: to be added to energies.

    Never narrower than float32, and so are the sums: a softmax over bfloat16 takes the CPU eight times as long.
    """
    wide = widened(dtype)
    return torch.zeros(mask_BS.shape, dtype=wide, device=mask_BS.device).masked_fill_(~mask_BS, float("-inf"))


def causal_bias(places_BT: Tensor, positions: int, dtype: torch.dtype) -> Tensor:
    """[B, 1, T, S]: a query at place p reads keys at places 0 to p."""
    keys_S = torch.arange(positions, device=places_BT.device)
    return mask_bias(keys_S <= places_BT[:, :, None], dtype)[:, None]
