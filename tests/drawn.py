"""Models for tests with numbers that hide nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def spread(module: nn.Module) -> Any:
    """The module in float64 and for evaluation, every parameter drawn anew, biases and norms too: at their initial
    zeros and ones they would hide mistakes."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(-0.8, 0.8)
    return module.double().eval()
