"""The tree of a beam search: against a beam written out step by step, in the terminal and as a page."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import transduce
from families import PARALLEL, build
from transduce.answers.transducer import Transducer
from transduce.core.types import BOS, EOS, PAD, UNK, Padded
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Characters
from transduce.search.allocation.groups import Groups
from transduce.search.beam import Beam
from transduce.search.filters.lengths import LengthLimit
from transduce.search.length_beam import LengthBeam
from transduce.wings.looking.inspection.beams import beam_tree
from transduce.wings.looking.inspection.tree import Node, SearchTree
from transduce.wings.looking.reports.search_tree import _placed, page, svg
from transduce.wings.pages.page import foreign

SOURCE, SIZE, LONGEST = "abca", 3, 6


@pytest.fixture(scope="module")
def transducer(trained: Path) -> Transducer:
    return transduce.load(trained, device="cpu")


@pytest.fixture(scope="module")
def tree(transducer: Transducer) -> SearchTree:
    return beam_tree(transducer, SOURCE, transducer.search.resized(SIZE, nbest=2))


def paths(node: Node, before: tuple[Node, ...] = ()) -> Iterator[tuple[Node, ...]]:
    """Yields every prefix in the tree as a path of nodes, without the root."""
    for child in node.children:
        yield (*before, child)
        yield from paths(child, (*before, child))


@torch.no_grad()
def following(transducer: Transducer, prefix: tuple[int, ...]) -> list[float]:
    """log p of each next token. Reads the whole prefix at once."""
    ids = transducer.source_tokenizer.encode([SOURCE])[0]
    state = transducer.model.start(Padded(torch.tensor([ids]), torch.tensor([len(ids)])))
    output, _ = transducer.model.extend(torch.tensor([[BOS, *prefix]]), state)
    log_probs: list[float] = transducer.model.readout(output)[0, -1].double().log_softmax(-1).tolist()
    return log_probs


def living(transducer: Transducer) -> list[set[tuple[int, ...]]]:
    """The prefixes in the beam after each step, found by sorting all continuations."""
    beam, steps = {(): 0.0}, []
    for _ in range(LONGEST - 1):
        every = {
            (*prefix, token): total + log_p
            for prefix, total in beam.items()
            for token, log_p in enumerate(following(transducer, prefix))
            if token not in (PAD, BOS, EOS, UNK)
        }
        beam = dict(sorted(every.items(), key=lambda entry: -entry[1])[:SIZE])
        steps.append(set(beam))
    return steps


def test_the_tree_is_the_beam(transducer: Transducer, tree: SearchTree) -> None:
    pieces = {
        token: transducer.target_tokenizer.tokens([token])[0] for token in range(len(transducer.target_tokenizer))
    }
    for length, expected in enumerate(living(transducer), 1):
        found = {
            tuple(node.label for node in path)
            for path in paths(tree.root)
            if len(path) == length and path[-1].fate == "lived"
        }
        if not found:  # the search stopped before its maximum length
            break
        assert found == {tuple(pieces[token] for token in prefix) for prefix in expected}
    assert length > 2


def test_every_total_is_the_sum_of_its_path(tree: SearchTree) -> None:
    for path in paths(tree.root):
        assert path[-1].total == pytest.approx(sum(node.added for node in path), abs=1e-5)


def test_what_was_returned_is_finished_and_ranked(transducer: Transducer, tree: SearchTree) -> None:
    finished = {path[-1].rank: path for path in paths(tree.root) if path[-1].rank is not None}
    assert sorted(finished) == [0, 1] == list(range(len(tree.hypotheses)))
    for rank, hypothesis in enumerate(tree.hypotheses):
        assert [node.label for node in finished[rank]] == transducer.target_tokenizer.tokens(hypothesis.tokens)
        assert finished[rank][-1].total == pytest.approx(hypothesis.log_prob, abs=1e-5)
        assert finished[rank][-1].score == hypothesis.score
        assert [node.added for node in finished[rank]] == pytest.approx(hypothesis.token_log_probs, abs=1e-5)
    assert all(node.best for node in finished[0])
    assert not finished[1][-1].best


def test_the_best_of_two_groups_that_find_the_same_is_one(transducer: Transducer) -> None:
    found = beam_tree(transducer, SOURCE, Beam(4, 2, 6, allocation=Groups(2, 0.0)))
    ranks = [path[-1].rank for path in paths(found.root) if path[-1].rank is not None]
    assert sorted(ranks) == [0, 1]
    assert sum(line.endswith("the best") for line in found.lines()) == 1


def test_greedy_search_is_a_single_line(transducer: Transducer) -> None:
    tree = beam_tree(transducer, SOURCE, transducer.search.resized(1))
    assert len(tree.lines()) == 1
    assert len(tree.lines(pruned=True)) > 1
    assert tree.texts == (next(transducer.predict([SOURCE], transducer.search.resized(1)))[0].text,)
    greedy = transducer.changed({"search.type": "greedy", "search.max_length": transducer.search.max_length})  # type: ignore[attr-defined]
    assert beam_tree(greedy, SOURCE).lines() == tree.lines()


def test_a_tree_is_of_as_many_outputs_as_the_search_has(transducer: Transducer) -> None:
    three = transducer.changed({"search.size": 4, "search.nbest": 3})
    assert beam_tree(three, SOURCE).texts == tuple(output.text for output in next(three.predict([SOURCE])))
    assert len(beam_tree(three, SOURCE).hypotheses) == 3


def test_a_long_source_is_cut_as_it_is_when_it_is_answered(transducer: Transducer) -> None:
    short = replace(transducer.changed({"search.size": 1}), max_source_length=3)  # two letters and the end
    found, expected = (beam_tree(short, source) for source in (SOURCE, SOURCE[:2]))
    assert found.root == expected.root
    assert found.hypotheses == expected.hypotheses
    assert found.root != beam_tree(transducer, SOURCE, short.search).root


def test_the_terminal_has_a_line_for_each_end(tree: SearchTree) -> None:
    kept = tree.root.without_pruned()
    ends = [path for path in paths(kept) if not path[-1].children]
    lines = tree.lines()
    assert sum(line.lstrip("│ ")[:1] in "├└" for line in lines) == len(lines) - 1
    assert [line for line in lines if "the best" in line] == [line for line in lines if "</s> ■" in line][:1]
    assert sum(" ×" in line for line in tree.lines(pruned=True)) == sum(
        path[-1].fate == "pruned" for path in paths(tree.root)
    )
    assert len(lines) >= len(ends)


@pytest.mark.slow
def test_a_tree_may_be_deeper_than_python_recurses(transducer: Transducer) -> None:
    """One deep tree comes from a search and has no branches. The other forks at every level."""
    depth = sys.getrecursionlimit() + 100
    node = beam_tree(transducer, SOURCE, Beam(1, 1, depth, filters=(LengthLimit(minimum=depth),))).root.without_pruned()
    chain, ends = node.chain()
    assert (len(chain), ends) == (1 + depth, ())
    forking = grown([])
    for _ in range(depth):
        forking = grown([forking, grown([])])
    tree = SearchTree(SOURCE, forking, (), ())
    assert len(tree.lines()) == 1 + 2 * depth
    assert page(tree).count('class="node"') == 2 * (1 + 2 * depth)


class Texts(HTMLParser):
    """The texts of a page, with the tag around each. Raises ValueError if a tag is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, str]] = []
        self.feed(html)
        if self.open:
            raise ValueError(f"open: {self.open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if self.open.pop() != tag:
            raise ValueError(f"</{tag}> closes another")

    def handle_data(self, data: str) -> None:
        self.found.append((self.open[-1] if self.open else "", data))


def test_the_page_draws_every_node_and_escapes_what_it_shows(transducer: Transducer) -> None:
    tree = beam_tree(transducer, "a<b>&", transducer.search.resized(SIZE))
    html = page(tree)
    texts = Texts(html).found
    nodes = 1 + sum(1 for _ in paths(tree.root)), 1 + sum(1 for _ in paths(tree.root.without_pruned()))
    assert sum(tag == "text" for tag, _ in texts) == sum(nodes)
    assert ("bdi", "a<b>&") in texts
    assert f"<h1>{foreign('a<b>&')}</h1>" in html
    assert "\n".join(tree.lines()) in [text for tag, text in texts if tag == "pre"]
    assert re.findall(r'<label><input type="radio" name="view" id="(\w+)"', html) == ["kept", "all"]
    assert "http" not in html
    assert "<script" not in html


def grown(children: list[Node]) -> Node:
    return Node("x", -1.0, -1.0, "lived", tuple(children))


@settings(max_examples=100, deadline=None)
@given(root=st.recursive(st.builds(grown, st.just([])), lambda trees: st.builds(grown, st.lists(trees, max_size=4))))
def test_no_line_of_the_drawing_crosses_another(root: Node) -> None:
    placed = _placed(root)
    places = {(each.column, each.row) for each in placed}
    assert len(places) == len(placed)
    along = {(each.column, each.row) for each in placed if each.parent and each.parent.row == each.row}
    for each in placed:
        if each.parent:
            assert each.column == each.parent.column + 1
            assert not {(each.column, row) for row in range(each.parent.row + 1, each.row + 1)} & along
    for row in {row for _, row in places}:
        columns = sorted(column for column, its in places if its == row)
        for one, other in pairwise(columns):  # at least one empty column separates two branches
            assert other > one + 1 or (other, row) in along


def test_what_was_pruned_is_drawn_on_request(tree: SearchTree) -> None:
    pruned = sum(path[-1].fate == "pruned" for path in paths(tree.root))
    assert svg(tree).count('<g class="pruned">') == 0 < pruned == svg(tree, pruned=True).count('<g class="pruned">')
    assert re.findall(r'id="(\w+)" checked', page(tree) + page(tree, pruned=True)) == ["kept", "all"]


def test_a_search_without_a_beam_has_no_tree(transducer: Transducer) -> None:
    with pytest.raises(
        ValueError, match=r"LengthBeam grows no tree, only a beam does: --set search\.type=beam, and no --shortlist"
    ):
        beam_tree(transducer, SOURCE, LengthBeam())


@pytest.mark.parametrize("search", [None, LengthBeam(), Beam()])
def test_a_model_that_no_beam_can_search_has_no_tree(search: Any) -> None:
    sides = [Characters().learn([letters]) for letters in ("abcde", "tuvwxyz")]
    instant = Transducer(build(PARALLEL["instant, lstm to dense"]), LengthBeam(), Tokenizers(*sides))
    with pytest.raises(ValueError, match=r"this instant model writes all at once, and a tree grows token by token"):
        beam_tree(instant, SOURCE, search)
