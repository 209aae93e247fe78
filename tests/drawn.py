"""Random parameters for tests of modules. They do not hide mistakes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def spread(module: nn.Module) -> Any:
    """Returns the module in float64 and evaluation mode, with random parameters. Biases and norms are random too: their
    initial zeros and ones would hide mistakes.
    """
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(-0.8, 0.8)
    return module.double().eval()
