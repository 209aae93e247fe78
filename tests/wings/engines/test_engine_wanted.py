"""Phrases that outputs must contain or must not contain, and lists of words: the engine finds what PyTorch finds."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
import torch
from test_engine_file import SEARCHES, TABLES, agree, content, needs_engine, resolved, rows_of, tokenizer

import transduce_engine
from families import FACTS, facts, sources
from selection import mostly_slow
from transduce.core import config
from transduce.core.protocols import Search
from transduce.core.types import EOS, Padded
from transduce.search.constraints.base import constrained
from transduce.search.constraints.phrases import Constraints, Tokenized
from transduce.wings.counted.shortlist import CandidateWords, Shortlist, on_every_list
from transduce.wings.engines.native.searches import search_table, told_apart
from transduce_engine import Engine, EngineError, Wanted
from transduce_engine.phrases import Lexicon

pytestmark = needs_engine
PHRASES: list[Constraints | None] = [
    Constraints(required=["bc"], forbidden=["a", "cc"]),
    None,
    Constraints(forbidden=["b", "ca", "g"]),
    Constraints(required=["d", ["aba", "fe"]]),
    Constraints(required=["abcabc"], forbidden=["aa"]),
]
SOME = ("greedy", "greedy, at least 4", "beam 5", "beam 4, wu", "beam 3, none, long", "samples, cut, long")
REQUIRING = ("beam 5", "beam 4, wu", "beam 3, none, long")
BEGUN = [[5], [], [4, 3], [], [6, 7]]


def lexicon_of(name: str) -> Lexicon:
    return Lexicon(tokenizer(facts(TABLES[name]).target_vocabulary))


def tokenized(lexicon: Lexicon, search: str) -> list[Tokenized]:
    """The phrases of each source; the forbidden ones alone for a search without hypotheses to choose among."""
    some = [each and (each if search in REQUIRING else Constraints(forbidden=each.forbidden)) for each in PHRASES]
    return [each.tokenized(lexicon) if each else Tokenized() for each in some]


@pytest.mark.parametrize(
    ("name", "search"),
    mostly_slow(list(product(TABLES, SOME)), fast=list(product(["transformer, pre-norm", "edits with counts"], SOME))),
)
@pytest.mark.parametrize("begun", [None, BEGUN], ids=["free", "begun"])
def test_the_engine_obeys_the_phrases_that_pytorch_obeys(name: str, search: str, begun: list[list[int]] | None) -> None:
    model, file = content(TABLES[name], SEARCHES[search])
    source, lexicon = sources([5, 1, 3, 8, 2]), lexicon_of(name)
    phrases = tokenized(lexicon, search)
    plain: Any = config.build(resolved(SEARCHES[search]), Search, FACTS, "search")
    held: Any = constrained(plain, phrases, lexicon, torch.device("cpu"))
    prefix = None if begun is None else Padded.of(begun, torch.long)
    bare, wanted = told_apart(held, source, prefix)
    assert search_table(bare) == search_table(plain)
    theirs = transduce_engine.load(file).search_ids(rows_of(source), json.dumps(search_table(bare)), wanted, batch=3)
    agree(held(model, source, prefix), theirs, stuck=True)


@pytest.mark.parametrize("search", ["beam 5", "greedy, at least 4", "samples, cut, long"])
def test_sources_with_phrases_have_the_answers_that_they_have_alone(search: str) -> None:
    name = "luong, ssru"
    engine, lexicon = transduce_engine.load(content(TABLES[name], SEARCHES[search])[1]), lexicon_of(name)
    rows = rows_of(sources([5, 1, 3, 8, 2]))
    pairs = [lexicon.automata(each.required, each.forbidden) for each in tokenized(lexicon, search)]
    some = [Wanted(required=[one], forbidden=[two], borders=lexicon.borders()) for one, two in pairs]
    alone = [engine.search_ids([row], "", wanted)[0] for row, wanted in zip(rows, some, strict=True)]
    running, found = engine.running(), dict[int, Any]()
    for number, wanted in enumerate(some):
        running.enter([number], rows[number : number + 1], wanted)
        found |= running.step()
    while len(found) < len(rows):
        found |= running.step()
    assert [found[number] for number in range(len(rows))] == alone


@pytest.mark.parametrize("unit", ["characters", "words"])
def test_texts_have_the_phrases_or_not(unit: str) -> None:
    """Random models write nonsense, but nonsense with the phrases, by any search; brute force looks for them."""
    engine = engine_of(unit)
    phrase, other = ("dab", "c") if unit == "characters" else ("cab dab", "abc")
    free = [answer.best.text for answer in engine.answer(["ab", "cab", ""], beam=8)]
    found = engine.answer(["ab", "cab", ""], beam=8, required=[phrase, [other, "never this"]][:1], forbidden=[other])
    assert all(phrase in answer.best.text and other not in words(answer.best.text, unit) for answer in found)
    assert not any(answer.broken for answer in found)
    assert [answer.best.text for answer in engine.answer(["ab", "cab"], beam=8)] == free[:2]


def words(text: str, unit: str) -> Any:
    return text.split() if unit == "words" else text


def engine_of(unit: str) -> Engine:
    from transduce.data.tokenizers.text import Words
    from transduce.wings.engines.export.engine import tokenizer_notes

    table, search = TABLES["convs2s"], SEARCHES["beam 5"]
    own: dict[str, str] = {}
    if unit == "words":
        texts = ["abc cab dab bad", "cab dab bad, abc"]
        size = facts(table).target_vocabulary
        learned = Words().learn(texts)
        assert len(learned) <= size
        more = Words().learn([*texts, " ".join(f"w{n}" for n in range(size - len(learned)))])
        own = {"target": json.dumps(tokenizer_notes(more, "target"))}
    return transduce_engine.load(content(table, search, **own)[1])


@pytest.mark.parametrize("search", ["greedy", "beam 5", "samples"])
@pytest.mark.parametrize("begun", [None, BEGUN], ids=["free", "begun"])
def test_a_shortlist_is_the_one_of_pytorch(search: str, begun: list[list[int]] | None) -> None:
    name = "transformer, pre-norm"
    model, file = content(TABLES[name], SEARCHES[search])
    known = facts(TABLES[name])
    drawn = torch.randint(4, known.target_vocabulary, (known.source_vocabulary, 1), generator=torch.manual_seed(3))
    shortlist = Shortlist("nowhere", config.build(resolved(SEARCHES[search]), Search, FACTS, "search"))  # type: ignore[arg-type]
    vars(shortlist)["candidates"] = CandidateWords(drawn, on_every_list(torch.tensor([7])))
    source, prefix = sources([5, 1, 3, 8, 2]), None if begun is None else Padded.of(begun, torch.long)
    plain, wanted = told_apart(shortlist, source, prefix)
    assert any(len(row) < known.target_vocabulary for row in wanted.listed)
    theirs = transduce_engine.load(file).search_ids(rows_of(source), json.dumps(search_table(plain)), wanted)
    agree(shortlist(model, source, prefix), theirs)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted(forbidden=[[5, 1]]), "the phrases are no automaton of this vocabulary"),
        (Wanted(forbidden=[[2, *[0] * 8, 0, 99, 0, 0]]), "the phrases are no automaton of this vocabulary"),
        (Wanted(required=[[2, *[0] * 6, 7, 0]]), "the phrases are no automaton of this vocabulary"),
        (Wanted(listed=[[2, 2]]), "id 2 cannot stand at this place in a list"),
        (Wanted(listed=[[0, 99]]), "id 99 cannot stand at this place in a list"),
        (Wanted(prefixes=[[5], [6]]), "prefixes has 2 rows for 1 sources: one for each was expected"),
    ],
)
def test_wrong_wishes_end_in_a_line(wanted: Wanted, message: str) -> None:
    engine = transduce_engine.load(content(TABLES["convs2s"], SEARCHES["beam 5"])[1])
    with pytest.raises(EngineError) as caught:
        engine.search_ids([[5, EOS]], "", wanted)
    assert str(caught.value) == message
    with pytest.raises(EngineError):
        engine.running().enter([1], [[5, EOS]], wanted)


def test_required_phrases_need_a_beam() -> None:
    engine = transduce_engine.load(content(TABLES["convs2s"], SEARCHES["greedy"])[1])
    with pytest.raises(EngineError, match=r"^required phrases need hypotheses to choose among: use a beam$"):
        engine.answer(["ab"], required=["b"])
    assert "b" in engine.answer(["ab"], beam=4, required=["b"])[0].best.text
    with pytest.raises(EngineError, match=r"^the required 'é' cannot be written: the model's vocabulary lacks a part"):
        engine.answer(["ab"], beam=4, required=["é"])
