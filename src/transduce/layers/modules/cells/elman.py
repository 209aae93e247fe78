"""The simple recurrent network."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.layers.modules.cells.looped import HiddenCell, recurrence


class Elman(HiddenCell):
    """The simple recurrent network (Elman 1990): h' = activation(W x + U h + b), with the input x and the state h. The
    ``activation`` is "tanh" or the original "sigmoid". Raises UserError for another one.
    """

    gate_names = ()

    def __init__(self, input_width: int, width: int, activation: Literal["tanh", "sigmoid"] = "tanh") -> None:
        super().__init__(input_width, width, parts=1)
        if activation not in ("tanh", "sigmoid"):
            raise UserError(f'activation = "{activation}": expected "tanh" or "sigmoid"')
        self.activation = torch.tanh if activation == "tanh" else torch.sigmoid
        self.recurrent = recurrence(width)

    def advance(self, projected_BW: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = self.activation(projected_BW + self.recurrent(h))
        return h, h
