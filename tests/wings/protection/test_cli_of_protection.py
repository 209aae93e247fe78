"""What the wing protection adds to predict and to the server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from test_cli import Call

import transduce
from transduce import Extras, Protection
from transduce.answers.answer_values import answer_values
from transduce.cli.formats import as_tsv
from transduce.core.errors import UserError
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Characters, Symbols, Words
from transduce.wings.serving.app import application


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
    with TestClient(application({"reverse": model})) as client:
        found = client.post("/predict", json={"source": "<b>ab</b> {x}", "protect": True}).json()["answers"][0]
        (own,) = next(model.predict(["<b>ab</b> {x}"], extras=Extras(protect=True)))[:1]
        assert found["text"] == own.text
        assert [span["text"] for span in found["spans"]] == ["<b>", "</b>", "{x}"]
        asked = {"source": "1,5 {x} Q", "protect": ["number"], "patterns": ["Q"], "figures": "de-en"}
        (one,) = client.post("/predict", json=asked).json()["answers"]
        assert [span.get("written", span["text"]) for span in one["spans"]] == ["1.5", "Q"]
        for wrong in ({"protect": ["x"]}, {"patterns": ["("]}, {"figures": "de-en"}, {"protect": True, "figures": "x"}):
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
        return
    with pytest.raises(UserError, match=told):
        Protection().check(model)
