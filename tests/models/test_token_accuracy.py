"""Next-step accuracy: what each family would have written in each place, found out one place at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from families import FAMILIES, PARALLEL, build, sources
from test_laws import padded_targets, sources_alone
from transduce.core.types import BOS, EOS, Example, Prediction
from transduce.metrics.base import evaluate, metric
from transduce.search.greedy import Greedy
from transduce.search.length_beam import LengthBeam

TARGETS = [[5, 4, 9, EOS], [EOS], [8, 8, EOS]]


def rights(search: Any, model: Any, source: Any) -> list[list[bool]]:
    """For each token of the targets, whether ``force`` says that it is the first choice."""
    forced = search.force(model, source, padded_targets(TARGETS))
    return [list(h.right) for h in forced]


@pytest.mark.parametrize(
    "family", ["luong, general", "pointer over transformer", "ensemble", "language model, mixed, no attention"]
)
@torch.no_grad()
def test_step_by_step(family: str) -> None:
    model, source = build(FAMILIES[family]), sources([3, 1, 4])
    expected = []
    for row, target in enumerate(TARGETS):
        state, read, found = model.start(sources_alone(source, row)), BOS, []
        for token in target:
            output, state = model.extend(torch.tensor([[read]]), state)
            found.append(int(model.readout(output)[0, 0, EOS:].argmax()) + EOS == token)  # no padding, no BOS
            read = token
        expected.append(found)
    assert rights(Greedy(), model, source) == expected
    assert rights(Greedy(), model.float(), source) == expected


@torch.no_grad()
def test_all_at_once_the_length_is_a_choice_too() -> None:
    model, source = build(PARALLEL["instant, lstm to dense"]), sources([3, 1, 4])
    expected = []
    for row, target in enumerate(TARGETS):
        state = model.start(sources_alone(source, row))
        emission = model.emit(state, torch.tensor([len(target) - 1]))
        words = model.readout(emission.output)[0].argmax(-1).tolist()
        length = int(state.length_log_probs[0].argmax())
        expected.append(
            [word == token for word, token in zip(words, target[:-1], strict=False)] + [length == len(target) - 1]
        )
    assert rights(LengthBeam(), model, source) == expected


def test_it_is_of_the_tokens_of_the_corpus() -> None:
    predictions = [Prediction("", forced_length=4, forced_right=1), Prediction("", forced_length=1, forced_right=1)]
    found = evaluate([metric("token_accuracy")], predictions, [Example("", ("a",))] * 2)
    assert found == {"token_accuracy": pytest.approx(100 * 2 / 5)}


def test_without_forcing_it_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"token_accuracy needs .* 'knowledge' has none: make predictions with"):
        metric("token_accuracy").statistics(Prediction("x"), Example("knowledge", ("y",)))
