"""Layers of recurrent cells: stacked, and in one or both directions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import AnyCell, Cell, S
from transduce.core.types import Factory
from transduce.layers.modules import module_list
from transduce.layers.modules.dropout import Dropout

State = tuple[object, ...]  # one tree per layer


class Stack(nn.Module):
    """A stack of recurrent cells: each reads the output of the cell below, after dropout (Zaremba et al. 2014). The
    lowest one reads the input.

    ``residual`` adds the input of each cell but the lowest, before dropout, to its output (Wu et al. 2016, section
    3.1). The state has one tree per cell, the lowest first. Raises UserError for less than one layer.
    """

    def __init__(
        self, cell: Factory[Cell[S]], input_width: int, width: int, layers: int, dropout: float, residual: bool = False
    ) -> None:
        super().__init__()
        if layers < 1:
            raise UserError(f"layers = {layers}: a recurrent network has at least one")
        self.width = width
        widths = [input_width] + [width] * (layers - 1)
        self.cells: Sequence[AnyCell] = module_list(cell(input_width=below, width=width) for below in widths)
        self.dropout = Dropout(dropout)
        self.residual = residual

    @property
    def first(self) -> AnyCell:
        return self.cells[0]

    def start(self, rows: int, like: Tensor) -> State:
        return tuple(cell.start(rows, like) for cell in self.cells)

    def output(self, state: State) -> Tensor:
        if not self.residual:
            return self.cells[-1].output(state[-1])
        outputs = [cell.output(one) for cell, one in zip(self.cells, state, strict=True)]
        return torch.stack(outputs).sum(0)

    def step(self, projected_BG: Tensor, state: State) -> tuple[Tensor, State]:
        """Advances all cells by one position. ``projected_BG`` is the lowest cell's projection of the input. Returns
        the output of the stack [B, width] and the next state. The output is the output of the highest cell. If
        ``residual`` is True, it is the sum of all cells' outputs.
        """
        cells = iter(self.cells)
        y_BW, now = next(cells).step(projected_BG, state[0])
        after = [now]
        for cell, before in zip(cells, state[1:], strict=True):
            above_BW, now = cell.step(cell.project(self.dropout(y_BW)), before)
            y_BW = y_BW + above_BW if self.residual else above_BW
            after.append(now)
        return y_BW, tuple(after)

    def unroll(self, x_BTD: Tensor, state: State) -> tuple[Tensor, State]:
        """Runs over all T positions of ``x_BTD``, one cell after the other: no position is padding. Returns the outputs
        of the stack [B, T, width], as ``step`` does for one position, and the state after the last position.
        """
        cells = iter(self.cells)
        y_BTW, now = next(cells).unroll(x_BTD, state[0])
        after = [now]
        for cell, before in zip(cells, state[1:], strict=True):
            above_BTW, now = cell.unroll(self.dropout(y_BTW), before)
            y_BTW = y_BTW + above_BTW if self.residual else above_BTW
            after.append(now)
        return y_BTW, tuple(after)


class RecurrentLayer(nn.Module):
    """One layer of an encoder: a forward cell, a backward cell, or both (Schuster and Paliwal 1997). One of them, or
    both, must be given.

    ``unroll`` returns the outputs [B, S, E], zeros at padding, and a tuple with the last state of each cell. If there
    are both cells, their outputs at each position are concatenated. The forward cell comes first in outputs and states.
    Its last state has just read the last real position. The backward cell's last state has just read the first one
    (Sutskever et al. 2014).
    """

    def __init__(self, forward_cell: Cell[S] | None, backward_cell: Cell[S] | None) -> None:
        super().__init__()
        self.forward_cell: AnyCell | None = forward_cell
        self.backward_cell: AnyCell | None = backward_cell

    def start(self, rows: int, like: Tensor) -> State:
        cells = (cell for cell in (self.forward_cell, self.backward_cell) if cell is not None)
        return tuple(cell.start(rows, like) for cell in cells)

    def unroll(self, x_BSD: Tensor, lengths_B: Tensor) -> tuple[Tensor, State]:
        rows, outputs, states = x_BSD.shape[0], [], []
        if self.forward_cell is not None:
            y_BSW, state = self.forward_cell.unroll(x_BSD, self.forward_cell.start(rows, x_BSD), lengths_B)
            outputs.append(y_BSW)
            states.append(state)
        if self.backward_cell is not None:
            turned_BSD = reverse(x_BSD, lengths_B)
            y_BSW, state = self.backward_cell.unroll(turned_BSD, self.backward_cell.start(rows, x_BSD), lengths_B)
            outputs.append(reverse(y_BSW, lengths_B))
            states.append(state)
        return torch.cat(outputs, -1), tuple(states)


def reverse(x_BSD: Tensor, lengths_B: Tensor) -> Tensor:
    """[B, S, D]: a copy of x with the order of each row's real positions reversed. Padding stays at the end."""
    places_S = torch.arange(x_BSD.shape[1], device=x_BSD.device)
    mirrored_BS = lengths_B[:, None] - 1 - places_S
    index_BS = torch.where(mirrored_BS >= 0, mirrored_BS, places_S)
    return x_BSD.gather(1, index_BS[..., None].expand_as(x_BSD))
