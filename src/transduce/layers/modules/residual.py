"""Residual connections around the sublayers of a Transformer, and the place of their norm."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import widened
from transduce.layers.modules.dropout import Dropout

Kind = Literal["layer", "rms"]


class PostNorm(nn.Module):
    """A residual connection with the norm after the sum: norm(x + dropout(f(x))) for a sublayer f (Vaswani et al. 2017,
    section 3.1). ``kind`` "layer" takes a LayerNorm, "rms" an RMSNorm. The norm adds ``eps`` to the variance, or to the
    mean square; None is 1e-5 for a LayerNorm and 1e-6 for an RMSNorm.
    """

    def __init__(self, width: int, dropout: float, kind: Kind = "layer", eps: float | None = None) -> None:
        super().__init__()
        self.norm = normalization(kind, width, eps)
        self.dropout = Dropout(dropout)

    def enter(self, x: Tensor) -> Tensor:
        return x

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        total: Tensor = self.norm(self.dropout.added_to(x, y))
        return total

    def final(self) -> nn.Module:
        return nn.Identity()


class PreNorm(nn.Module):
    """A residual connection with the norm before the sublayer f: x + dropout(f(norm(x))) (Xiong et al. 2020). A stack
    ends with one more norm: ``final`` of a connection that it makes for this purpose.

    It trains without a long warm-up. ``kind`` "layer" takes a LayerNorm, "rms" an RMSNorm. The norm adds ``eps`` to the
    variance, or to the mean square; None is 1e-5 for a LayerNorm and 1e-6 for an RMSNorm.
    """

    def __init__(self, width: int, dropout: float, kind: Kind = "layer", eps: float | None = None) -> None:
        super().__init__()
        self.norm = normalization(kind, width, eps)
        self.dropout = Dropout(dropout)

    def enter(self, x: Tensor) -> Tensor:
        normal: Tensor = self.norm(x)
        return normal

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        return self.dropout.added_to(x, y)

    def final(self) -> nn.Module:
        return self.norm


class RMSNorm(nn.Module):
    """Normalisation by the root mean square: g x / sqrt(mean(x^2) + eps), with the mean over the last axis (Zhang and
    Sennrich 2019, eq. 4).

    Computed as a dot product: on the CPU this trains a third faster than ``torch.nn.RMSNorm`` in float32 and twice as
    fast in bfloat16. The mean is at least float32.
    """

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(widened(x.dtype))
        mean = torch.linalg.vecdot(wide, wide)[..., None] / x.shape[-1]
        return (wide * torch.rsqrt(mean + self.eps)).to(x.dtype) * self.weight


def normalization(kind: Kind, width: int, eps: float | None = None) -> nn.Module:
    """A norm over the last axis. Raises UserError unless ``eps`` is None or a positive number."""
    if eps is not None and not 0 < eps < float("inf"):
        raise UserError(f"eps = {eps}: a positive number was expected, such as 1e-5")
    if kind == "layer":
        return nn.LayerNorm(width, eps=1e-5 if eps is None else eps)
    return RMSNorm(width, 1e-6 if eps is None else eps)
