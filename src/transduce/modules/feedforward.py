"""Feed-forward networks: the part of a Transformer layer that transforms each position alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, silu

from transduce.modules.dropout import Dropout
from transduce.modules.linear import projection

ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "relu": torch.relu,
    "gelu": gelu,
    "swish": silu,
    "sigmoid": torch.sigmoid,
}


class PlainFeedForward(nn.Module):
    """W2 act(W1 x): Vaswani et al. 2017, eq. 2."""

    def __init__(
        self, width: int, hidden: int, dropout: float, activation: Literal["relu", "gelu", "swish"] = "relu"
    ) -> None:
        super().__init__()
        self.widen = projection(width, hidden)
        # In place, to save memory: nothing else uses the input, and the backward pass needs only the output.
        self.activation = torch.relu_ if activation == "relu" else ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)
        self.narrow = projection(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.narrow(self.dropout(self.activation(self.widen(x))))
        return y


class GatedFeedForward(nn.Module):
    """W2 (act(W x) * V x): Shazeer 2020, eq. 5-6, with biases. Gives GLU (sigmoid), ReGLU, GEGLU and SwiGLU.

    It has three matrices instead of two. With 2/3 of the plain form's ``hidden`` it has as many parameters.
    """

    def __init__(
        self, width: int, hidden: int, dropout: float, activation: Literal["sigmoid", "relu", "gelu", "swish"] = "swish"
    ) -> None:
        super().__init__()
        self.widen = projection(width, hidden, 2)  # W, then V
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)
        self.narrow = projection(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.widen(x).chunk(2, -1)
        y: Tensor = self.narrow(self.dropout(self.activation(gate) * value))
        return y
