"""The recurrent cells against torch's layers and against their formulas in NumPy, all in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from transduce.core import tree
from transduce.layers.modules.cells import lstm
from transduce.layers.modules.cells.gru import GRU
from transduce.layers.modules.cells.lstm import LSTM

ORACLES = {LSTM: nn.LSTM, GRU: nn.GRU}
ROWS, POSITIONS, INPUTS, WIDTH = 3, 5, 4, 6
LENGTHS = torch.tensor([3, 5, 1])


@pytest.fixture(params=ORACLES, ids=lambda cell: cell.__name__)
def cell(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(0)
    cell = request.param(INPUTS, WIDTH).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.uniform_(-0.7, 0.7)  # no bias is zero, so that none can be forgotten
    return cell


@pytest.fixture
def inputs() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(ROWS, POSITIONS, INPUTS, dtype=torch.float64)


def some_state(cell: Any) -> Any:
    torch.manual_seed(2)
    return tree.map(torch.randn_like, cell.start(ROWS, torch.zeros(1, dtype=torch.float64)))


def oracle_of(cell: Any) -> Any:
    oracle = ORACLES[type(cell)](INPUTS, WIDTH, batch_first=True).double()
    oracle.load_state_dict(cell.fused.state_dict())
    return oracle


def weighted(y: torch.Tensor, state: Any) -> torch.Tensor:
    """A scalar for gradients: a sum of all outputs and states with a different weight for each number."""
    total = torch.zeros((), dtype=y.dtype)
    for leaf in (y, *tree.leaves(state)):
        total = total + (leaf * torch.arange(1.0, leaf.numel() + 1, dtype=leaf.dtype).view_as(leaf).cos()).sum()
    return total


@pytest.mark.parametrize("lengths", [None, LENGTHS, torch.full((ROWS,), POSITIONS)], ids=["none", "ragged", "equal"])
def test_unroll_is_torchs_layer(cell: Any, inputs: torch.Tensor, lengths: torch.Tensor | None) -> None:
    oracle, state = oracle_of(cell), some_state(cell)
    y, after = cell.unroll(inputs, state, lengths)
    before = tree.map(lambda leaf: leaf[None], state)
    if lengths is None:
        expected, expected_after = oracle(inputs, before)
    else:
        packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        packed, expected_after = oracle(packed, before)
        expected, _ = pad_packed_sequence(packed, batch_first=True)
    expected_after = tree.map(lambda leaf: leaf[0], expected_after)
    assert_close(y, expected)
    assert_close(after, expected_after)
    weighted(y, after).backward()
    weighted(expected, expected_after).backward()
    for name, parameter in oracle.named_parameters():
        assert_close(cell.fused.get_parameter(name).grad, parameter.grad, msg=name)


def test_a_row_stops_at_its_length(cell: Any, inputs: torch.Tensor) -> None:
    y, state = cell.unroll(inputs, some_state(cell), LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        start = tree.select(some_state(cell), torch.tensor([row]))
        alone, last = cell.unroll(inputs[row : row + 1, :length], start)
        assert_close(y[row : row + 1, :length], alone)
        assert_close(tree.select(state, torch.tensor([row])), last)
        assert_close(cell.output(last), alone[:, -1])
        assert not y[row, length:].any()


def test_steps_after_projection_are_unroll(cell: Any, inputs: torch.Tensor) -> None:
    whole, after = cell.unroll(inputs, some_state(cell))
    projected = cell.project(inputs)
    assert projected.shape == (ROWS, POSITIONS, cell.projected_width)
    state, outputs = some_state(cell), []
    for t in range(POSITIONS):
        y, state = cell.step(projected[:, t], state)
        assert cell.output(state) is y
        outputs.append(y)
    assert_close(torch.stack(outputs, 1), whole)
    assert_close(state, after)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def numbers(cell: Any) -> tuple[np.ndarray, ...]:
    fused = cell.fused
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    return tuple(fused.get_parameter(name).detach().numpy() for name in names)


def test_the_lstm_is_its_formula(inputs: torch.Tensor) -> None:
    cell = LSTM(INPUTS, WIDTH).double()
    h, c = some_state(cell)
    y, (h_after, c_after) = cell.step(cell.project(inputs[:, 0]), (h, c))
    W, U, b, b_hidden = numbers(cell)
    gates = inputs[:, 0].numpy() @ W.T + h.numpy() @ U.T + b + b_hidden
    i, f, g, o = (gates[:, k * WIDTH : (k + 1) * WIDTH] for k in range(4))
    expected_c = sigmoid(f) * c.numpy() + sigmoid(i) * np.tanh(g)
    assert_close(c_after, torch.tensor(expected_c))
    assert_close(h_after, torch.tensor(sigmoid(o) * np.tanh(expected_c)))
    assert_close(y, h_after)


def test_the_gru_is_its_formula(inputs: torch.Tensor) -> None:
    cell = GRU(INPUTS, WIDTH).double()
    h = some_state(cell)
    y, h_after = cell.step(cell.project(inputs[:, 0]), h)
    W, U, b, b_hidden = numbers(cell)
    x, u = inputs[:, 0].numpy() @ W.T + b, h.numpy() @ U.T + b_hidden
    r, z = (sigmoid((x + u)[:, k * WIDTH : (k + 1) * WIDTH]) for k in range(2))
    n = np.tanh(x[:, 2 * WIDTH :] + r * u[:, 2 * WIDTH :])
    assert_close(h_after, torch.tensor((1 - z) * n + z * h.numpy()))
    assert_close(y, h_after)


@pytest.mark.parametrize("forget_bias", [1.0, 0.0, 2.5])
def test_the_forget_gate_starts_at_its_bias(forget_bias: float) -> None:
    cell = LSTM(INPUTS, WIDTH, forget_bias)
    i, f, g, o = cell.project(torch.zeros(1, INPUTS)).chunk(4, 1)
    assert_close(f, torch.full_like(f, forget_bias))
    assert not torch.cat([i, g, o]).any()


def test_the_first_state_is_zeros_like_the_tensor_given(cell: Any) -> None:
    state = cell.start(2, torch.ones(1, dtype=torch.float16))
    assert all(leaf.shape == (2, WIDTH) and leaf.dtype == torch.float16 for leaf in tree.leaves(state))
    assert not any(leaf.any() for leaf in tree.leaves(state))


@pytest.mark.parametrize("lengths", [None, torch.tensor([5, 3, 1])])
def test_an_lstm_trains_in_bfloat16_where_the_processor_has_no_kernel_for_it(
    lengths: torch.Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without such a kernel, the LSTM computes in float32, also under autocast."""
    monkeypatch.setattr(lstm, "has_wide_vectors", lambda: False)
    torch.manual_seed(0)
    cell, x = LSTM(4, 6), torch.randn(3, 5, 4)
    exact, _ = cell.unroll(x, cell.start(3, x), lengths)
    for given in (x, x.bfloat16()):
        with torch.autocast("cpu", torch.bfloat16):
            y, _ = cell.unroll(given, cell.start(3, given), lengths)
        y.float().sum().backward()
        assert_close(y.float(), exact, atol=0.02, rtol=0.02)
    assert cell.fused.weight_hh_l0.grad is not None
    for parameter in cell.parameters():  # as in a model that is loaded for use
        parameter.data = parameter.data.bfloat16() if parameter.ndim > 1 else parameter.data
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        y, _ = cell.unroll(x, cell.start(3, x), lengths)
    assert_close(y.float(), exact, atol=0.02, rtol=0.02)
