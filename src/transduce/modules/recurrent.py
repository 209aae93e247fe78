"""Cells above one another, and in both directions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from transduce.modules.dropout import Dropout
from transduce.modules.module_list import module_list
from transduce.types import Cell, Factory

State = tuple[Any, ...]  # one tree per layer


class Stack(nn.Module):
    """Cells above one another, each reading the one below; dropout between them (Zaremba et al. 2014)."""

    def __init__(self, cell: Factory[Cell[Any]], input_width: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers = {layers}: a recurrent network has at least one")
        widths = [input_width] + [width] * (layers - 1)
        self.cells = module_list(cell(input_width=below, width=width) for below in widths)
        self.dropout = Dropout(dropout)

    @property
    def first(self) -> Cell[Any]:
        return self.cells[0]

    def start(self, rows: int, like: Tensor) -> State:
        return tuple(cell.start(rows, like) for cell in self.cells)

    def output(self, state: State) -> Tensor:
        return self.cells[-1].output(state[-1])

    def step(self, projected_BG: Tensor, state: State) -> tuple[Tensor, State]:
        """One position, given what the first cell has projected of it."""
        cells = iter(self.cells)
        y_BW, now = next(cells).step(projected_BG, state[0])
        after = [now]
        for cell, before in zip(cells, state[1:], strict=True):
            y_BW, now = cell.step(cell.project(self.dropout(y_BW)), before)
            after.append(now)
        return y_BW, tuple(after)

    def unroll(self, x_BTD: Tensor, state: State) -> tuple[Tensor, State]:
        """All positions, layer by layer."""
        after: list[Any] = []
        for cell, before in zip(self.cells, state, strict=True):
            x_BTD, now = cell.unroll(self.dropout(x_BTD) if after else x_BTD, before)
            after.append(now)
        return x_BTD, tuple(after)


class Bidirectional(nn.Module):
    """One layer of two cells, one reading each row from its end; outputs [B, S, 2 width] side by side (Schuster and
    Paliwal 1997)."""

    def __init__(self, cell: Factory[Cell[Any]], input_width: int, width: int) -> None:
        super().__init__()
        self.forward_cell: Any = cell(input_width=input_width, width=width)
        self.backward_cell: Any = cell(input_width=input_width, width=width)

    def unroll(self, x_BSD: Tensor, lengths_B: Tensor) -> tuple[Tensor, State]:
        rows = x_BSD.shape[0]
        forth_BSW, forth = self.forward_cell.unroll(x_BSD, self.forward_cell.start(rows, x_BSD), lengths_B)
        turned_BSD = reverse(x_BSD, lengths_B)
        back_BSW, back = self.backward_cell.unroll(turned_BSD, self.backward_cell.start(rows, x_BSD), lengths_B)
        return torch.cat([forth_BSW, reverse(back_BSW, lengths_B)], -1), (forth, back)


class Unidirectional(nn.Module):
    """One layer of one cell, of the shape of ``Bidirectional``."""

    def __init__(self, cell: Factory[Cell[Any]], input_width: int, width: int) -> None:
        super().__init__()
        self.forward_cell: Any = cell(input_width=input_width, width=width)

    def unroll(self, x_BSD: Tensor, lengths_B: Tensor) -> tuple[Tensor, State]:
        start = self.forward_cell.start(x_BSD.shape[0], x_BSD)
        y_BSW, state = self.forward_cell.unroll(x_BSD, start, lengths_B)
        return y_BSW, (state,)


def reverse(x_BSD: Tensor, lengths_B: Tensor) -> Tensor:
    """Each row's real positions in reverse order, the padding where it was."""
    places_S = torch.arange(x_BSD.shape[1], device=x_BSD.device)
    mirrored_BS = lengths_B[:, None] - 1 - places_S
    index_BS = torch.where(mirrored_BS >= 0, mirrored_BS, places_S)
    return x_BSD.gather(1, index_BS[..., None].expand_as(x_BSD))
