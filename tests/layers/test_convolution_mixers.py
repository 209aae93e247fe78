"""Lightweight and dynamic convolutions and the lambda layer, against loops over positions and heads in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from drawn import spread
from transduce.core.types import Padded
from transduce.layers.modules.convolution import band, convolve_at
from transduce.layers.modules.mixers.convolution import (
    CausalDynamicConvolution,
    CausalLightweightConvolution,
    DynamicConvolution,
    LightweightConvolution,
)
from transduce.layers.modules.mixers.lambdas import LambdaLayer

D, HEADS, LENGTHS = 6, 3, [7, 3, 1]
X = torch.randn(3, 7, D, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
ROWS = Padded(X, torch.tensor(LENGTHS))
PLACES = torch.arange(7).expand(3, 7)
CENTRED = pytest.mark.parametrize("kind", [LightweightConvolution, DynamicConvolution])
CAUSAL = pytest.mark.parametrize("kind", [CausalLightweightConvolution, CausalDynamicConvolution])
EVERY = pytest.mark.parametrize(
    "kind",
    [
        LightweightConvolution,
        DynamicConvolution,
        CausalLightweightConvolution,
        CausalDynamicConvolution,
        LambdaLayer,
    ],
)
Array = Any


def numbers(tensor: torch.Tensor) -> Array:
    return tensor.detach().numpy()


def linear(layer: Any, x: Array) -> Array:
    return numbers(layer.weight) @ x + (0 if layer.bias is None else numbers(layer.bias))


def softmax(x: Array) -> Array:
    return np.exp(x) / np.exp(x).sum()


def test_a_band_has_each_positions_weights_where_they_are_for() -> None:
    weight, expected = torch.randn(2, 3, 4, 5), torch.zeros(2, 3, 4, 8)
    for t in range(4):
        for k in range(5):
            expected[:, :, t, t + k] = weight[:, :, t, k]
    assert_close(band(weight), expected)


def test_long_rows_are_convolved_in_blocks() -> None:
    x, weight = torch.randn(2, 1, 304, 4, dtype=torch.float64), torch.randn(2, 3, 300, 5, dtype=torch.float64)
    assert_close(convolve_at(x, weight), torch.matmul(band(weight), x))


# ------------------------------------------------------------------ convolution


def kernels_at(kernels: Any, now: Array) -> Array:
    """The kernel weights [H, K] at a position. Dynamic weights depend on the position."""
    if hasattr(kernels, "predict"):
        return np.stack([softmax(head) for head in np.split(linear(kernels.predict, now), HEADS)])
    return np.stack([softmax(head) for head in numbers(kernels.weight)])


def convolved(ours: Any, xs: Array, kernel: int, before: int) -> list[Array]:
    """Convolves one row. A position reads ``kernel`` positions, and ``before`` of them are to its left."""
    halves = [np.split(linear(ours.enter, x), 2) for x in xs]
    opened = [a / (1 + np.exp(-b)) for a, b in halves]
    ys = []
    for s, now in enumerate(opened):
        weights, y = kernels_at(ours.kernels, now), np.zeros(D)
        for d in range(D):
            for k in range(kernel):
                place = s - before + k
                if 0 <= place < len(opened):
                    y[d] += weights[d // (D // HEADS), k] * opened[place][d]
        ys.append(linear(ours.leave, y))
    return ys


@CENTRED
@pytest.mark.parametrize("kernel", [1, 3, 9])
def test_centred_is_its_formula_position_by_position(kind: Any, kernel: int) -> None:
    ours = spread(kind(D, HEADS, 0.1, kernel))
    y = ours(ROWS)
    for row, length in enumerate(LENGTHS):
        expected = convolved(ours, numbers(X[row, :length]), kernel, kernel // 2)
        assert_close(y[row, :length], torch.tensor(np.stack(expected)))


@CAUSAL
@pytest.mark.parametrize("kernel", [1, 4, 9])
def test_causal_is_its_formula_at_once_and_step_by_step(kind: Any, kernel: int) -> None:
    ours = spread(kind(D, HEADS, 0.1, kernel))
    expected = torch.tensor(np.stack([convolved(ours, numbers(row), kernel, kernel - 1) for row in X]))
    start = ours.start(3, X)
    whole, after = ours(X, start, PLACES)
    assert_close(whole, expected)
    state, steps = start, []
    for t in range(7):
        y, state = ours(X[:, t : t + 1], state, PLACES[:, t : t + 1])
        steps.append(y)
    assert_close(torch.cat(steps, 1), expected)
    assert_close(state, after)
    assert state.shape == (3, kernel - 1, D)


@EVERY
def test_dropout_has_a_part_while_training(kind: Any) -> None:
    ours = spread(kind(D, HEADS, 0.5))
    torch.manual_seed(1)
    arguments = (X, ours.start(3, X), PLACES) if hasattr(ours, "start") else (ROWS,)
    still, moved = ours(*arguments), ours.train()(*arguments)
    still, moved = (y[0] if isinstance(y, tuple) else y for y in (still, moved))
    assert not torch.allclose(still, moved)


# ----------------------------------------------------------------- lambda layer


def layer_norm(norm: Any, x: Array) -> Array:
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * numbers(norm.weight) + numbers(norm.bias)


def lambdas(ours: LambdaLayer, xs: Array, width: int, window: int) -> list[Array]:
    """Eq. 1-2 for one row. Each position has a matrix, which is applied to the query of each head."""
    project, distance, reach = numbers(ours.project.weight), numbers(ours.distance_KD), window // 2
    queries, keys, values = (part @ xs.T for part in np.split(project, [HEADS * width, (HEADS + 1) * width]))
    values = np.stack([layer_norm(ours.value_norm, v) for v in values.T])
    shares = np.stack([softmax(key) for key in keys])  # over positions, for each feature
    content = sum(np.outer(shares[:, m], values[m]) for m in range(len(xs)))
    ys = []
    for s in range(len(xs)):
        near = [m for m in range(len(xs)) if abs(m - s) <= reach]
        function = content + sum(np.outer(distance[m - s + reach], values[m]) for m in near)
        heads = [layer_norm(ours.query_norm, q) for q in np.split(queries[:, s], HEADS)]
        ys.append(linear(ours.out, np.concatenate([function.T @ q for q in heads])))
    return ys


@pytest.mark.parametrize(("width", "window"), [(4, 3), (2, 1), (5, 23)])
def test_lambda_layer_is_its_formula_lambda_by_lambda(width: int, window: int) -> None:
    ours = spread(LambdaLayer(D, HEADS, 0.1, width, window))
    y = ours(ROWS)
    for row, length in enumerate(LENGTHS):
        expected = lambdas(ours, numbers(X[row, :length]), width, window)
        assert_close(y[row, :length], torch.tensor(np.stack(expected)))


def test_lambda_layer_starts_at_the_scale_of_its_input() -> None:
    torch.manual_seed(0)
    ours = LambdaLayer(64, 4, 0.0)
    y = ours(Padded(torch.randn(8, 40, 64), torch.full((8,), 40)))
    assert 0.4 < y.std().item() < 2.0


# -------------------------------------------------------------------- bad input


@EVERY
def test_heads_divide_the_width(kind: Any) -> None:
    with pytest.raises(ValueError, match="width = 6 does not divide into heads = 4"):
        kind(6, 4, 0.1)


@CENTRED
def test_an_even_kernel_has_no_centre(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"kernel = 4: .*make it odd"):
        kind(D, HEADS, 0.1, 4)


@CAUSAL
def test_a_kernel_reads_something(kind: Any) -> None:
    with pytest.raises(ValueError, match="kernel = 0: a convolution reads at least one position"):
        kind(D, HEADS, 0.1, 0)


def test_an_even_window_has_no_centre() -> None:
    with pytest.raises(ValueError, match=r"window = 4: .*make it odd"):
        LambdaLayer(D, HEADS, 0.1, window=4)
