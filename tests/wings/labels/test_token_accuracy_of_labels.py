"""What the wing labels adds to test_token_accuracy.py."""

from __future__ import annotations

import math

import pytest
import torch

from families import FAMILIES, PARALLEL, build, sources
from test_laws import padded_targets, sources_alone
from transduce.answers.transducer import Transducer
from transduce.core.types import EOS, UNK, Example
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Characters
from transduce.evaluation.calibration import calibrate
from transduce.metrics.base import metric
from transduce.search.greedy import Greedy
from transduce.search.length_beam import LengthBeam
from transduce.wings.labels.search import LabelSearch


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
