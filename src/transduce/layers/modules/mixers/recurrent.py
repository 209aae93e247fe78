"""Recurrence instead of self-attention, as a mixer.

It ignores ``heads`` and ``dropout``: it has no heads, and the residual connection around it applies dropout.
"""

from __future__ import annotations

from torch import Tensor, nn

from transduce.core.protocols import AnyCell, Cell, S
from transduce.core.types import Factory, Padded
from transduce.layers.modules.linear import projection
from transduce.layers.modules.recurrent import RecurrentLayer


class Recurrence(nn.Module):
    """A mixer for encoders: one recurrent cell in each direction. Their outputs are concatenated and projected back to
    [B, S, width].

    These are the layers of Chen et al. 2018 (RNMT+).
    """

    def __init__(self, width: int, heads: int, dropout: float, cell: Factory[Cell[S]]) -> None:
        super().__init__()
        self.cells = RecurrentLayer(*(cell(input_width=width, width=width) for _ in range(2)))
        self.out = projection(2 * width, width)

    def forward(self, x: Padded) -> Tensor:
        y_BSE, _ = self.cells.unroll(x.values, x.lengths)
        y_BSD: Tensor = self.out(y_BSE)
        return y_BSD


class CausalRecurrence(nn.Module):
    """A mixer for decoders: one recurrent cell that runs from the first position to the last. Its state does not grow
    with the output. The cell ``ssru`` gives the mixer of the decoder of Kim et al. 2019. A call does not use
    ``places_BT``.
    """

    def __init__(self, width: int, heads: int, dropout: float, cell: Factory[Cell[S]]) -> None:
        super().__init__()
        self.cell: AnyCell = cell(input_width=width, width=width)

    def start(self, rows: int, like: Tensor) -> object:
        return self.cell.start(rows, like)

    def forward(self, x_BTD: Tensor, state: object, places_BT: Tensor) -> tuple[Tensor, object]:
        return self.cell.unroll(x_BTD, state)
