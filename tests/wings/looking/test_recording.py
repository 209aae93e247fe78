"""``transduce.inspect.record``: its arrays are what the model computed, and the model is as before afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from test_inspect import SOURCE, transducer

import transduce
from families import FAMILIES, build, sources, targets
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.wings.looking.inspection.attention import attention
from transduce.wings.looking.inspection.recording import cells_of

ATTENDING = ["luong, general", "convs2s", "transformer, post-norm, tied"]
CELLS = [
    "lstm, no attention",
    "gru, no attention",
    "elman, reversed source, no attention",
    "bahdanau, mut1, residual",
    "bahdanau, no input gate",
    "luong, layer norm, fed",
    "luong, ssru, residual",
]


@pytest.mark.parametrize("search", [Greedy(6), Beam(3, max_length=6)], ids=["greedy", "beam"])
@pytest.mark.parametrize("family", [*ATTENDING, "ensemble"])
def test_the_matrix_that_is_shown_is_the_one_that_the_search_used(family: str, search: Any) -> None:
    model = transducer(family)
    shown = attention(model, SOURCE, model.with_search(search)(SOURCE))
    with transduce.inspect.record(model, "attention") as trace:
        model.with_search(search)(SOURCE)
    for name, weights_TS in shown.weights.items():
        steps = [each.reshape(-1, *each.shape[-3:]).mean(1) for each in trace["attention"][name]]  # [rows, 1, S]
        assert len(steps) >= len(weights_TS)
        for weights_S, rows_R1S in zip(weights_TS.numpy(), steps, strict=False):
            assert np.abs(rows_R1S[..., : len(weights_S)] - weights_S).max(-1).min() < 1e-5
            assert rows_R1S.sum(-1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("family", CELLS)
@torch.no_grad()
def test_states_of_cells_are_those_after_each_position(family: str) -> None:
    model = build(FAMILIES[family])
    target = targets(2, 4)
    start = model.start(sources([3, 5]))
    with transduce.inspect.record(model, "cells") as trace:
        features, after = model.extend(target, start)
    assert torch.equal(features, model.extend(target, start)[0])
    found = [each for name, each in trace["cells"].items() if name.startswith("decoder.")]
    states, state = [], start
    for token_B1 in target.split(1, 1):
        state = model.extend(token_B1, state)[1]
        states.append({tuple(leaf.float().flatten().tolist()) for leaf in tree.leaves(state)})
    for calls in found:
        values_BTW = np.concatenate(calls, 1)  # one call, or one for each token if the decoder feeds its output back
        assert values_BTW.shape[1] == 4
        for place, leaves in enumerate(states):
            assert min(_distance(values_BTW[:, place], leaf) for leaf in leaves) < 1e-6
    assert len(tree.leaves(after)) >= len(found) > 0


@torch.no_grad()
def test_gates_of_an_lstm_are_those_of_its_formula() -> None:
    cell = next(c for n, c in cells_of(build(FAMILIES["lstm, no attention"])) if n.startswith("decoder"))
    x_BTD = torch.randn(2, 3, cell.fused.input_size, dtype=torch.float64)
    holder = torch.nn.ModuleList([cell])
    with transduce.inspect.record(holder, "gates") as trace:
        cell.unroll(x_BTD, cell.start(2, x_BTD))
    assert sorted(trace["gates"]) == ["0.forget", "0.input", "0.output"]
    h = c = torch.zeros(2, cell.width, dtype=torch.float64)
    weights = cell.fused
    for t in range(3):
        products = (
            x_BTD[:, t] @ weights.weight_ih_l0.T + weights.bias_ih_l0 + h @ weights.weight_hh_l0.T + weights.bias_hh_l0
        )
        i, f, g, o = products.chunk(4, 1)
        for name, gate in (("input", i), ("forget", f), ("output", o)):
            assert trace["gates"][f"0.{name}"][0][:, t] == pytest.approx(gate.sigmoid().numpy(), abs=1e-6)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()


@pytest.mark.parametrize("family", CELLS)
@torch.no_grad()
def test_every_cell_names_its_gates(family: str) -> None:
    model = build(FAMILIES[family])
    if "elman" in family:
        with pytest.raises(UserError, match="has no gates"), transduce.inspect.record(model, "gates"):
            pass
        return
    with transduce.inspect.record(model, "gates") as trace:
        model.start(sources([3]))
    names = {name.rpartition(".")[2] for name in trace["gates"]}
    assert names <= {"forget", "input", "output", "reset", "update"}
    read = [calls for name, calls in trace["gates"].items() if name.startswith("encoder")]
    assert all(((each >= 0) & (each <= 1)).all() and each.shape[1] == 3 for calls in read for each in calls)


def _distance(values_BW: Any, leaf: tuple[float, ...]) -> float:
    return float(np.abs(values_BW.ravel() - leaf).max()) if values_BW.size == len(leaf) else np.inf


@torch.no_grad()
def test_layers_end_with_the_states_that_a_decoder_reads() -> None:
    model = build(FAMILIES["transformer, post-norm, tied"])
    with transduce.inspect.record(model, "layers", "attention") as trace:
        memory = model.encoder(sources([5]))
    (last,) = trace["layers"]["encoder.layers.1"]
    assert last == pytest.approx(memory.states.values.float().numpy(), abs=1e-6)
    assert set(trace) == {"layers", "attention"}


def test_nothing_is_left_behind() -> None:
    model = transducer("luong, general")
    before = model(SOURCE)
    with transduce.inspect.record(model, "cells", "attention"):
        assert model(SOURCE) == before
    for module in model.model.modules():
        assert not module._forward_hooks
        assert not {"step", "unroll"} & vars(module).keys()


def test_what_cannot_be_recorded() -> None:
    model = transducer("transformer, pre-norm")
    for kinds, message in (
        (("cells",), "this encoder-decoder model has no cells, so there is nothing to record"),
        (("heads",), r"record\('heads'\): give one or more of 'attention', 'cells', 'gates', 'layers'"),
        ((), r"record\(\): give one or more of"),
    ):
        with pytest.raises(UserError, match=message), transduce.inspect.record(model, *kinds):
            pass
