"""Phrases that outputs must contain or must not contain, and lists of words: the engine finds what PyTorch finds."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from test_engine_file import SEARCHES, TABLES, agree, content, needs_engine, resolved, rows_of, tokenizer

import transduce_engine
from families import FACTS, build, facts, sources
from selection import mostly_slow
from transduce.core import config
from transduce.core.protocols import Model, Search
from transduce.core.types import EOS, Padded
from transduce.data.tokenizers.text import Words
from transduce.search.constraints.base import constrained
from transduce.search.constraints.phrases import Constraints, Tokenized
from transduce.wings.counted.shortlist import CandidateWords, Shortlist, on_every_list
from transduce.wings.engines.export.engine import tokenizer_notes
from transduce.wings.engines.native.content import model_content
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


UNTIED = [name for name in TABLES if name != "joint n-grams, the probable ones"]
"""Pruned readings have no phrase that is forced: then all tokens are equally probable, and rounding chooses."""


@pytest.mark.parametrize(
    ("name", "search"),
    mostly_slow(list(product(UNTIED, SOME)), fast=list(product(["transformer, pre-norm", "edits with counts"], SOME))),
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


def test_one_text_is_no_list_of_phrases() -> None:
    engine = engine_of("characters")
    for name in ("required", "forbidden"):
        with pytest.raises(EngineError, match=f"{name} = 'dab': a list of phrases was expected"):
            engine.answer(["ab"], **{name: "dab"})  # type: ignore[arg-type]


def words(text: str, unit: str) -> Any:
    return text.split() if unit == "words" else text


def engine_of(unit: str) -> Engine:
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


ROUNDED = "ctc and attention"  # sums of the unlikely words of a list are rounded by more than others
LISTED = list(product([name for name in TABLES if name != ROUNDED], ["greedy", "beam 5", "samples"]))


@pytest.mark.parametrize(
    ("name", "search"),
    mostly_slow(LISTED, fast=[each for each in LISTED if each[0] in ("transformer, pre-norm", "edits with counts")]),
)
@pytest.mark.parametrize("begun", [None, BEGUN], ids=["free", "begun"])
def test_a_shortlist_is_the_one_of_pytorch(name: str, search: str, begun: list[list[int]] | None) -> None:
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


def test_a_matrix_of_the_listed_words_has_the_numbers_of_the_whole_one() -> None:
    """A list of all words changes nothing, bit for bit, also in int8."""
    for precision in ("float32", "int8"):
        name = "transformer, post-norm, tied"
        engine = transduce_engine.load(content(TABLES[name], SEARCHES["beam 5"], precision)[1])
        rows, size = rows_of(sources([5, 1, 3])), facts(TABLES[name]).target_vocabulary
        every = Wanted(listed=[list(range(size))] * 3)
        assert engine.search_ids(rows, "", every) == engine.search_ids(rows)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted(forbidden=[[5, 1]]), "the phrases are no automaton of this vocabulary"),
        (Wanted(forbidden=[[2, *[0] * 8, 0, 99, 0, 0]]), "the phrases are no automaton of this vocabulary"),
        (Wanted(required=[[2, *[0] * 6, 7, 0]]), "the phrases are no automaton of this vocabulary"),
        (Wanted(listed=[[2, 2]]), "id 2 cannot stand at this place in a list"),
        (Wanted(listed=[[0, 1, 2, 3, 99]]), "id 99 cannot stand at this place in a list"),
        (Wanted(listed=[[0, 1, 2, 3, 6, 6]]), "id 6 cannot stand at this place in a list"),
        (Wanted(listed=[[0, 1]]), "a list lacks the special tokens"),
        (Wanted(listed=[[0, 1, 2, 3, 5]], prefixes=[[6]]), "a list lacks an id of its prefix"),
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


def test_a_file_has_the_shortlist_of_its_run(trained: Path, tmp_path: Path, call: Any) -> None:
    """The run reverses letters, so its lists have each source's own. The file searches among them as the run does."""
    run, file = tmp_path / "run", tmp_path / "listed.engine"
    shutil.copytree(trained, run)
    code, _, err = call("export", run, "--to", "engine", "--out", file, "--shortlist")
    assert (code, "learn it from the training pairs with `transduce shortlist RUN`" in err) == (2, True)
    assert call("shortlist", run, "--best", "1", "--frequent", "0")[0] == 0
    code, out, err = call("export", run, "--to", "engine", "--out", file, "--shortlist")
    assert (code, "32 of 32 outputs are equal" in out) == (0, True), err
    lines = b"abc\nxyzzy a\n"
    for options in ([], ["--beam", "3", "--nbest", "2"], ["--prefix", "q"], ["--format", "jsonl", "--beam", "1"]):
        own = call("predict", run, "--shortlist", *options, stdin=lines)
        native = call("predict", run, "--shortlist", "--engine", "native", *options, stdin=lines)
        found = call("predict", file, *options, stdin=lines)
        assert own[0] == native[0] == found[0] == 0, (own, native, found)
        if "jsonl" not in options:
            assert own[1] == native[1] == found[1]
    code, _, err = call("predict", file, "--forbid", "a", stdin=lines)
    assert (code, "phrases need a search without a shortlist" in err) == (2, True)
    code, _, err = call("export", run, "--to", "native", "--shortlist")
    assert (code, "--shortlist, --to native: a list is in the file of an engine and in a page" in err) == (2, True)


def shortlisted(**lists: torch.Tensor) -> bytes:
    """The file of a small model with a shortlist, of which these tensors are others."""
    size = facts(TABLES["convs2s"]).source_vocabulary
    right = {"best": torch.full((size,), 5).to(torch.uint16), "always": torch.arange(4).to(torch.uint16)}
    search = resolved(SEARCHES["greedy"]) | {"shortlist": 1}
    return listed_content(search, {f"shortlist.{name}": tensor for name, tensor in (right | lists).items()})


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"best": torch.full((3,), 5).to(torch.uint16)}, "shortlist.best has shape"),
        ({"best": torch.full((9,), 99).to(torch.uint16)}, "its shortlist has words of another vocabulary"),
        ({"always": torch.tensor([0, 1, 2, 4]).to(torch.uint16)}, "its shortlist lacks the special tokens"),
        ({"always": torch.tensor([0.5])}, "shortlist.always has shape"),
    ],
)
def test_a_file_with_a_wrong_shortlist_is_refused(lists: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        transduce_engine.load(shortlisted(**lists))


def test_a_file_with_a_shortlist_searches_among_its_words() -> None:
    engine = transduce_engine.load(shortlisted())
    assert {token for answer in engine.answer_ids([[4, 5, EOS]]) for token in answer.best.ids} <= {2, 5}
    with pytest.raises(EngineError, match=r"^it has no shortlist\.best"):
        transduce_engine.load(listed_content(resolved(SEARCHES["greedy"]) | {"shortlist": 1}, {}))


def listed_content(search: config.Table, lists: dict[str, torch.Tensor]) -> bytes:
    """The file of ``content`` with more tensors."""
    table = TABLES["convs2s"]
    known = facts(table)
    texts = {
        "source": json.dumps(tokenizer_notes(tokenizer(known.source_vocabulary), "source")),
        "target": json.dumps(tokenizer_notes(tokenizer(known.target_vocabulary), "target")),
        "search": json.dumps(search),
        "limits": json.dumps({"max_source_length": 100, "keeps_empty": False}),
        "settings": "{}",
    }
    model = build(table, dtype=torch.float32)
    return model_content(model, config.resolve(table, Model, known, "model"), "float32", texts, more=lists)
