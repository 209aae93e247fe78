"""Position embeddings: vectors for the places of tokens, added to the tokens' embeddings."""

from __future__ import annotations

from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import widened
from transduce.layers.modules.embedding import TableParameter

TABULATED = 512  # positions whose sinusoids are computed once
Exponents = Literal["paper", "inclusive"]


class NoPositions(nn.Module):
    """Adds no positions: returns 0.0. The model sees order only through its other parts, such as the causal mask."""

    def __init__(self, width: int) -> None:
        super().__init__()

    def forward(self, positions_BT: Tensor) -> float:
        return 0.0


class Sinusoidal(nn.Module):
    """Fixed vectors for positions p: PE(p, 2i) = sin(p / 10000^(2i/width)), PE(p, 2i+1) = cos(p / 10000^(2i/width))
    (Vaswani et al. 2017, section 3.5).

    ``exponents`` "inclusive" has i/(width/2 - 1) in place of 2i/width, as Marian has it: the last exponent is 1. Maps
    positions [...] to vectors [..., width], for any position. Raises UserError if the width is odd, or if it is 2 with
    inclusive exponents.
    """

    like: Tensor

    def __init__(self, width: int, exponents: Exponents = "paper") -> None:
        super().__init__()
        if width % 2:
            raise UserError(f"width = {width}: sinusoidal positions pair sines with cosines and need an even width")
        if exponents == "inclusive" and width < 4:
            raise UserError(f"width = {width}: inclusive exponents need a first and a last one, a width of at least 4")
        self.width = width
        self.exponents = exponents
        self.register_buffer("like", torch.empty(0), persistent=False)  # empty: has the model's type and device

    def forward(self, positions_BT: Tensor) -> Tensor:
        like = self.like
        if like.device.type == "cpu" and not torch.compiler.is_compiling():
            try:
                return nn.functional.embedding(positions_BT, _table(self.width, like.dtype, self.exponents))
            except IndexError:  # beyond the table
                pass
        return sinusoids(positions_BT, self.width, like.dtype, self.exponents)


def sinusoids(positions_BT: Tensor, width: int, dtype: torch.dtype, exponents: Exponents = "paper") -> Tensor:
    """The vectors [..., width] of ``Sinusoidal`` for positions [...]."""
    wide = widened(dtype)  # bfloat16 would round position 257 to 256
    last = width if exponents == "paper" else width - 2
    exponents_F = torch.arange(0, width, 2, dtype=wide, device=positions_BT.device) / last
    angles_BTF = positions_BT[..., None].to(wide) * 10000.0**-exponents_F
    return torch.stack([angles_BTF.sin(), angles_BTF.cos()], -1).flatten(-2).to(dtype)


@cache
def _table(width: int, dtype: torch.dtype, exponents: Exponents) -> Tensor:
    """The vectors of the first ``TABULATED`` positions [TABULATED, width], on the CPU."""
    with torch.inference_mode(False):  # it serves training, too
        return sinusoids(torch.arange(TABULATED), width, dtype, exponents)


class Learned(nn.Module):
    """One learned vector for each of ``length`` positions, drawn from N(0, 1/width) (Gehring et al. 2017).

    Maps positions [...] to vectors [..., width]. Raises UserError for a position of ``length`` or more, on the CPU
    only.
    """

    def __init__(self, width: int, length: int = 512) -> None:
        super().__init__()
        self.weight = TableParameter(torch.empty(length, width))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, positions_BT: Tensor) -> Tensor:
        try:
            return nn.functional.embedding(positions_BT, self.weight)
        except IndexError:  # asking first would read a value from the device in every step of a decoder
            raise UserError(
                f"position {int(positions_BT.max())}: the model has learned positions 0 to {len(self.weight) - 1} "
                "only; cut the input, lower the search's max_length, or train with positions.length larger (or with "
                "sinusoidal positions)"
            ) from None
