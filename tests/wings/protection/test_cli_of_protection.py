"""What the wing protection adds to predict and to the server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from test_cli import Call

import transduce
from families import FAMILIES, build
from transduce import Extras, Protection
from transduce.answers.answer_values import answer_values
from transduce.cli.formats import as_tsv
from transduce.core.errors import UserError
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Characters, Symbols, Words
from transduce.search.greedy import Greedy
from transduce.wings.alignment.sides import Side
from transduce.wings.alignment.token_alignment import TokenAlignment
from transduce.wings.labels.linear import LinearClassifier
from transduce.wings.protection.placing import without
from transduce.wings.protection.projection import unit_weights
from transduce.wings.protection.text import units
from transduce.wings.serving.app import application
from transduce.wings.serving.catalogue import Catalogue


def symbols() -> Tokenizers:
    return Tokenizers(*(Symbols().learn(["a b c d e f g"]) for _ in range(2)))


def test_predict_keeps_spans(trained: Path, tmp_path: Path, call: Call) -> None:
    lines = b"<b>ab</b> {x}c %s\n{x}\n\nabc\n"
    asked = ["predict", trained, "--device=cpu", "--protect"]
    status, out, err = call(*asked, stdin=lines)
    first, second, empty, last = out.splitlines()
    assert (status, err) == (0, "")
    assert [first.count(span) for span in ("<b>", "</b>", "{x}", "%s")] == [1, 1, 1, 1]
    assert (second, empty, last) == ("{x}", "", call("predict", trained, "--device=cpu", stdin=b"abc\n")[1].strip())
    record = json.loads(call(*asked, "--format=jsonl", stdin=lines)[1].splitlines()[0])
    assert [record["text"][slice(*span["output"])] for span in record["spans"]] == ["<b>", "</b>", "{x}", "%s"]
    assert record["source"] == "<b>ab</b> {x}c %s"
    assert call(*asked, "--format=tsv", stdin=b"{x}\n")[1].split("\t")[2:] == ["{x}", "\n"]
    own = tmp_path / "own.txt"
    own.write_text("# comment\nQ+\n", encoding="utf-8")
    chosen = ["predict", trained, "--device=cpu", "--protect-kind=url", f"--protect-patterns={own}"]
    assert "QQ" in call(*chosen, stdin=b"aQQb{x}\n")[1]
    assert call(*asked, "--figures=de-en", stdin=b"1.234,5\n")[1] == "1,234.5\n"


def test_a_lost_span_is_told(trained: Path) -> None:
    model = replace(transduce.load(trained, device="cpu"), max_source_length=3)
    (answer,) = model.answer([transduce.Request("a {x}bccc{y}", extras=Extras(protect=True))])
    assert "input 1: the span '{y}' is not in the output: the source was cut before it" in answer.warnings(1)
    assert "{x}" in answer.best.text
    assert [span.span.text for span in answer.best.lost] == ["{y}"]
    assert next(as_tsv(answer)).endswith("\t{y}")
    assert [span["output"] is None for span in answer_values(answer)["spans"]] == [False, True]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--protect", "--alignments"], "alignments and frames"),
        (["--protect-kind=markups"], 'did you mean "markup"'),
        (["--protect-pattern=("], "pattern 1, '('"),
        (["--figures=de-en"], "--figures is for --protect"),
        (["--protect", "--figures=xx-en"], "'xx' is no known language"),
        (["--protect", "--stream"], "--stream writes one output"),
        (["--protect-patterns=/nothing"], "/nothing"),
    ],
)
def test_wrong_options_are_told_in_a_line(options: list[str], told: str, trained: Path, call: Call) -> None:
    status, _, err = call("predict", trained, "--device=cpu", *options, stdin=b"a\n")
    assert status != 0
    assert told in err
    assert "Traceback" not in err


def test_the_server_keeps_spans(trained: Path) -> None:
    model = transduce.load(trained, device="cpu")
    with TestClient(application(Catalogue.of({"reverse": model}))) as client:
        found = client.post("/predict", json={"source": "<b>ab</b> {x}", "protect": True}).json()["answers"][0]
        (own,) = next(model.predict(["<b>ab</b> {x}"], extras=Extras(protect=True)))[:1]
        assert found["text"] == own.text
        assert [span["text"] for span in found["spans"]] == ["<b>", "</b>", "{x}"]
        asked = {"source": "1,5 {x} Q(", "protect": ["number"], "phrases": ["Q("], "figures": "de-en"}
        (one,) = client.post("/predict", json=asked).json()["answers"]
        assert [span.get("written", span["text"]) for span in one["spans"]] == ["1.5", "Q("]
        for wrong in ({"protect": ["x"]}, {"phrases": [""]}, {"figures": "de-en"}, {"protect": True, "figures": "x"}):
            refused = client.post("/predict", json={"source": "a", **wrong})
            assert refused.status_code == 400, wrong


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        (Characters(), Symbols(), "writes symbols, such as phonemes"),
        (Symbols(), Symbols(), None),
        (Words(), Characters(), None),
        (Words(), None, "labels"),
    ],
)
def test_runs_whose_outputs_are_no_text_are_refused(source: Any, target: Any, told: str | None, trained: Path) -> None:
    texts = ["ab c", "c ab"]
    sides = Tokenizers(source.learn(texts), (target or Symbols()).learn(texts))
    model = replace(transduce.load(trained, device="cpu"), tokenizers=sides, token_for_token=target is None)
    if told is None:
        Protection().check(model)
        labels = replace(model, model=LinearClassifier.__new__(LinearClassifier))
        with pytest.raises(UserError, match="this linear-classifier model does not write token by token"):
            Protection().check(labels)
        return
    with pytest.raises(UserError, match=told):
        Protection().check(model)


def test_a_run_without_attention_places_spans_by_what_its_tokens_need(trained: Path) -> None:
    reads = transduce.load(trained, device="cpu")
    model = replace(reads, model=build(FAMILIES["lstm, no attention"]), tokenizers=symbols(), search=Greedy(7))
    (answer,) = model.answer([transduce.Request("a {x} b c", extras=Extras(protect=True))])
    assert answer.best.text.count("{x}") == 1
    assert answer.best.lost == []


def test_a_word_that_a_token_needs_decides_where_attention_does_not() -> None:
    protection = Protection()
    read = protection.read("a {x} b")
    spans = [(0, 1), (2, 3), (3, 3)]
    one, other = (Side(text, spans, [0, 1, None], False) for text in ("a b", "B A"))
    flat = TokenAlignment(torch.ones(3, 3) / 3, one, other)
    assert read.units == [(0, 1), (2, 3)]
    falls_TW = np.array([[0.0, 2.0], [2.0, 0.0], [0.0, 0.0]])  # "B" needs "b", and "A" needs "a"
    output = transduce.Output("B A", (), None, 0.0, ())
    weights_VW = unit_weights(flat, read.units, [(0, 1), (2, 3)], falls_TW)
    assert weights_VW.argmax(1).tolist() == [1, 0]
    assert protection.placed(protection.read("<b>a</b> b"), output, flat, falls_TW).text == "B <b>A</b>"


@pytest.mark.parametrize(
    ("text", "left"),
    [("a b c", ["b c", "a c", "a b "]), ("我爱", ["爱", "我"]), ("x\ty z", ["x\ty z", "x\tz", "x\ty "])],
)
def test_a_source_without_one_of_its_words(text: str, left: list[str]) -> None:
    assert [without(text, start, end) for start, end in units(text)] == left
