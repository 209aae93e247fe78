"""Tokens that a vocabulary does not have are counted once, where text becomes ids, and told by every command."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import transduce
from transduce.answers.request import Request
from transduce.answers.shares import Shares
from transduce.data.tokenizers.text import Characters
from transduce.data.unknown import FEW, Unknown, unknown_in

Call = Callable[..., tuple[int, str, str]]


def test_the_count_as_a_sentence() -> None:
    tokenizer, total = Characters().learn(["ab"]), Unknown()
    for line in ("кот", "ab"):
        (row,) = tokenizer.encode([line])
        total.add(unknown_in(tokenizer, row, line))
    assert str(total) == "3 of 5 tokens (60 %) in 1 of 2 lines are unknown to the model: к о т"
    assert not Unknown(0, 5, 2)
    many = Unknown(FEW + 1, 10_000, 3, 1, tuple("vwxyz"))
    assert str(many) == "6 of 10,000 tokens (0.06 %) in 1 of 3 lines are unknown to the model: v w x y z …"


def test_a_cut_source_counts_what_the_model_reads(trained: Path) -> None:
    short = replace(transduce.load(trained, device="cpu"), max_source_length=4)
    (answer,) = short.answer([Request("aкккккк")])
    assert answer.truncated
    assert (answer.unknown.count, answer.unknown.tokens) == (2, 3)


# ------------------------------------------------------------------ commands


def test_an_answer_has_the_count(trained: Path, caplog: Any) -> None:
    model = transduce.load(trained, device="cpu")
    (answer,) = model.answer([Request("aк")])
    assert answer.unknown == Unknown(1, 2, 1, 1, ("к",))
    (answer,) = model.answer([Request("ab", target="кb")])
    assert (answer.unknown.count, answer.unknown_target.first) == (0, ("к",))
    assert not caplog.records
    model("к")
    assert "input: 1 of 1 tokens (100 %)" in caplog.text


def test_jsonl_has_the_count(trained: Path, call: Call) -> None:
    rows = [
        json.loads(line)
        for line in call("predict", trained, "--format=jsonl", stdin="aк\nab".encode())[1].split("\n")[:2]
    ]
    assert rows[0]["unknown"] == {"count": 1, "tokens": 2, "first": ["к"]}
    assert "unknown" not in rows[1]


def test_empty_outputs_are_told_if_they_are_many_and_their_references_are_not() -> None:
    shares = Shares()
    for output, references in [("", ["a"]), ("b", ["b"]), ("", [""]), (" ", ["", "c"])]:
        shares.compare_output(output, references)
    assert list(shares.lines()) == ["outputs: 2 of 3 (67 %) are empty, and their references are not"]
    assert not list(Shares(compared=20, empty=2).lines())
