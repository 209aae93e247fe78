"""Convolutional encoders for any decoder, against loops over rows, positions and features in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from drawn import spread
from transduce.core.types import Padded
from transduce.layers.encoders.multikernel import MultiKernelEncoder
from transduce.layers.modules.convolution import convolve_each

WORDS, D = 11, 6
ROWS = [[4, 5, 6, 7, 8, 9, 10, 4, 2], [9, 3, 2], [5, 2], [2]]
SOURCE = Padded(torch.tensor([row + [7] * (9 - len(row)) for row in ROWS]), torch.tensor([9, 3, 2, 1]))
Array = Any


def numbers(tensor: torch.Tensor) -> Array:
    return tensor.detach().numpy()


def embed(ours: Any, ids: list[int]) -> list[Array]:
    return [numbers(ours.embedding.weight)[word] * np.sqrt(D) for word in ids]


@pytest.mark.parametrize("positions", [7, 3])
def test_each_feature_is_convolved_by_itself(positions: int) -> None:
    x, weight = torch.randn(2, positions, 4, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    expected = torch.zeros(2, positions - 2, 4, dtype=torch.float64)
    for t in range(positions - 2):
        for j in range(3):
            expected[:, t] += x[:, t + j] * weight[:, j]
    assert_close(convolve_each(x, weight), expected)


# ---------------------------------------------------------------- multi-kernel


def layer_norm(norm: Any, x: Array) -> Array:
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * numbers(norm.weight) + numbers(norm.bias)


def convolution(layer: Any, xs: list[Array], s: int) -> Array:
    """Position s of a centred convolution, with zeros beyond the ends."""
    weight, reach = numbers(layer.weight), layer.kernel // 2
    total = np.zeros(D)
    for j in range(-reach, reach + 1):
        if 0 <= s + j < len(xs):
            total += weight[:, :, j + reach] @ xs[s + j]
    return total * numbers(layer.gain) / np.sqrt((weight**2).sum((1, 2))) + numbers(layer.bias)


def multi_kernel(ours: Any, ids: list[int]) -> Array:
    xs = embed(ours, ids)
    for layer in ours.layers:
        seen, after = [layer_norm(layer.norm, x) for x in xs], []
        for s, x in enumerate(xs):
            read = np.concatenate([convolution(one, seen, s) for one in layer.convolutions])
            after.append(x + numbers(layer.merge.weight) @ np.maximum(read, 0) + numbers(layer.merge.bias))
        xs = after
    return np.stack([layer_norm(ours.norm, x) for x in xs])


@pytest.mark.parametrize("kernels", [(3, 5, 11), (1,), (7, 3)])
def test_multi_kernel_is_its_formula(kernels: tuple[int, ...]) -> None:
    ours = spread(MultiKernelEncoder(WORDS, kernels, D))
    memory = ours(SOURCE)
    for row, ids in enumerate(ROWS):
        expected = torch.tensor(multi_kernel(ours, ids))
        assert_close(memory.states.values[row, : len(ids)], expected)
        assert_close(memory.summary[0][row], expected.mean(0))


@pytest.mark.parametrize(("kernels", "message"), [((), "at least one kernel"), ((3, 4), "kernel = 4: .*make it odd")])
def test_multi_kernel_refuses(kernels: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MultiKernelEncoder(WORDS, kernels)


# -------------------------------------------------------- sentence convolution
