"""Cells that are written out step by step, against their papers' formulas, gate by gate and row by row, in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from test_cells import weighted
from torch import Tensor, nn
from torch.testing import assert_close

from transduce.core import tree
from transduce.layers.modules.cells.elman import Elman
from transduce.layers.modules.cells.gru import GRU, GRUResetBefore
from transduce.layers.modules.cells.layernorm import LayerNormGRU, LayerNormLSTM
from transduce.layers.modules.cells.looped import recurrence
from transduce.layers.modules.cells.lstm import LSTM, LSTMWithout, PeepholeLSTM
from transduce.layers.modules.cells.mut import MUT1, MUT2, MUT3
from transduce.layers.modules.cells.ssru import SSRU

ROWS, POSITIONS, INPUTS, WIDTH = 3, 5, 4, 6
LENGTHS = torch.tensor([3, 5, 1])
sigmoid, tanh = torch.sigmoid, torch.tanh

# ------------------------------------------------ the formulas: one row x [D], h [W] (or h, c), a cell's own weights


def rows_of(linear: nn.Linear, parts: int) -> list[Callable[[Tensor], Tensor]]:
    """Splits a stacked linear layer into one function for each gate."""
    weights = linear.weight.split(linear.out_features // parts)
    if linear.bias is None:
        return [partial(torch.mv, weight) for weight in weights]
    biases = linear.bias.split(linear.out_features // parts)
    return [lambda v, W=W, b=b: W.mv(v) + b for W, b in zip(weights, biases, strict=True)]


def norm(v: Tensor, layer: nn.LayerNorm) -> Tensor:
    centred = v - v.mean()
    scaled = centred / (centred.square().mean() + 1e-5).sqrt() * layer.weight
    return scaled if layer.bias is None else scaled + layer.bias


def elman(cell: Any, x: Tensor, h: Tensor, activation: Callable[[Tensor], Tensor] = tanh) -> Tensor:
    (W,), (U,) = rows_of(cell.input, 1), rows_of(cell.recurrent, 1)
    return activation(W(x) + U(h))


def lstm_without(cell: Any, x: Tensor, state: Any, gate: str) -> Any:
    h, c = state
    W, U = rows_of(cell.input, 3), rows_of(cell.recurrent, 3)
    sums = [W[k](x) + U[k](h) for k in range(3)]
    g = tanh(sums[2])
    if gate == "forget":
        c = c + sigmoid(sums[0]) * g
        return sigmoid(sums[1]) * tanh(c), c
    if gate == "input":
        c = sigmoid(sums[0]) * c + g
        return sigmoid(sums[1]) * tanh(c), c
    c = sigmoid(sums[1]) * c + sigmoid(sums[0]) * g
    return tanh(c), c


def peephole(cell: Any, x: Tensor, state: Any) -> Any:
    h, c = state
    (Wi, Wf, Wg, Wo), (Ui, Uf, Ug, Uo) = rows_of(cell.input, 4), rows_of(cell.recurrent, 4)
    i = sigmoid(Wi(x) + Ui(h) + torch.diag(cell.peepholes[0]).mv(c))
    f = sigmoid(Wf(x) + Uf(h) + torch.diag(cell.peepholes[1]).mv(c))
    after = f * c + i * tanh(Wg(x) + Ug(h))
    o = sigmoid(Wo(x) + Uo(h) + torch.diag(cell.peepholes[2]).mv(after))
    return o * tanh(after), after


def gru_reset_before(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    (Wr, Wz, Wn), (Ur, Uz), (Un,) = rows_of(cell.input, 3), rows_of(cell.gates, 2), rows_of(cell.new, 1)
    r, z = sigmoid(Wr(x) + Ur(h)), sigmoid(Wz(x) + Uz(h))
    return z * h + (1 - z) * tanh(Wn(x) + Un(r * h))


def bare(cell: Any, x: Tensor) -> Tensor:
    return x if x.shape[0] == cell.width else cell.bare.weight.mv(x)


def mut1(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    (Wz, Wr), (Ur,), (Un,) = rows_of(cell.input, 2), rows_of(cell.reset, 1), rows_of(cell.new, 1)
    z, r = sigmoid(Wz(x)), sigmoid(Wr(x) + Ur(h))
    return tanh(Un(r * h) + tanh(bare(cell, x))) * z + h * (1 - z)


def mut2(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    (Wz, Wn), (Uz, Ur), (Un,) = rows_of(cell.input, 2), rows_of(cell.gates, 2), rows_of(cell.new, 1)
    z, r = sigmoid(Wz(x) + Uz(h)), sigmoid(bare(cell, x) + Ur(h) + cell.reset_bias)
    return tanh(Un(r * h) + Wn(x)) * z + h * (1 - z)


def mut3(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    Wz, Wr, Wn = rows_of(cell.input, 3)
    ((Uz,), (Ur,), (Un,)) = (rows_of(linear, 1) for linear in (cell.update, cell.reset, cell.new))
    z, r = sigmoid(Wz(x) + Uz(tanh(h))), sigmoid(Wr(x) + Ur(h))
    return tanh(Un(r * h) + Wn(x)) * z + h * (1 - z)


def lstm_layer_norm(cell: Any, x: Tensor, state: Any) -> Any:
    h, c = state
    sums = norm(cell.input.weight.mv(x), cell.input_norm) + norm(cell.recurrent.weight.mv(h), cell.recurrent_norm)
    i, f, g, o = sums.split(WIDTH)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(norm(c, cell.memory_norm)), c


def gru_layer_norm(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    W, U = cell.input.weight, cell.recurrent.weight
    gates = norm(W[: 2 * WIDTH].mv(x), cell.input_gates_norm) + norm(U[: 2 * WIDTH].mv(h), cell.gates_norm)
    z, r = sigmoid(gates).split(WIDTH)
    new = tanh(norm(W[2 * WIDTH :].mv(x), cell.input_new_norm) + r * norm(U[2 * WIDTH :].mv(h), cell.new_norm))
    return (1 - z) * h + z * new


def ssru(cell: Any, x: Tensor, c: Tensor) -> Tensor:
    Wf, Wx = rows_of(cell.input, 2)
    f = sigmoid(Wf(x) + cell.forget_bias)
    return f * c + (1 - f) * Wx(x)


FORMULAS: dict[str, tuple[Any, int, Any]] = {
    "elman": (Elman, INPUTS, elman),
    "elman, sigmoid": (partial(Elman, activation="sigmoid"), INPUTS, partial(elman, activation=sigmoid)),
    "lstm without f": (partial(LSTMWithout, gate="forget"), INPUTS, partial(lstm_without, gate="forget")),
    "lstm without i": (partial(LSTMWithout, gate="input"), INPUTS, partial(lstm_without, gate="input")),
    "lstm without o": (partial(LSTMWithout, gate="output"), INPUTS, partial(lstm_without, gate="output")),
    "lstm, peephole": (PeepholeLSTM, INPUTS, peephole),
    "lstm, layer norm": (LayerNormLSTM, INPUTS, lstm_layer_norm),
    "gru, reset before": (GRUResetBefore, INPUTS, gru_reset_before),
    "gru, layer norm": (LayerNormGRU, INPUTS, gru_layer_norm),
    "mut1": (MUT1, INPUTS, mut1),
    "mut1, bare x": (MUT1, WIDTH, mut1),
    "mut2": (MUT2, INPUTS, mut2),
    "mut2, bare x": (MUT2, WIDTH, mut2),
    "mut3": (MUT3, INPUTS, mut3),
    "ssru": (SSRU, INPUTS, ssru),
}
"""For each name: the class, the width of its input, and its formula."""


@pytest.fixture(params=FORMULAS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cell(name: str) -> Any:
    torch.manual_seed(0)
    constructor, inputs, _ = FORMULAS[name]
    cell = constructor(inputs, WIDTH).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.uniform_(-0.7, 0.7)  # no bias is zero, so that none can be forgotten
    return cell


@pytest.fixture
def x(name: str) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(ROWS, POSITIONS, FORMULAS[name][1], dtype=torch.float64)


def some_state(cell: Any) -> Any:
    torch.manual_seed(2)
    return tree.map(torch.randn_like, cell.start(ROWS, torch.zeros(1, dtype=torch.float64)))


def read(cell: Any, formula: Any, x: Tensor, length: int) -> tuple[Tensor, Any]:
    """Applies the formula to the steps of one row. Returns the outputs [length, W] and the last state."""
    outputs, state = [], some_state(cell)
    state = tree.map(lambda leaf: leaf[0], state)
    for t in range(length):
        state = formula(cell, x[t], state)
        shown = tree.leaves(state)[0]
        outputs.append(torch.relu(shown) if formula is ssru else shown)
    return torch.stack(outputs), state


def gradients(cell: nn.Module, total: Tensor) -> dict[str, Tensor]:
    cell.zero_grad()
    total.backward()
    return {name: parameter.grad.clone() for name, parameter in cell.named_parameters()}


def test_unroll_is_the_formula(name: str, cell: Any, x: Tensor) -> None:
    """Outputs, states and the gradients of all parameters equal the formula's, for rows of different lengths."""
    formula = FORMULAS[name][2]
    start = tree.select(some_state(cell), torch.zeros(ROWS, dtype=torch.long))
    y, after = cell.unroll(x, start, LENGTHS)
    ours, theirs = [], []
    for row, length in enumerate(LENGTHS.tolist()):
        expected, last = read(cell, formula, x[row], length)
        assert_close(y[row, :length], expected)
        assert not y[row, length:].any()
        assert_close(tree.map(lambda leaf, row=row: leaf[row], after), last)
        theirs.append(weighted(expected, last))
        ours.append(weighted(y[row, :length], tree.map(lambda leaf, row=row: leaf[row], after)))
    expected_gradients = gradients(cell, torch.stack(theirs).sum())
    assert all(gradient.any() for gradient in expected_gradients.values())
    assert_close(gradients(cell, torch.stack(ours).sum()), expected_gradients)


def test_steps_after_projection_are_unroll(cell: Any, x: Tensor) -> None:
    whole, after = cell.unroll(x, some_state(cell))
    projected = cell.project(x)
    assert projected.shape == (ROWS, POSITIONS, cell.projected_width)
    state, outputs = some_state(cell), []
    for t in range(POSITIONS):
        y, state = cell.step(projected[:, t], state)
        assert_close(cell.output(state), y)
        outputs.append(y)
    assert_close(torch.stack(outputs, 1), whole)
    assert_close(state, after)


def test_what_stands_in_the_padding_matters_to_nothing(cell: Any, x: Tensor) -> None:
    junk = x.clone()
    for row, length in enumerate(LENGTHS.tolist()):
        junk[row, length:] = 99.0
    x.requires_grad_()
    total = weighted(*cell.unroll(x, some_state(cell), LENGTHS))
    expected = gradients(cell, total)
    again = weighted(*cell.unroll(junk, some_state(cell), LENGTHS))
    assert_close(again, total)
    assert_close(gradients(cell, again), expected)
    assert x.grad is not None
    assert not any(x.grad[row, length:].any() for row, length in enumerate(LENGTHS.tolist()))


def test_projection_is_linear(cell: Any, x: Tensor) -> None:
    """Bahdanau's and Luong's wirings rely on this: they add the product of the cell's other inputs to it."""
    a, b = x[:, 0], x[:, 1]
    none = cell.project(torch.zeros_like(a))
    assert_close(cell.project(2 * a - 3 * b) - none, 2 * (cell.project(a) - none) - 3 * (cell.project(b) - none))


def test_half_precision_keeps_its_state_whole(name: str) -> None:
    """Under autocast, the products are in bfloat16, but the cell's memory stays in float32."""
    constructor, inputs, _ = FORMULAS[name]
    torch.manual_seed(0)
    cell = constructor(inputs, WIDTH)
    x, start = torch.randn(ROWS, POSITIONS, inputs), cell.start(ROWS, torch.zeros(1))
    whole, _ = cell.unroll(x, start, LENGTHS)
    with torch.autocast("cpu", torch.bfloat16):
        y, state = cell.unroll(x, start, LENGTHS)
    if not isinstance(cell, Elman):
        assert all(leaf.dtype == torch.float32 for leaf in tree.leaves(state)[-1:])
    assert_close(y.float(), whole, atol=0.05, rtol=0.05)
    y.float().sum().backward()


def test_elman_is_torchs_network() -> None:
    cell, oracle = Elman(INPUTS, WIDTH).double(), nn.RNN(INPUTS, WIDTH, batch_first=True).double()
    torch.manual_seed(1)
    x, h = torch.randn(ROWS, POSITIONS, INPUTS, dtype=torch.float64), some_state(cell)
    oracle.weight_ih_l0.data, oracle.bias_ih_l0.data = cell.input.weight.data, cell.input.bias.data
    oracle.weight_hh_l0.data = cell.recurrent.weight.data
    nn.init.zeros_(oracle.bias_hh_l0)
    y, after = cell.unroll(x, h)
    expected, last = oracle(x, h[None])
    assert_close(y, expected)
    assert_close(after, last[0])


def test_without_peepholes_it_is_torchs_lstm() -> None:
    cell, oracle = PeepholeLSTM(INPUTS, WIDTH).double(), LSTM(INPUTS, WIDTH).double()
    with torch.no_grad():
        cell.peepholes.zero_()
        cell.input.weight.copy_(oracle.fused.weight_ih_l0)
        cell.input.bias.copy_(oracle.fused.bias_ih_l0)
        cell.recurrent.weight.copy_(oracle.fused.weight_hh_l0)
    x = torch.randn(ROWS, POSITIONS, INPUTS, dtype=torch.float64)
    assert_close(cell.unroll(x, some_state(cell), LENGTHS), oracle.unroll(x, some_state(cell), LENGTHS))


def test_the_two_grus_differ_in_the_reset_alone() -> None:
    """If the reset gate is always open, both GRUs are the same cell."""
    cell, oracle = GRUResetBefore(INPUTS, WIDTH).double(), GRU(INPUTS, WIDTH).double()
    with torch.no_grad():
        oracle.fused.bias_hh_l0.zero_()
        oracle.fused.bias_ih_l0[:WIDTH] = 1000.0
        cell.input.weight.copy_(oracle.fused.weight_ih_l0)
        cell.input.bias.copy_(oracle.fused.bias_ih_l0)
        cell.gates.weight.copy_(oracle.fused.weight_hh_l0[: 2 * WIDTH])  # r, z, n
        cell.new.weight.copy_(oracle.fused.weight_hh_l0[2 * WIDTH :])
    x = torch.randn(ROWS, POSITIONS, INPUTS, dtype=torch.float64)
    assert_close(cell.unroll(x, some_state(cell), LENGTHS), oracle.unroll(x, some_state(cell), LENGTHS))


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda bias: PeepholeLSTM(INPUTS, WIDTH, bias).input.bias.chunk(4), 1),
        (lambda bias: LSTMWithout(INPUTS, WIDTH, "input", bias).input.bias.chunk(3), 0),
        (lambda bias: LSTMWithout(INPUTS, WIDTH, "output", bias).input.bias.chunk(3), 1),
        (lambda bias: LayerNormLSTM(INPUTS, WIDTH, bias).input_norm.bias.chunk(4), 1),
        (lambda bias: (SSRU(INPUTS, WIDTH, bias).forget_bias,), 0),
        (lambda bias: LSTMWithout(INPUTS, WIDTH, "forget", bias).input.bias.chunk(3), None),
    ],
    ids=["peephole", "without input", "without output", "layer norm", "ssru", "without forget"],
)
def test_the_forget_gate_starts_at_its_bias(make: Any, place: int | None) -> None:
    for part, bias in enumerate(make(2.5)):
        assert_close(bias.detach(), torch.full((WIDTH,), 2.5 if part == place else 0.0))


def test_the_product_with_a_state_is_orthogonal() -> None:
    for part in recurrence(WIDTH, 3).weight.chunk(3):
        assert_close(part @ part.T, torch.eye(WIDTH))


def test_what_a_cell_does_not_know_is_named() -> None:
    with pytest.raises(ValueError, match='gate = "reset": the gates of an LSTM are input, forget, output'):
        LSTMWithout(INPUTS, WIDTH, "reset")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='activation = "relu": expected "tanh" or "sigmoid"'):
        Elman(INPUTS, WIDTH, "relu")  # type: ignore[arg-type]
