"""The three best cells of an evolutionary search over ten thousand (Jozefowicz et al. 2015).

MUT1 and MUT2 add the input x itself to vectors of the cell's width. If x has another width, V x takes its place. V is a
learned matrix. With V, MUT2 has the form of a GRU with the reset gate before the product.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.layers.modules.cells.looped import HiddenCell, recurrence
from transduce.layers.modules.linear import projection


def bare(input_width: int, width: int) -> nn.Module:
    """The identity if the widths are equal, otherwise a new linear layer V from ``input_width`` to ``width``, without
    a bias.
    """
    if input_width == width:
        return nn.Identity()
    return projection(input_width, width, bias=False)


class MUT1(HiddenCell):
    """The first of the three best cells of an evolutionary search (Jozefowicz et al. 2015):

    z = sigmoid(W x + b), r = sigmoid(W x + U h + b); h' = z tanh(U (r h) + tanh(x) + b) + (1 - z) h.

    x is the input and h the state. tanh(x) becomes tanh(V x) if x has another width than the cell.
    """

    gate_names = ("update", "reset")  # in the order of a step's sigmoids

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width, parts=2)
        self.projected_width = 3 * width
        self.bare = bare(input_width, width)
        self.reset = recurrence(width)
        self.new = recurrence(width, bias=True)

    def project(self, x_BTD: Tensor) -> Tensor:
        return torch.cat([self.input(x_BTD), self.bare(x_BTD)], -1)

    def prepare(self, projected: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z, r, x = projected.chunk(3, -1)
        return torch.sigmoid(z), r, torch.tanh(x)

    def advance(self, prepared: tuple[Tensor, Tensor, Tensor], h: Tensor) -> tuple[Tensor, Tensor]:
        z, r, x = prepared
        r = torch.sigmoid(r + self.reset(h))
        h = h + z * (torch.tanh(self.new(r * h) + x) - h)
        return h, h


class MUT2(HiddenCell):
    """The second of the three best cells of an evolutionary search (Jozefowicz et al. 2015):

    z = sigmoid(W x + U h + b), r = sigmoid(x + U h + b); h' = z tanh(U (r h) + W x + b) + (1 - z) h.

    x is the input and h the state. x in r becomes V x if x has another width than the cell.
    """

    gate_names = ("update", "reset")  # in the order of a step's sigmoids

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width, parts=2)
        self.projected_width = 3 * width
        self.bare = bare(input_width, width)
        self.reset_bias = nn.Parameter(torch.zeros(width))
        self.gates = recurrence(width, 2)
        self.new = recurrence(width)

    def project(self, x_BTD: Tensor) -> Tensor:
        return torch.cat([self.input(x_BTD), self.bare(x_BTD)], -1)

    def prepare(self, projected: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z, n, x = projected.chunk(3, -1)
        return z, n, x + self.reset_bias

    def advance(self, prepared: tuple[Tensor, Tensor, Tensor], h: Tensor) -> tuple[Tensor, Tensor]:
        z, n, r = prepared
        hidden_z, hidden_r = self.gates(h).chunk(2, 1)
        z, r = torch.sigmoid(z + hidden_z), torch.sigmoid(r + hidden_r)
        h = h + z * (torch.tanh(self.new(r * h) + n) - h)
        return h, h


class MUT3(HiddenCell):
    """The third of the three best cells of an evolutionary search (Jozefowicz et al. 2015):

    z = sigmoid(W x + U tanh(h) + b), r = sigmoid(W x + U h + b); h' = z tanh(U (r h) + W x + b) + (1 - z) h. x is the
    input and h the state.
    """

    gate_names = ("update", "reset")  # in the order of a step's sigmoids

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width, parts=3)
        self.update = recurrence(width)
        self.reset = recurrence(width)
        self.new = recurrence(width)

    def advance(self, projected_BG: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        z, r, n = projected_BG.chunk(3, 1)
        z, r = torch.sigmoid(z + self.update(torch.tanh(h))), torch.sigmoid(r + self.reset(h))
        h = h + z * (torch.tanh(self.new(r * h) + n) - h)
        return h, h
