"""A glossary requires a form of each term that a source has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from transduce.answers.request import Request
from transduce.core.errors import DataError
from transduce.search.constraints.phrases import Constraints
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


NAMED = {
    "a.csv": 'source;pos;target;case\nHund;noun;"dog|dogs";any\nhaus;;house;exact\nMann;;man\n',
    "a.tsv": "Term\tTranslation\tnote\tcase\nHund\tdog|dogs\tx\tAny\nhaus\thouse\t\texact\nMann\tman\n",
}


@pytest.mark.parametrize("name", NAMED)
def test_columns_with_names(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(NAMED[name], encoding="utf-8")
    read = Glossary.read(tmp_path / name)
    assert read.forms("hund Haus MANN") == [("dog", "dogs")]
    assert read.forms("haus Mann") == [("house",), ("man",)]


def test_a_table_without_names_and_a_wrong_case(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('"Hund, groß",dog,dogs\n', encoding="utf-8")
    assert Glossary.read(tmp_path / "a.csv").forms("Ein Hund, groß") == [("dog", "dogs")]
    (tmp_path / "a.csv").write_text("source,target,case\nx,y,loud\n")
    with pytest.raises(DataError, match=r"a\.csv:2: case = 'loud': any or exact"):
        Glossary.read(tmp_path / "a.csv")


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
