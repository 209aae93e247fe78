"""Feed-forward networks: the part of a Transformer layer that transforms each position alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, silu

from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.linear import projection

ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "relu": torch.relu,
    "gelu": gelu,
    "swish": silu,
    "sigmoid": torch.sigmoid,
}


class PlainFeedForward(nn.Module):
    """The feed-forward network of a Transformer layer: W2 act(W1 x + b1) + b2, with dropout before W2 (Vaswani et al.
    2017, eq. 2). Maps [..., width] to the same shape. ``hidden`` is the width of W1 x.
    """

    def __init__(
        self, width: int, hidden: int, dropout: float, activation: Literal["relu", "gelu", "swish"] = "relu"
    ) -> None:
        super().__init__()
        self.widen = projection(width, hidden)
        self.activation = None if activation == "relu" else ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)
        self.narrow = projection(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.widen(x)  # nothing else uses it: ReLU may change it in place
        hidden = self.dropout.of_relu(wide) if self.activation is None else self.dropout(self.activation(wide))
        y: Tensor = self.narrow(hidden)
        return y


class GatedFeedForward(nn.Module):
    """A feed-forward network with a gate: W2 (act(W x) * V x), where * is elementwise (Shazeer 2020, eq. 5-6), with
    biases, and dropout before W2. Maps [..., width] to the same shape.

    The activation "sigmoid" gives GLU, "relu" ReGLU, "gelu" GEGLU and "swish" SwiGLU. There are three matrices instead
    of two. A ``hidden`` of 2/3 of the plain form's gives about as many parameters.
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
