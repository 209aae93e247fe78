"""Dilated convolutions against loops over positions in float64, and how far a stack of them reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from drawn import spread
from transduce.core.types import Padded
from transduce.wings.dilation.mixers import CausalDilatedConvolution, DilatedConvolution

D, LENGTHS = 4, [9, 3, 1]
X = torch.randn(3, 9, D, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
ROWS = Padded(X, torch.tensor(LENGTHS))


def reference(ours: Any, xs: Any, first: int) -> list[Any]:
    """One row by the formula. A position s reads s + first, s + first + dilation, and so on."""
    ys = []
    for s in range(len(xs)):
        places = [s + first + k * ours.dilation for k in range(ours.kernel)]
        window = np.concatenate([xs[at] if 0 <= at < len(xs) else np.zeros(D) for at in places])
        a, b = np.split(ours.enter.weight.detach().numpy() @ window + ours.enter.bias.detach().numpy(), 2)
        gated = a / (1 + np.exp(-b))
        ys.append(ours.leave.weight.detach().numpy() @ gated + ours.leave.bias.detach().numpy())
    return ys


@pytest.mark.parametrize(("kernel", "dilation"), [(3, 1), (3, 2), (5, 3), (1, 4)])
@torch.no_grad()
def test_both_are_their_formula(kernel: int, dilation: int) -> None:
    centred = spread(DilatedConvolution(D, 1, 0.0, kernel, dilation))
    causal = spread(CausalDilatedConvolution(D, 1, 0.0, kernel, dilation))
    junk = Padded(X.masked_fill(~ROWS.mask[..., None], 7.0), ROWS.lengths)
    before = (kernel - 1) * dilation
    got, (steps, _) = centred(junk), causal(X, causal.start(3, X), torch.zeros(3, 9))
    for row, length in enumerate(LENGTHS):
        expected = np.stack(reference(centred, X[row, :length].numpy(), -before // 2))
        assert_close(got[row, :length].numpy(), expected)
        assert_close(steps[row].numpy(), np.stack(reference(causal, X[row].numpy(), -before)))


@pytest.mark.parametrize("length", [27, 28])
def test_a_dilation_that_grows_reads_log_k_layers(length: int) -> None:
    """Causal kernels of 3 with dilations 1, 3, 9 read 27 positions: three layers connect 27, and not 28."""
    torch.manual_seed(0)
    stack = [spread(CausalDilatedConvolution(D, 1, 0.0, 3, 3**layer)) for layer in range(3)]
    x = torch.randn(1, length, D, dtype=torch.float64, requires_grad=True)
    y: Any = x
    for layer in stack:
        y, _ = layer(y, layer.start(1, y), torch.zeros(1, length))
    (gradient,) = torch.autograd.grad(y[0, -1].sum(), x)
    assert bool((gradient[0, 0] != 0).any()) == (length <= 27)


@pytest.mark.parametrize(
    ("kind", "kernel", "dilation", "message"),
    [
        (DilatedConvolution, 4, 1, "kernel = 4: .* make it odd"),
        (CausalDilatedConvolution, 0, 1, "kernel = 0"),
        (DilatedConvolution, 3, 0, "dilation = 0: the positions"),
    ],
)
def test_impossible_kernels_are_refused(kind: type[nn.Module], kernel: int, dilation: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(D, 1, 0.0, kernel, dilation)
