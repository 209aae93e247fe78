"""A step of a decoder is one graph: nothing in it depends on a value that only the device knows.

``torch.export`` follows a step with tensors that have no values, and refuses a Python branch on one.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from families import FAMILIES, build, sources, targets
from selection import mostly_slow
from transduce.core import tree

STEPPING = [
    "transformer, learned positions",
    "transformer, rotary, gated, rms",
    "transformer, t5 and alibi",
    "transformer, recurrent and shaw",
    "transformer, lightweight and dynamic",
    "convs2s",
    "luong, general",
    "bahdanau, gru, no bridge",
    "luong, coverage, fed",
    "pointer over transformer",
    "ctc and attention",
]
STEPPING = [name for name in STEPPING if name in FAMILIES]
"""A family for each kind of state. All of ``FAMILIES`` pass."""

LENGTHS = [5, 2, 4]
CAPACITY = 8


class Step(nn.Module):
    """One step of a model: tensors in, logits and tensors out."""

    def __init__(self, model: Any, state: Any) -> None:
        super().__init__()
        self.model = model
        self.state = state

    def forward(self, tokens_B1: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
        output, state = self.model.extend(tokens_B1, tree.fill(self.state, leaves))
        return (self.model.readout(output), *tree.leaves(state))


@pytest.mark.filterwarnings("ignore:The tensor attributes .* were assigned during export")  # torch's own LSTM and GRU
@pytest.mark.parametrize(
    "family",
    mostly_slow(
        STEPPING,
        fast=[
            name
            for name in (
                "transformer, recurrent and shaw",
                "luong, coverage, fed",
                "ctc and attention",
            )
            if name in STEPPING
        ],
    ),
)
def test_a_step_is_one_graph_for_all_positions(family: str) -> None:
    model, tokens_BT = build(FAMILIES[family]), targets(3, 7)
    with torch.no_grad():
        whole, _ = model.extend(tokens_BT, model.start(sources(LENGTHS)))
        expected_BTV = model.readout(whole)
        state = tree.reserve(model.start(sources(LENGTHS)), CAPACITY)
        leaves = tree.leaves(tree.fork(state))  # a tensor that is given twice would be one input
        exported = torch.export.export(Step(model, state), (tokens_BT[:, :1], *leaves), strict=False).module()
        for t in range(7):
            logits, *leaves = exported(tokens_BT[:, t : t + 1], *leaves)
            assert_close(logits[:, 0], expected_BTV[:, t])
