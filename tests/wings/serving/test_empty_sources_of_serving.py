"""What the wing serving adds to test_empty_sources.py."""

from __future__ import annotations

import pytest
from test_empty_sources import eager  # noqa: F401

import transduce
from transduce.answers.empty_sources import is_empty
from transduce.answers.request import Extras, Request
from transduce.core.types import UNK
from transduce.data.tokenizers.text import Characters
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.wings.labels.tokenizer import Labelled
from transduce.wings.serving.scheduler import Scheduler
from transduce.wings.signals.tokenizers.numbers import Numbers

EMPTY = ["", " ", "\t \u3000"]


def test_empty_lines_have_empty_outputs_in_every_way(eager: transduce.Transducer) -> None:
    for search in (Greedy(4), Beam(3, 2, max_length=4)):
        model = eager.with_search(search)
        requests = [Request(text) for text in (*EMPTY, "ab")]
        with Scheduler(model) as scheduler:
            served = list(scheduler.answers(requests))
        for answers in (list(model.answer(requests)), served):
            assert [answer.best.text for answer in answers[:-1]] == [""] * len(EMPTY)
            assert answers[-1].best.text
            for answer in answers[:-1]:
                (only,) = answer.outputs
                (scored,) = model.score([(answer.request.source, "")])
                assert only.log_prob == pytest.approx(scored.log_prob)
                assert (only.tokens, only.right) == (("</s>",), ())
        assert ["".join(model.stream(text)) for text in EMPTY] == [""] * len(EMPTY)
        assert model(EMPTY) == [""] * len(EMPTY)


def test_numbers_and_lines_of_several_columns_are_not_empty() -> None:
    assert is_empty("", Characters().learn(["a"]))
    assert not is_empty("", Numbers().learn(["1 2"]))
    assert not is_empty("\t", Labelled(Characters()).learn(["\ta"]))


def test_unk_is_written_where_its_replacement_is_asked_for(eager: transduce.Transducer) -> None:
    model = eager.with_search(Beam(3, 3, max_length=4))
    asked = Request("ab", extras=Extras(replace_unknowns={}))
    plain, replaced, again = model.answer([Request("ab"), asked, Request("ab")])
    assert not any(UNK in output.ids for answer in (plain, again) for output in answer.outputs)
    assert any(UNK in output.ids for output in replaced.outputs)
    assert "<unk>" not in replaced.best.text
    with Scheduler(model) as scheduler:
        served = [scheduler.submit(each).result() for each in (Request("ab"), asked)]
    assert [UNK in answer.best.ids for answer in served] == [False, UNK in replaced.best.ids]
