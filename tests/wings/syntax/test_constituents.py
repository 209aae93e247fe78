"""Constituency trees: their text, tags and brackets, the metric against EVALB's own example, and whole parsers."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_search import Lookup

from transduce import api, load
from transduce.core.errors import UserError
from transduce.core.types import EOS, Example, Padded, Prediction
from transduce.data.corpora import ColumnNames, Files
from transduce.data.rows import read as rows
from transduce.data.tokenizers.storage import from_record, record_of
from transduce.metrics.base import evaluate, metric
from transduce.metrics.statistics import statistics
from transduce.search.base import with_run
from transduce.search.beam import Beam
from transduce.search.forcing import force
from transduce.wings.syntax.constituents import (
    Constituent,
    Leaf,
    from_brackets,
    from_tags,
    read,
    to_brackets,
    to_tags,
    with_words,
)
from transduce.wings.syntax.filters.brackets import Brackets
from transduce.wings.syntax.tokenizers.trees import TreeBrackets, TreeTags

DOG = "(S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .))"
WE = "(S (NP (PRP We)) (VP (VBP agree)))"

labels = st.sampled_from(["S", "NP", "VP"])
trees = st.recursive(
    st.builds(Constituent, labels, st.lists(st.builds(Leaf), min_size=1, max_size=3)),
    lambda inside: st.builds(Constituent, labels, st.lists(st.one_of(inside, st.builds(Leaf)), min_size=1, max_size=3)),
    max_leaves=8,
)


@given(trees)
def test_tags_and_brackets_restore_every_tree(tree: Constituent) -> None:
    assert read(str(tree)) == tree
    assert from_tags(to_tags(tree)) == tree
    assert from_brackets(to_brackets(tree)) == tree
    assert len(to_tags(tree)) == len(tree.leaves)


@given(st.lists(st.sampled_from([*to_tags(read(DOG)), "+9|NP|S+VP", "-3|_|_", "1|S|_", "<unk>", "x"]), min_size=1))
def test_any_tags_are_a_tree_with_a_word_for_each(tags: list[str]) -> None:
    tree = from_tags(tags)
    assert len(tree.leaves) == len(tags)
    assert read(str(tree)) == tree  # no empty constituent, no missing label


@given(st.lists(st.sampled_from(["(S", "(NP", "XX", ")", "<unk>"])), st.lists(st.sampled_from(["a", "(", "b c"])))
def test_any_brackets_are_a_tree_with_the_words_of_the_source(items: list[str], words: list[str]) -> None:
    filled = with_words(from_brackets(items), words)
    assert [leaf.word for leaf in filled.leaves] == [w.replace("(", "-LRB-").replace(" ", "_") for w in words]
    assert not words or read(str(filled)) == filled


def test_the_parts_of_a_tag() -> None:
    assert to_tags(read(DOG)) == ["+2|NP|_", "1|S|_", "1|S|VP", "end|_|_"]
    assert to_tags(read("( (S (NP (NP (NN a)) (PP (IN b) (NP (NN c) (NN d))))))")) == [
        "1|ROOT+S+NP|NP",
        "+1|PP|_",
        "+1|NP|_",
        "end|_|_",
    ]
    with pytest.raises(UserError, match=r"the label 'A\|B' of a tree has '\+' or '\|', which join labels: rename it"):
        to_tags(read("(A|B (X x) (Y y))"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("(S (NP (PRP We))", "1 closing bracket is missing"),
        (WE + ")", "more text follows"),
        (") (S (X x))", "the bracket at character 1 closes nothing"),
        ("(S (NP ) (VP (X x)))", "the constituent that ends at character 8 is empty"),
        (f"{WE} {WE}", "one tree was expected"),
        ("", "it is empty"),
        ("(A " * 300 + "(X x)" + ")" * 300, "nested deeper than 200"),
    ],
)
def test_what_is_no_tree(text: str, problem: str) -> None:
    with pytest.raises(UserError, match="is not one tree such as") as raised:
        read(text)
    assert problem in str(raised.value)


# EVALB's own example (sample.gld, sample.tst, sample.rsl of the program), with its results: right, gold, test
GOLD = "(S (A (P this)) (B (Q is) (A (R a) (T test))))"
EVALB = [
    (GOLD, GOLD, (4, 4, 4)),
    (GOLD, GOLD.replace("(A (R", "(C (R"), (3, 4, 4)),
    (GOLD, GOLD.replace("(T test)", "(U test)"), (4, 4, 4)),
    (GOLD, "(S (A (P this)) (B (Q is) (R a) (A (T test))))", (3, 4, 4)),
    (GOLD, "(S (A (P this) (Q is)) (A (R a) (T test)))", (2, 4, 3)),
    (GOLD, "(S (P this) (Q is) (R a) (T test))", (1, 4, 1)),
    (GOLD, "(S (A (P this)) (B (Q is) (A (A (R a) (T test)))))", (4, 4, 5)),
    (GOLD, "(S (A (P this)) (B (Q is) (A (A (A (A (A (R a) (T test))))))))", (4, 4, 8)),
    (GOLD, f"(TOP {GOLD})", (4, 4, 4)),
    (GOLD.replace("(A (P", "(A-SBJ-1 (P").replace("(B", "(B-WHATEVER"), GOLD, (4, 4, 4)),
    (f"{GOLD[:-1]} (: *))", f"{GOLD[:-1]} (: *))", (4, 4, 4)),
    (f"{GOLD[:-1]} (-NONE- *))", f"{GOLD[:-1]} (-NONE- *))", (4, 4, 4)),
]


@pytest.mark.parametrize(("gold", "test", "counts"), EVALB)
def test_the_counts_of_evalb(gold: str, test: str, counts: tuple[int, int, int]) -> None:
    right, predicted, reference, exact, sentences = metric("bracket_f1").statistics(
        Prediction(test), Example("this is a test", (gold,))
    )
    assert (right, reference, predicted) == counts
    assert exact == (counts[0] == counts[1] == counts[2])
    assert sentences == 1


def test_punctuation_does_not_count() -> None:
    """EVALB leaves out punctuation: it may hang anywhere in the tree, and a constituent that has nothing else does not
    count. The words' parts of speech in the reference decide.
    """
    gold = "(S (NP (D the) (N dog)) (, ,) (VP (V barks)) (. .))"
    moved = "(S (NP (D the) (N dog) (X ,)) (VP (V barks) (X .)))"
    alone = "(S (NP (D the) (N dog)) (Y (, ,)) (VP (V barks)) (. .))"
    for tree in (moved, alone):
        assert metric("bracket_f1").statistics(Prediction(tree), Example("", (gold,))) == (3, 3, 3, 1, 1)


def test_particles_count_as_adverbs() -> None:
    """EVALB's EQ_LABEL ADVP PRT."""
    gold = "(S (NP (N we)) (VP (V give) (PRT (RP up))))"
    other = gold.replace("PRT", "ADVP")
    assert metric("bracket_f1").statistics(Prediction(other), Example("", (gold,))) == (4, 4, 4, 1, 1)


def test_scores_of_brackets() -> None:
    names = ["bracket_f1", "bracket_precision", "bracket_recall", "bracket_exact"]
    predictions = [Prediction("(S (NP (XX The) (XX dog)) (XX barks) (XX .))"), Prediction(WE), Prediction("no tree)")]
    examples = [Example("The dog barks .", (DOG,)), Example("We agree", (WE,)), Example("We agree", (WE,))]
    found = evaluate([metric(name) for name in names], predictions, examples)
    assert found == {
        "bracket_f1": pytest.approx(100 * 2 * 5 / (5 + 9)),
        "bracket_precision": 100.0,
        "bracket_recall": pytest.approx(100 * 5 / 9),
        "bracket_exact": pytest.approx(100 / 3),
    }
    short = metric("bracket_f1").statistics(Prediction("(S (NP (XX The) (XX dog)))"), Example("", (DOG,)))
    assert short == (0.0, 2.0, 3.0, 0.0, 1.0)  # if words are missing, no bracket is right


def well_formed(items: tuple[str, ...], words: int, nested: int) -> bool:
    """Returns whether the text is one tree of ``words`` words, with at most ``nested`` brackets opened in a row."""
    runs = [len(list(run)) for opens, run in itertools.groupby(items, lambda item: item[0] == "(") if opens]
    try:
        tree = read(" ".join(items).replace("XX", "(XX XX)"))
    except UserError:
        return not items and not words
    return len(tree.leaves) == words and max(runs, default=0) <= nested and items[0][0] == "("


def outputs(longest: int) -> Iterator[tuple[str, ...]]:
    for length in range(longest):
        yield from itertools.product(["(S", "XX", ")"], repeat=length)


@pytest.mark.parametrize(("words", "nested"), [(0, 2), (1, 1), (1, 3), (2, 2)])
def test_a_beam_with_room_for_all_writes_every_tree_and_nothing_else(words: int, nested: int) -> None:
    """The finished outputs are exactly the well-formed trees among all outputs of up to 7 tokens and EOS."""
    longest = 8
    units = TreeBrackets().learn(["(S (X x))"])
    model = Tables(3, vocabulary=len(units))
    source = Padded(torch.tensor([[4] * words + [EOS]]), torch.tensor([words + 1]))
    beam = Beam(size=400, nbest=400, max_length=longest, filters=(Brackets(nested),))
    (found,) = with_run(beam, _never, _Words(), units)(model, source)
    allowed = {each.tokens: each.log_prob for each in found if well_formed(_items(units, each.tokens), words, nested)}
    expected = {items for items in outputs(longest) if well_formed(items, words, nested)}
    assert {_items(units, tokens) for tokens in allowed} == expected
    unfinished = [each for each in found if each.tokens not in allowed]
    assert all(len(each.tokens) == longest for each in unfinished)  # the end at max_length is forced
    for tokens, log_prob in allowed.items():
        row = Padded(torch.tensor([tokens]), torch.tensor([len(tokens)]))
        assert force(model, source, row)[0].log_prob == pytest.approx(log_prob)


class Tables(Lookup):
    """A model that chooses its table by the length of the source."""

    def start(self, source: Any) -> Any:
        return super().start(source.lengths - 1)


class _Words:
    """A source vocabulary in which each id but EOS is a word."""

    entries = ()

    def decode(self, ids: list[int]) -> str:
        return " ".join(str(i) for i in ids if i != EOS)


def _never(path: Path) -> None:
    raise AssertionError(path)


def _items(units: object, tokens: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(units.tokens(tokens[:-1]))  # type: ignore[attr-defined]


def test_functions_of_labels_are_an_option() -> None:
    text = "(S (NP-SBJ (N We)) (VP=1 (V agree)) (-NONE- (X *) (X *)))"
    for unit in (TreeTags, TreeBrackets):
        without, kept = unit().learn([text]), unit(functions=True).learn([text])
        assert without.normalize(text) == "(S (NP (XX XX)) (VP (XX XX)) (-NONE- (XX XX) (XX XX)))"
        assert kept.normalize(text) == "(S (NP-SBJ (XX XX)) (VP=1 (XX XX)) (-NONE- (XX XX) (XX XX)))"
        for units in (without, kept):
            assert units.decode(units.encode([text])[0]) == units.normalize(text)
            again = from_record(record_of(units))
            assert (again.fingerprint, again.normalize(text)) == (units.fingerprint, units.normalize(text))
            spans = units.spans(text)
            assert len(spans) == len(units.encode([text])[0])
            assert [text[slice(*span)] for span in spans if "N We" in text[slice(*span)]] == ["(N We)"]


def test_the_filter_needs_brackets_and_its_vocabulary() -> None:
    units = TreeTags().learn([DOG])
    with pytest.raises(UserError, match=r'needs outputs of brackets: set data.units.target to "tree-brackets"'):
        with_run(Beam(filters=(Brackets(),)), _never, _Words(), units)
    with pytest.raises(UserError, match="does not know its vocabulary yet"):
        Beam(filters=(Brackets(),))(Lookup(1), torch.zeros(1, 1))
    with pytest.raises(UserError, match="nested = 0"):
        Brackets(0)


def test_a_file_of_trees(tmp_path: Path) -> None:
    (tmp_path / "a.trees").write_text(f"{DOG}\n(S (NP\n", encoding="utf-8")
    files = Files(path=str(tmp_path / "a.trees"))
    good, bad = rows(files)
    assert (good.source, good.target) == ("The dog barks .", DOG)
    assert bad.problem is not None
    assert "closing brackets are missing" in bad.problem.detail
    tagged = next(iter(rows(files, ColumnNames(source="words", target="pos"))))
    assert tagged.target == "DT NN VBZ ."
    with pytest.raises(UserError, match="has no column 'lemma': its columns are 'words', 'pos', 'tree'"):
        list(rows(files, ColumnNames(source="words", target="lemma")))
    with pytest.raises(UserError, match=r"has no column 3: its columns are 0 \(words\), 1 \(pos\) and 2 \(tree\)"):
        list(rows(files, ColumnNames(source=0, target=3)))


def made_up(folder: Path) -> dict[str, str]:
    draw = random.Random(0)
    nouns, verbs = ["dog", "cat", "owl"], ["sees", "likes"]
    lines = [
        f"(S (NP (DT the) (NN {draw.choice(nouns)})) (VP (V {draw.choice(verbs)}) (NP (NN {draw.choice(nouns)}))))"
        for _ in range(40)
    ]
    (folder / "a.trees").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {f"data.{split}.path": str(folder / "a.trees") for split in ("train", "valid")}


@pytest.mark.parametrize("recipe", ["parsing", "parsing-brackets"])
def test_a_parser_from_a_file_to_trees_with_words(recipe: str, tmp_path: Path) -> None:
    small = {"model.encoder.width": 16, "model.encoder.layers": 1, "training.steps": 6, "training.precision": "float32"}
    settings = {"data.cache": str(tmp_path / "cache"), "training.validation.every": 6} | small | made_up(tmp_path)
    trained = api.train(recipe, tmp_path / "run", settings, device="cpu", progress=False)
    source = "the ( owl"
    tree = read(trained(source))
    assert [leaf.word for leaf in tree.leaves] == ["the", "-LRB-", "owl"]
    again = load(tmp_path / "run")
    assert again(source) == str(tree)
    assert list(again.stream(source)) == [str(tree)]
    scored = next(again.score([("the dog sees cat", "(S (NP (DT the) (NN dog)) (VP (V sees) (NP (NN cat))))")]))
    assert scored.text == "(S (NP (XX the) (XX dog)) (VP (XX sees) (NP (XX cat))))"


def test_trees_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("We agree\t(S (NP\n", encoding="utf-8")
    settings = {f"data.{split}.path": str(tmp_path / "a.tsv") for split in ("train", "valid")}
    with pytest.raises(UserError, match=r"'\(S \(NP' is not one tree .* 2 closing brackets are missing"):
        api.train("parsing", tmp_path / "run", settings, progress=False)


def test_a_sentence_without_brackets_on_either_side_is_right() -> None:
    text = "(TOP (NN x))"
    found = statistics([metric("bracket_f1")], [Prediction(text)], [Example("", (text,))])[0]
    assert found.each().tolist() == [100.0]
    nothing = statistics([metric("bracket_precision")], [Prediction("x")], [Example("", ("(S (NN x))",))])[0]
    assert (nothing.each().tolist(), math.isnan(nothing.score)) == ([0.0], True)
