"""Next-step accuracy: what each family would have written in each place, found out one place at a time."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from families import FAMILIES, PARALLEL, build, sources
from test_laws import padded_targets, sources_alone
from transduce.answers.transducer import Transducer
from transduce.core.types import BOS, EOS, UNK, Example, Prediction
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Characters
from transduce.evaluation.calibration import calibrate
from transduce.metrics.base import evaluate, metric
from transduce.search.greedy import Greedy
from transduce.search.length_beam import LengthBeam
from transduce.wings.labels.search import LabelSearch

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


def test_an_end_that_follows_from_the_source_is_no_choice() -> None:
    letters = Characters()
    sides = letters.learn(["abcde"]), letters.learn(["tuvwxyz"])
    tagger = Transducer(build(PARALLEL["tagger, lstm"]), LabelSearch(), Tokenizers(*sides))
    examples = [Example("abcd", ("tuvw",)), Example("", ("",)), Example("e", ("x",))]
    found = tagger.evaluate(examples, [metric("token_accuracy"), metric("perplexity")])
    assert [each.forced_length for each in found.predictions] == [4, 0, 1]
    written = [outputs[0].ids[:-1] for outputs in tagger.predict([each.source for each in examples])]
    wanted = [ids[:-1] for ids in sides[1].encode([each.references[0] for each in examples])]
    right = [sum(a == b for a, b in zip(*both, strict=True)) for both in zip(written, wanted, strict=True)]
    assert [each.forced_right for each in found.predictions] == right
    assert found.scores["token_accuracy"] == pytest.approx(100 * sum(right) / 5)
    surprise = -sum(each.forced_log_prob or 0.0 for each in found.predictions)
    assert found.scores["perplexity"] == pytest.approx(math.exp(surprise / 5))
    forced = list(tagger.score((each.source, each.references[0]) for each in examples))
    assert calibrate(forced).tokens == 5


def test_it_is_of_the_tokens_of_the_corpus() -> None:
    predictions = [Prediction("", forced_length=4, forced_right=1), Prediction("", forced_length=1, forced_right=1)]
    found = evaluate([metric("token_accuracy")], predictions, [Example("", ("a",))] * 2)
    assert found == {"token_accuracy": pytest.approx(100 * 2 / 5)}


def test_without_forcing_it_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"token_accuracy needs .* 'knowledge' has none: make predictions with"):
        metric("token_accuracy").statistics(Prediction("x"), Example("knowledge", ("y",)))


def test_of_tokens_that_are_equally_probable_one_is_right() -> None:
    """A model of zeros gives all tokens the same logit. In each place one token is right, and the search writes it."""
    for family, search in (
        (FAMILIES["luong, general"], Greedy(max_length=3)),
        (PARALLEL["instant, lstm to dense"], LengthBeam()),
        (PARALLEL["tagger, lstm"], LabelSearch()),
    ):
        model, source = build(family), sources([3, 1, 4])
        for parameter in model.parameters():
            torch.nn.init.zeros_(parameter)
        rights = []
        for token in range(UNK, 10):
            every = [[token, token, EOS], [EOS], [token, token, token, EOS]]
            forced = search.force(model, source, padded_targets(every))
            rights.append(sum(sum(h.right[: len(row) - 1]) for h, row in zip(forced, every, strict=True)))
        assert sorted(rights) in ([0] * 7, [0] * 6 + [5])  # all places of one token, or the end
        for row, (written, *_) in enumerate(search(model, source)):
            (forced_alone,) = search.force(model, sources_alone(source, row), padded_targets([list(written.tokens)]))
            assert all(forced_alone.right[: len(written.tokens) - 1])
