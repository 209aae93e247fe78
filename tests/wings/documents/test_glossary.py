"""A glossary requires a form of each term that a source has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from transduce.answers.request import Request
from transduce.core.errors import DataError
from transduce.search.constraints.base import Constraints
from transduce.wings.documents.glossary import Glossary

TERMS = """\
# a comment

Haus\thouse\thouses
haus am see\tlake house
Apple\tApple
\u732b\tcat
\u0915\u093f\tthat
"""


@pytest.fixture
def glossary(tmp_path: Path) -> Glossary:
    (tmp_path / "terms.tsv").write_text(TERMS, encoding="utf-8")
    return Glossary.read(tmp_path / "terms.tsv")


@pytest.mark.parametrize(
    ("source", "forms"),
    [
        ("Das Haus, das Haus!", [("house", "houses")]),  # once
        ("ein haus", []),  # a term with a capital is found as it is written
        ("Ein HAUS AM SEE, ein Haus", [("lake house",), ("house", "houses")]),  # the longest first
        ("Hausboot", []),  # whole words
        ("\u9ed2\u732b\u3060", [("cat",)]),  # no spaces
        ("\u0915\u093f\u0924\u093e\u092c", []),  # vowel signs belong to the word
        ("\u0915\u093f", [("that",)]),
    ],
)
def test_terms_are_whole_words_the_longest_first(glossary: Glossary, source: str, forms: list[tuple[str, ...]]) -> None:
    assert glossary.forms(source) == forms


def test_a_request_keeps_its_own_phrases(glossary: Glossary) -> None:
    own = Request("Apple", constraints=Constraints(["x"], ["y"]))
    assert glossary.applied(own).constraints == Constraints(["x", ("Apple",)], ["y"])
    assert glossary.applied(Request("none")).constraints is None


@pytest.mark.parametrize(("text", "message"), [("a\n", ":1: 'a'"), ("a\t \n", ":1: "), ("\n", "has no terms")])
def test_a_wrong_line_is_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "terms.tsv").write_text(text)
    with pytest.raises(DataError, match=message):
        Glossary.read(tmp_path / "terms.tsv")


def test_predict_writes_the_terms(trained: Path, tmp_path: Path, call: Callable[..., tuple[int, str, str]]) -> None:
    (tmp_path / "terms.tsv").write_text("ab\tdd\tcc\n")
    asked = ("--glossary", tmp_path / "terms.tsv", "--format", "jsonl", "--beam", "4", "--device=cpu")
    status, out, _ = call("predict", trained, *asked, stdin=b"ab\nba\n")
    assert status == 0
    has_it = [any(form in json.loads(line)["text"] for form in ("dd", "cc")) for line in out.splitlines()]
    assert has_it == [True, False]
