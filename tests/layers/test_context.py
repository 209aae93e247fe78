"""Generators conditioned on a vector: the wiring "context", and the bag of words. All in float64."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from drawn import spread
from families import FACTS, build, generator, sources, targets
from transduce.core import tree
from transduce.core.types import EOS, Memory, MemoryWidths, Padded
from transduce.layers.encoders.bag import BagEncoder
from transduce.layers.modules.attention.energies import General
from transduce.layers.modules.attention.one_head import GlobalAttention
from transduce.layers.modules.cells.gru import GRU
from transduce.layers.modules.cells.lstm import LSTM
from transduce.layers.modules.recurrent import Stack
from transduce.layers.modules.wirings import Context, Luong

ROWS, POSITIONS, INPUTS, WIDTH, MEMORY = 2, 4, 3, 5, 7
SUMMARY_WIDTHS = (4, 2)


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def memory(rows: int = ROWS) -> Memory:
    summary = tuple(randn(rows, width, seed=20 + width) for width in SUMMARY_WIDTHS)
    return Memory(Padded(randn(rows, 6, MEMORY, seed=1), torch.tensor([4, 6][:rows])), summary, None)


def wiring(cell: Any, layers: int = 1, **options: Any) -> Any:
    stack = partial(Stack, cell=cell, width=WIDTH, layers=layers, dropout=0.0)
    return spread(Context(INPUTS, MemoryWidths(MEMORY, SUMMARY_WIDTHS), stack, 0.0, **options))


# --------------------------------------------------------------- the wiring


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(("cell", "oracle"), [(LSTM, nn.LSTMCell), (GRU, nn.GRUCell)], ids=["lstm", "gru"])
def test_every_step_reads_the_word_and_the_context(cell: Any, oracle: Any, deep: bool) -> None:
    """s_t = cell([y_{t-1}; c], s_{t-1}), for one row and step at a time, with torch's own cells."""
    ours = wiring(cell, deep_output=deep)
    theirs = oracle(INPUTS + sum(SUMMARY_WIDTHS), WIDTH).double()
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        theirs.get_parameter(name).data = ours.stack.cells[0].fused.get_parameter(f"{name}_l0").data
    x_BTE, read = randn(ROWS, POSITIONS, INPUTS, seed=4), memory()
    start = tree.map(lambda leaf: randn(*leaf.shape, seed=5), ours.stack.start(ROWS, x_BTE))
    features, _ = ours(x_BTE, ours.start(read, start))
    for row in range(ROWS):
        c = torch.cat([leaf[row] for leaf in read.summary])
        state = tree.select(start[0], torch.tensor([row]))
        for t in range(POSITIONS):
            state = theirs(torch.cat([x_BTE[row, t], c])[None], state)
            y = (state[0] if cell is LSTM else state)[0]
            if deep:
                y = torch.tanh(ours.deep.weight @ torch.cat([y, x_BTE[row, t], c]) + ours.deep.bias)
            assert_close(features[row, t], y)


def test_around_another_wiring_it_is_that_one_with_longer_inputs() -> None:
    attending = partial(Luong, attention=partial(GlobalAttention, energy=General))
    ours = wiring(GRU, layers=2, wiring=attending)
    x_BTE, read = randn(ROWS, POSITIONS, INPUTS, seed=4), memory()
    first = ours.stack.start(ROWS, x_BTE)
    features, state = ours(x_BTE, ours.start(read, first))
    longer = torch.cat([x_BTE, torch.cat(read.summary, -1)[:, None].expand(-1, POSITIONS, -1)], -1)
    expected, after = ours.wiring(longer, ours.wiring.start(read, first))
    assert_close(features, expected)
    assert_close(state.wiring.cells, after.cells)


def test_the_context_of_a_beam_is_kept_once() -> None:
    ours = wiring(LSTM)
    state = tree.repeat(ours.start(memory(), ours.stack.start(ROWS, randn(1))), 3)
    assert state.context.value.shape == (ROWS, sum(SUMMARY_WIDTHS))
    assert state.wiring.cells[0][0].shape[0] == 3 * ROWS


# ------------------------------------------------------------------- the bag


@pytest.mark.parametrize("pooling", ["mean", "sum", "max"])
def test_a_bag_is_pooled_word_by_word(pooling: Any) -> None:
    encoder = BagEncoder(FACTS.source_vocabulary, 6, pooling).double().eval()
    source = sources([5, 1, 3])
    found = encoder(source)
    for row, length in enumerate(source.lengths.tolist()):
        words = [encoder.embedding.weight[i].tolist() for i in source.values[row, :length]]
        pooled = {"mean": lambda x: sum(x) / len(x), "sum": sum, "max": max}[pooling]
        expected = [pooled([word[d] for word in words]) for d in range(6)]
        assert found.summary[0][row].tolist() == pytest.approx(expected)
        assert found.states.values[row, :length].tolist() == words
    assert encoder.summary_widths == (6,)


def test_the_order_of_a_bag_says_nothing() -> None:
    model = build(generator({"type": "bag", "width": 6}))
    ids = torch.tensor([[5, 7, 4, EOS], [4, 5, 7, EOS], [7, 7, 5, EOS]])
    output, _ = model.extend(targets(1, 4).repeat(3, 1), model.start(Padded(ids, torch.tensor([4, 4, 4]))))
    assert_close(output[0], output[1])
    assert (output[0] - output[2]).abs().max() > 1e-3


# -------------------------------------------------------------------- labels
