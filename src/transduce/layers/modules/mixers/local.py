"""Restricted self-attention: every position reads only its neighbourhood.

B rows, S positions, N blocks of a row, R positions of a block, H heads, D features of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.layers.modules.attention.energies import mask_bias
from transduce.layers.modules.attention.heads import Heads, check_heads, merge_heads, split_heads
from transduce.layers.modules.linear import projection


class LocalSelfAttention(nn.Module):
    """Self-attention of an encoder in which a position reads itself and the real positions at most ``reach`` before or
    after it (Vaswani et al. 2017, section 4: "restricted"). Maps [B, S, width] to the same shape.

    The cost grows linearly with the length. A row is cut into blocks of ``reach`` positions, and each block reads
    itself and the two beside it. In training, ``dropout`` applies to the weights. Raises UserError for a ``reach``
    below 1.
    """

    def __init__(self, width: int, heads: int, dropout: float, reach: int = 16) -> None:
        super().__init__()
        check_heads(width, heads)
        if reach < 1:
            raise UserError(f"reach = {reach}: a position reads at least 1 position on each side")
        self.count, self.block = heads, reach
        self.project = projection(width, width, 3)
        self.heads = Heads(dropout)
        self.out = projection(width, width)

    def forward(self, x: Padded) -> Tensor:
        B, S, _ = x.values.shape
        R = self.block
        missing = -S % R
        projected_BSE = nn.functional.pad(self.project(x.values), (0, 0, 0, missing))
        query_BHSD, key_BHSD, value_BHSD = split_heads(projected_BSE, 3, self.count)
        read = self.heads(
            _blocks(query_BHSD, R, 0), _blocks(key_BHSD, R, 1), _blocks(value_BHSD, R, 1), self._bias(x, missing)
        )
        y_BSE: Tensor = self.out(merge_heads(read).reshape(B, S + missing, -1)[:, :S])
        return y_BSE

    def _bias(self, x: Padded, missing: int) -> Tensor:
        """[B * N, 1, R, 3R]: 0 for a real key within reach, and for a query's own position; minus infinity elsewhere.
        A query at padding has no other key, and a softmax needs one.
        """
        R = self.block
        real_BS = nn.functional.pad(x.mask, (R, R + missing))
        real_BNK = real_BS.unfold(1, 3 * R, R)
        distance_RK = (
            torch.arange(3 * R, device=real_BS.device) - torch.arange(R, 2 * R, device=real_BS.device)[:, None]
        )
        seen_BNRK = (real_BNK[:, :, None] & (distance_RK.abs() <= R)) | (distance_RK == 0)
        return mask_bias(seen_BNRK.flatten(0, 1), x.values.dtype)[:, None]


def _blocks(x_BHSD: Tensor, size: int, around: int) -> Tensor:
    """[B * N, H, R', D]: the blocks of ``size`` positions, each with ``around`` blocks before and after it."""
    padded_BHSD = nn.functional.pad(x_BHSD, (0, 0, around * size, around * size))
    blocks_BHNDR = padded_BHSD.unfold(2, (1 + 2 * around) * size, size)
    return blocks_BHNDR.permute(0, 2, 1, 4, 3).flatten(0, 1)
