"""Linear layers as they start."""

from __future__ import annotations

from torch import nn


def projection(inputs: int, outputs: int, parts: int = 1, bias: bool = True) -> nn.Linear:
    """A linear layer of ``parts`` stacked matrices, each with Glorot's uniform initialisation, biases 0."""
    linear = nn.Linear(inputs, parts * outputs, bias)
    for part in linear.weight.data.chunk(parts):
        nn.init.xavier_uniform_(part)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear
