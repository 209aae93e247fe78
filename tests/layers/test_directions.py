"""Residual layers, and the directions in which an encoder reads its source; in float64."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from drawn import spread
from families import FACTS, sources
from transduce.core import tree
from transduce.core.types import Padded
from transduce.layers.encoders.recurrent import RecurrentEncoder
from transduce.layers.modules.cells.elman import Elman
from transduce.layers.modules.cells.lstm import LSTM
from transduce.layers.modules.cells.ssru import SSRU
from transduce.layers.modules.recurrent import Stack

ROWS, POSITIONS, INPUTS, WIDTH = 3, 4, 3, 5
LENGTHS = [5, 2, 4]
CELLS = pytest.mark.parametrize("cell", [Elman, LSTM, SSRU], ids=lambda cell: cell.__name__)


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def encoder(**options: Any) -> Any:
    return spread(RecurrentEncoder(FACTS.source_vocabulary, LSTM, embedding_width=INPUTS, width=WIDTH, **options))


@CELLS
def test_a_residual_stack_adds_what_each_layer_read(cell: Any) -> None:
    """The outputs are the same layer by layer, position by position, and read from a state."""
    stack = spread(Stack(cell, INPUTS, WIDTH, 3, 0.0, residual=True))
    x = randn(ROWS, POSITIONS, INPUTS)
    expected, _ = stack.cells[0].unroll(x, stack.cells[0].start(ROWS, x))
    for upper in stack.cells[1:]:
        expected = expected + upper.unroll(expected, upper.start(ROWS, x))[0]
    whole, after = stack.unroll(x, stack.start(ROWS, x))
    assert_close(whole, expected)
    state, projected = stack.start(ROWS, x), stack.first.project(x)
    for t in range(POSITIONS):
        y, state = stack.step(projected[:, t], state)
        assert_close(y, expected[:, t])
        assert_close(stack.output(state), y)
    assert_close(state, after)


def test_dropout_spares_what_is_added() -> None:
    """If the upper cells output zeros, the outputs of the first cell arrive without dropout."""
    stack = spread(Stack(Elman, INPUTS, WIDTH, 3, 0.5, residual=True)).train()
    with torch.no_grad():
        for upper in stack.cells[1:]:
            for parameter in upper.parameters():
                parameter.zero_()
    x = randn(ROWS, POSITIONS, INPUTS)
    expected, _ = stack.first.unroll(x, stack.first.start(ROWS, x))
    assert_close(stack.unroll(x, stack.start(ROWS, x))[0], expected)
    y, _ = stack.step(stack.first.project(x)[:, 0], stack.start(ROWS, x))
    assert_close(y, expected[:, 0])


@pytest.mark.parametrize("direction", ["both", "backward"])
def test_a_residual_encoder_adds_from_the_second_layer_on(direction: str) -> None:
    ours, source = encoder(layers=3, direction=direction, residual=True), sources(LENGTHS)
    x, _ = ours.layers[0].unroll(ours.embedding(source.values), source.lengths)
    for layer in ours.layers[1:]:
        x = x + layer.unroll(x, source.lengths)[0]
    memory = ours(source)
    assert_close(memory.states.values, x)
    plain = encoder(layers=3, direction=direction)(source)
    assert (plain.states.values - x).abs().max() > 1e-3
    assert_close(tree.leaves(memory.summary)[0], tree.leaves(plain.summary)[0])  # the first layer's


def turned(source: Padded) -> Padded:
    rows = [
        torch.cat([row[:length].flip(0), row[length:]])
        for row, length in zip(source.values, source.lengths.tolist(), strict=True)
    ]
    return Padded(torch.stack(rows), source.lengths)


def test_reading_backward_is_reading_a_reversed_source() -> None:
    """The states are the same as for the reversed source, each at its own token's position. The last states are those
    after the first token.
    """
    back, source = encoder(layers=2, direction="backward"), sources(LENGTHS)
    forth = encoder(layers=2, direction="forward")
    memory, expected = back(source), forth(turned(source))
    for row, length in enumerate(LENGTHS):
        assert_close(memory.states.values[row, :length], expected.states.values[row, :length].flip(0))
    assert_close(memory.summary, expected.summary)
    (h, _), *_ = memory.summary[-1]
    assert_close(h, memory.states.values[:, 0])


@pytest.mark.parametrize(("direction", "cells"), [("both", 2), ("forward", 1), ("backward", 1)])
def test_an_encoder_says_how_wide_it_is(direction: str, cells: int) -> None:
    ours = encoder(layers=3, direction=direction)
    memory = ours(sources(LENGTHS))
    assert ours.width == memory.states.values.shape[-1] == cells * WIDTH
    assert ours.summary_widths == tuple(leaf.shape[-1] for leaf in tree.leaves(memory.summary))
    assert len(ours.summary_widths) == 3 * cells * 2  # layers, directions, h and c


@pytest.mark.parametrize("layers", [0, -2])
def test_there_is_a_layer_at_least(layers: int) -> None:
    with pytest.raises(ValueError, match=rf"layers = {layers}: a recurrent network has at least one"):
        RecurrentEncoder(FACTS.source_vocabulary, partial(LSTM), layers=layers)


def test_there_are_two_directions() -> None:
    with pytest.raises(ValueError, match='direction = "sideways": a source is read "forward", "backward"'):
        RecurrentEncoder(FACTS.source_vocabulary, partial(LSTM), direction="sideways")  # type: ignore[arg-type]
