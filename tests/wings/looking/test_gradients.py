"""The reach of gradients: against one distance that is unrolled by hand, and against known half-lives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import transduce
from families import FAMILIES, build
from transduce.answers.transducer import Transducer
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.types import BOS, Padded
from transduce.wings.looking.inspection.gradients import GradientReach, _norms, gradient_reach

DISTANCE = 3
PAIRS = [("abca", "acba bca"), ("bb", "bbbcacb"), ("c", "ab")]


@pytest.fixture(scope="module")
def transducer(trained: Path) -> Transducer:
    return transduce.load(trained, device="cpu")


def by_hand(transducer: Transducer, source: str, ids: list[int], t: int, k: int) -> float:
    """The norm of the gradient of the loss at place t with respect to the state before token t - k + 1."""
    model = transducer.model
    inputs = torch.tensor([[BOS, *ids]])
    with torch.enable_grad():
        state = model.start(transducer.padded([transducer.read_one(source)]))
        if t - k + 1:
            _, state = model.extend(inputs[:, : t - k + 1], state)
        state = tree.map(lambda leaf: leaf.detach().requires_grad_(leaf.is_floating_point()), state)
        leaves: list[torch.Tensor] = []
        tree.map(lambda leaf: (leaves.append(leaf), leaf)[1], state, lambda leaf: leaf)
        features, _ = model.extend(inputs[:, t - k + 1 : t + 1], state)
        loss = -model.readout(features)[0, -1].log_softmax(-1)[ids[t]]
        found = torch.autograd.grad(loss, [leaf for leaf in leaves if leaf.requires_grad], allow_unused=True)
    return float(sum(each.square().sum() for each in found if each is not None) ** 0.5)


def test_norms_are_those_of_a_state_unrolled_by_hand(transducer: Transducer) -> None:
    found = gradient_reach(transducer, PAIRS, DISTANCE)
    rows = [transducer.target_tokenizer.encode([target])[0] for _, target in PAIRS]
    long = [(source, ids) for (source, _), ids in zip(PAIRS, rows, strict=True) if len(ids) > DISTANCE]
    length = min(len(ids) for _, ids in long)
    assert found.positions == len(long) * (length - DISTANCE) > 4
    for k in range(1, DISTANCE + 1):
        each = [
            by_hand(transducer, source, ids[:length], t, k) for source, ids in long for t in range(DISTANCE, length)
        ]
        assert found.norms[k - 1] == pytest.approx(sum(each) / len(each), rel=1e-4)


def test_the_half_life_is_that_of_the_curve() -> None:
    assert GradientReach(tuple(3 * 2 ** (-k / 5) for k in range(1, 9)), 1).half_life == pytest.approx(5)
    assert GradientReach((1.0, 2.0, 4.0), 1).half_life == float("inf")
    assert GradientReach((1.0, 0.5, 0.0), 1).half_life == pytest.approx(1)  # 0 in float32 has no logarithm
    assert GradientReach((4.0, 2.0, 1.0), 1).lines()[1:3] == [
        f"   1          4  {40 * '█'}",
        f"   2          2  {39 * '█'}",
    ]


def test_a_state_that_grows_has_no_distance() -> None:
    rows = Padded.of([[4, 5, 6, 7, 8]])
    with pytest.raises(UserError, match="grows with the output"):
        _norms(build(FAMILIES["transformer, pre-norm"]), rows, rows, 2)


def test_inspect_shows_gradients(trained: Path, tmp_path: Path, call: Callable[..., Any]) -> None:
    asked = "inspect", trained, "abca", "--target=acbabca", "--gradients", "--distance=3", "--device=cpu"
    status, out, _ = call(*asked)
    assert status == 0
    assert out.splitlines()[-1].startswith("half-life")
    assert call(*asked, "--out", tmp_path / "reach.json")[0] == 0
    assert len(json.loads((tmp_path / "reach.json").read_text())["norms"]) == 3
    assert call(*asked, "--out", tmp_path / "reach.svg")[0] == 0
    assert "half-life" in (tmp_path / "reach.svg").read_text()
