"""Stacks and directions against torch's layers, wirings against step-by-step twins of the papers' equations, bridges.

All in float64.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from drawn import spread
from transduce.core.types import Memory, MemoryWidths, Padded
from transduce.layers.modules.attention.energies import Additive, General
from transduce.layers.modules.attention.one_head import GlobalAttention
from transduce.layers.modules.bridges import CopyBridge, LinearBridge, ZeroBridge
from transduce.layers.modules.cells.gru import GRU
from transduce.layers.modules.cells.lstm import LSTM
from transduce.layers.modules.recurrent import RecurrentLayer, Stack, reverse
from transduce.layers.modules.wirings import Bahdanau, Luong, Plain

ORACLES = {LSTM: nn.LSTM, GRU: nn.GRU}
CELLS = pytest.mark.parametrize("cell", ORACLES, ids=lambda cell: cell.__name__)
ROWS, POSITIONS, INPUTS, WIDTH, LAYERS, KEYS, MEMORY = 2, 4, 3, 5, 2, 6, 7
LENGTHS = torch.tensor([4, 6])


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def copy_layer(oracle: nn.RNNBase, place: str, cell: Any) -> None:
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        oracle.get_parameter(f"{name}_{place}").data = cell.fused.get_parameter(f"{name}_l0").data.clone()


# ---------------------------------------------------------- stacks, directions


@CELLS
def test_a_stack_is_torchs_layers(cell: Any) -> None:
    stack = spread(Stack(cell, INPUTS, WIDTH, LAYERS, 0.0))
    oracle = ORACLES[cell](INPUTS, WIDTH, LAYERS, batch_first=True).double()
    for layer, one in enumerate(stack.cells):
        copy_layer(oracle, f"l{layer}", one)
    x = randn(ROWS, POSITIONS, INPUTS)
    y, state = stack.unroll(x, stack.start(ROWS, x))
    expected, after = oracle(x)
    assert_close(y, expected)
    assert_close(stack.output(state), expected[:, -1])
    if cell is LSTM:
        assert_close(tuple(torch.stack(leaves) for leaves in zip(*state, strict=True)), after)
    else:
        assert_close(torch.stack(state), after)


@CELLS
def test_steps_of_a_stack_are_unroll(cell: Any) -> None:
    stack = spread(Stack(cell, INPUTS, WIDTH, 3, 0.0))
    x = randn(ROWS, POSITIONS, INPUTS)
    whole, after = stack.unroll(x, stack.start(ROWS, x))
    state, projected, outputs = stack.start(ROWS, x), stack.first.project(x), []
    for t in range(POSITIONS):
        y, state = stack.step(projected[:, t], state)
        outputs.append(y)
    assert_close(torch.stack(outputs, 1), whole)
    assert_close(state, after)


def test_dropout_falls_between_the_layers_only() -> None:
    x = randn(ROWS, POSITIONS, INPUTS)
    for layers, changes in ((1, False), (2, True)):
        stack = spread(Stack(LSTM, INPUTS, WIDTH, layers, 0.5))
        still, _ = stack.unroll(x, stack.start(ROWS, x))
        moved, _ = stack.train().unroll(x, stack.start(ROWS, x))
        assert bool((still != moved).any()) is changes


def test_a_stack_has_a_layer() -> None:
    with pytest.raises(ValueError, match="layers = 0"):
        Stack(LSTM, INPUTS, WIDTH, 0, 0.0)


@CELLS
def test_both_directions_are_torchs(cell: Any) -> None:
    layer = spread(RecurrentLayer(cell(INPUTS, WIDTH), cell(INPUTS, WIDTH)))
    oracle = ORACLES[cell](INPUTS, WIDTH, batch_first=True, bidirectional=True).double()
    copy_layer(oracle, "l0", layer.forward_cell)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        oracle.get_parameter(f"{name}_l0_reverse").data = layer.backward_cell.fused.get_parameter(f"{name}_l0").data
    x, lengths = randn(3, 5, INPUTS), torch.tensor([2, 5, 4])
    y, state = layer.unroll(x, lengths)
    packed, after = oracle(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    mask = Padded(x, lengths).mask
    assert_close(y[mask], expected[mask])
    if cell is LSTM:
        assert_close(tuple(torch.stack(leaves) for leaves in zip(*state, strict=True)), after)
    else:
        assert_close(torch.stack(state), after)


def test_one_direction_is_the_cell() -> None:
    layer = spread(RecurrentLayer(LSTM(INPUTS, WIDTH), None))
    x, lengths = randn(3, 5, INPUTS), torch.tensor([2, 5, 4])
    cell = layer.forward_cell
    expected, after = cell.unroll(x, cell.start(3, x), lengths)
    y, state = layer.unroll(x, lengths)
    assert_close(y, expected)
    assert_close(state, (after,))


def test_reverse_turns_what_is_real() -> None:
    x = torch.tensor([[1, 2, 3, 9], [4, 9, 9, 9], [5, 6, 7, 8]])[..., None]
    turned = reverse(x, torch.tensor([3, 1, 4]))[..., 0]
    assert turned.tolist() == [[3, 2, 1, 9], [4, 9, 9, 9], [8, 7, 6, 5]]


# --------------------------------------------------------------------- wirings


def memory() -> Memory:
    return Memory(Padded(randn(ROWS, KEYS, MEMORY, seed=1), LENGTHS), (), None)


def build(wiring: Any, cell: Any, energy: Any, **options: bool) -> Any:
    attention = partial(GlobalAttention, energy=energy)
    stack = partial(Stack, cell=cell, width=WIDTH, layers=LAYERS, dropout=0.0)
    return spread(wiring(INPUTS, MemoryWidths(MEMORY, ()), stack, 0.0, attention, **options))


def first_states(cell: Any) -> Any:
    states = [randn(ROWS, WIDTH, seed=10 + n) for n in range(4)]
    return ((states[0], states[1]), (states[2], states[3])) if cell is LSTM else (states[0], states[1])


def numbers(parameter: torch.Tensor) -> np.ndarray:
    return parameter.detach().numpy()


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


class Twin:
    """Computes a wiring as the papers write it, one row and one step at a time. x, s and c are vectors. A weight
    multiplies a concatenation of vectors, as in the papers."""

    def __init__(self, wiring: Any, cell: Any, row: int) -> None:
        self.wiring, self.cell, self.energy = wiring, cell, wiring.attention.energy
        self.states = numbers(memory().states.values)[row, : LENGTHS[row]]
        self.layers = [
            [numbers(part[row]) for part in state] if cell is LSTM else [numbers(state[row])]
            for state in first_states(cell)
        ]

    @property
    def top(self) -> np.ndarray:
        return self.layers[-1][0]

    def step(self, x: np.ndarray, beside: np.ndarray | None, weight: np.ndarray | None) -> None:
        """All layers once; the first reads [x; beside], ``weight`` being the columns of its matrix for ``beside``."""
        for layer, state in enumerate(self.layers):
            W, U, b, b_hidden = (numbers(p) for p in self.wiring.stack.cells[layer].fused.parameters())
            if layer == 0 and beside is not None and weight is not None:
                W, x = np.concatenate([W, weight], 1), np.concatenate([x, beside])
            gates, hidden = W @ x + b, U @ state[0] + b_hidden
            if self.cell is LSTM:
                i, f, g, o = np.split(gates + hidden, 4)
                c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
                self.layers[layer] = [sigmoid(o) * np.tanh(c), c]
            else:
                (r, z, n), (r_hidden, z_hidden, n_hidden) = np.split(gates, 3), np.split(hidden, 3)
                r, z = sigmoid(r + r_hidden), sigmoid(z + z_hidden)
                self.layers[layer] = [(1 - z) * np.tanh(n + r * n_hidden) + z * state[0]]
            x = self.layers[layer][0]

    def attend(self, query: np.ndarray) -> np.ndarray:
        energies = np.array([self.energy_of(query, m) for m in self.states])
        weights = np.exp(energies) / np.exp(energies).sum()
        return sum(weight * m for weight, m in zip(weights, self.states, strict=True))

    def energy_of(self, query: np.ndarray, m: np.ndarray) -> float:
        if isinstance(self.energy, General):
            return query @ numbers(self.energy.key.weight) @ m
        W, U, b = numbers(self.energy.query.weight), numbers(self.energy.key.weight), numbers(self.energy.key.bias)
        return numbers(self.energy.score) @ np.tanh(W @ query + U @ m + b)


def bahdanau(twin: Twin, xs: np.ndarray) -> list[np.ndarray]:
    wiring, features = twin.wiring, []
    for x in xs:
        c = twin.attend(twin.top)  # with s_{t-1}
        twin.step(x, c, numbers(wiring.context.weight))
        deep = numbers(wiring.deep.weight) @ np.concatenate([twin.top, c, x]) + numbers(wiring.deep.bias)
        features.append(np.tanh(deep))
    return features


def luong(twin: Twin, xs: np.ndarray) -> list[np.ndarray]:
    wiring, features = twin.wiring, []
    fed = np.zeros(WIDTH)
    for x in xs:
        twin.step(x, fed, None if wiring.feed is None else numbers(wiring.feed.weight))
        c = twin.attend(twin.top)  # with s_t
        fed = np.tanh(numbers(wiring.mix.weight) @ np.concatenate([c, twin.top]) + numbers(wiring.mix.bias))
        features.append(fed)
    return features


@CELLS
@pytest.mark.parametrize("energy", [Additive, General], ids=lambda energy: energy.__name__)
@pytest.mark.parametrize(
    ("wiring", "options", "twin"),
    [(Bahdanau, {}, bahdanau), (Luong, {}, luong), (Luong, {"input_feeding": True}, luong)],
    ids=["bahdanau", "luong", "luong, fed"],
)
def test_a_wiring_is_its_papers_equations(
    wiring: Any, options: dict[str, bool], twin: Any, energy: Any, cell: Any
) -> None:
    ours = build(wiring, cell, energy, **options)
    x = randn(ROWS, POSITIONS, INPUTS, seed=4)
    features, state = ours(x, ours.start(memory(), first_states(cell)))
    for row in range(ROWS):
        theirs = Twin(ours, cell, row)
        expected = twin(theirs, x[row].numpy())
        np.testing.assert_allclose(features[row].detach().numpy(), expected, atol=1e-12)
        np.testing.assert_allclose(numbers(ours.stack.output(state.cells))[row], theirs.top, atol=1e-12)


def test_input_feeding_feeds() -> None:
    """The twin would also agree with a wiring that ignores its input feed, if the weight of the feed were zero."""
    ours = build(Luong, LSTM, General, input_feeding=True)
    x = randn(ROWS, POSITIONS, INPUTS, seed=4)
    features, state = ours(x, ours.start(memory(), first_states(LSTM)))
    assert_close(state.feed, features[:, -1])
    with torch.no_grad():
        ours.feed.weight.zero_()
    unfed, _ = ours(x, ours.start(memory(), first_states(LSTM)))
    assert_close(unfed[:, 0], features[:, 0])  # nothing has been fed yet
    assert (unfed[:, 1:] - features[:, 1:]).abs().max() > 1e-3


def test_plain_wiring_is_the_stack() -> None:
    ours = spread(
        Plain(INPUTS, MemoryWidths(MEMORY, ()), partial(Stack, cell=LSTM, width=WIDTH, layers=LAYERS, dropout=0.0), 0.0)
    )
    x = randn(ROWS, POSITIONS, INPUTS)
    features, state = ours(x, ours.start(memory(), first_states(LSTM)))
    expected, after = ours.stack.unroll(x, first_states(LSTM))
    assert_close(features, expected)
    assert_close(state.cells, after)


# --------------------------------------------------------------------- bridges

SUMMARY = [randn(ROWS, 3), randn(ROWS, 4, seed=1)]


def test_the_linear_bridge_is_its_formula() -> None:
    bridge = spread(LinearBridge((3, 4), (5, 2, 1)))
    h, c, rest = bridge(SUMMARY)
    together = np.concatenate([numbers(leaf) for leaf in SUMMARY], -1)
    expected = np.tanh(together @ numbers(bridge.linear.weight).T + numbers(bridge.linear.bias))
    for leaf, part in zip((h, c, rest), np.split(expected, [5, 7], -1), strict=True):
        np.testing.assert_allclose(numbers(leaf), part, atol=1e-12)


def test_the_copy_bridge_copies() -> None:
    assert all(out is leaf for out, leaf in zip(CopyBridge((3, 4), (3, 4))(SUMMARY), SUMMARY, strict=True))


@pytest.mark.parametrize("state_widths", [(3, 5), (3,), (3, 4, 3)])
def test_the_copy_bridge_refuses_other_widths(state_widths: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"bridge 'copy'.*\(3, 4\).*starts from.*'linear'"):
        CopyBridge((3, 4), state_widths)


def test_the_zero_bridge_is_zeros() -> None:
    leaves = ZeroBridge((3, 4), (5, 2))(SUMMARY)
    assert [leaf.shape for leaf in leaves] == [(ROWS, 5), (ROWS, 2)]
    assert all(leaf.dtype == torch.float64 and not leaf.any() for leaf in leaves)
