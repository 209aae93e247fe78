"""Shortlists: learning equals a slow EM, and search equals enumeration of the outputs on each sentence's own list."""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_cli import told
from test_prefix import BEGINNINGS, prefixes
from test_search import Lookup

from families import FAMILIES, all_lengths, build, sources
from selection import mostly_slow
from test_laws import pick, sources_alone
from transduce.core import config
from transduce.core.protocols import Search
from transduce.core.types import BOS, EOS, PAD, UNK, Padded
from transduce.data.pairs import Pairs, Ragged
from transduce.search.beam import Beam
from transduce.search.filters.ngrams import NoRepeat
from transduce.search.greedy import Greedy
from transduce.search.length_beam import LengthBeam
from transduce.search.ranking import LogProbability
from transduce.search.sampling import Sampling
from transduce.wings.counted import association
from transduce.wings.counted.association import associate, frequent
from transduce.wings.counted.commands.shortlist import _coverage
from transduce.wings.counted.shortlist import CandidateWords, Shortlist, on_every_list
from transduce.wings.ctc.search.best_path import BestPath
from transduce.wings.ctc.search.prefix_beam import PrefixBeam
from transduce.wings.labels.search import LabelSearch
from transduce.wings.labels.viterbi import Viterbi

Call = Callable[..., tuple[int, str, str]]
SENTENCES = [([4, 5, 2], [7, 8, 2]), ([4, 6, 2], [7, 9, 9, 2]), ([5, 2], [8, 2]), ([6, 4, 4, 2], [9, 7, 2])]


def ragged(rows: list[list[int]]) -> Ragged:
    return Ragged(np.array([id for row in rows for id in row]), np.cumsum([0, *map(len, rows)]))


PAIRS = Pairs(ragged([source for source, _ in SENTENCES]), ragged([target for _, target in SENTENCES]))


# ------------------------------------------------------------------- learning


def slow_model_1(sentences: list[tuple[list[int], list[int]]], iterations: int) -> dict[tuple[int, int], float]:
    t: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    for _ in range(iterations):
        count: dict[tuple[int, int], float] = defaultdict(float)
        for source, target in sentences:
            for f in target:
                total = sum(t[e, f] for e in source)
                for e in source:
                    count[e, f] += t[e, f] / total
        of_source: dict[int, float] = defaultdict(float)
        for (e, _), c in count.items():
            of_source[e] += c
        t = {(e, f): c / of_source[e] for (e, f), c in count.items()}
    return t


@pytest.mark.parametrize("iterations", [1, 4])
def test_association_is_expectation_maximisation(iterations: int) -> None:
    found = associate(PAIRS, iterations)
    rows = zip(found.source.tolist(), found.target.tolist(), found.probability.tolist(), strict=True)
    assert {(e, f): p for e, f, p in rows} == pytest.approx(slow_model_1(SENTENCES, iterations))


def test_the_best_of_each_source_word() -> None:
    best = associate(PAIRS, 8).best(2, 8, EOS)
    assert [best[word, 0] for word in (4, 5, 6)] == [7, 8, 9]
    assert best[7].tolist() == best[0].tolist() == [EOS, EOS]
    slow = slow_model_1(SENTENCES, 8)
    for word in (2, 4, 5, 6):
        targets = sorted((f for e, f in slow if e == word), key=lambda f: -slow[word, f])
        assert best[word].tolist() == targets[:2]


def test_frequent_words() -> None:
    assert set(frequent(PAIRS, 2).tolist()) == {7, 9}
    assert sorted(frequent(PAIRS, 9).tolist()) == [4, 5, 6, 7, 8, 9]  # no ends


def test_what_is_on_every_list_is_no_word_that_was_found() -> None:
    nothing = CandidateWords(torch.full((8, 2), EOS), on_every_list(torch.tensor([], dtype=torch.long)))
    assert _coverage(nothing, PAIRS) == (0.0, 0.0)
    assert _coverage(replace(nothing, always_A=on_every_list(torch.tensor([7, 9]))), PAIRS) == (6 / 8, 2.0)


def test_of_a_large_corpus_some_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(association, "MOST", 20)  # of 9 + 12 + 4 + 12
    found = associate(PAIRS, 3)
    rows = zip(found.source.tolist(), found.target.tolist(), found.probability.tolist(), strict=True)
    assert {(e, f): p for e, f, p in rows} == pytest.approx(slow_model_1(SENTENCES[::2], 3))


# ------------------------------------------------------------------ searching


def shortlist(tmp_path: Path, best: list[list[int]], frequent: list[int], search: Any) -> Shortlist:
    path = tmp_path / "list.safetensors"
    CandidateWords(torch.tensor(best), on_every_list(torch.tensor(frequent))).save(path)
    return Shortlist(path, search)


class Tables(Lookup):
    """A model whose sources are sentences of words 4 to 7. Its logits depend only on the first word."""

    def start(self, source: Any) -> Any:
        return super().start(source.values[:, 0] - 4)


def test_a_sentence_is_searched_among_its_own_words(tmp_path: Path) -> None:
    """All outputs, of probabilities renormalised over the list; nobody else's words, though they are columns too."""
    best = [[EOS, EOS]] * 4 + [[4, 5], [5, 6], [6, EOS], [4, 6]]
    search = shortlist(tmp_path, best, [UNK], Beam(200, 200, 4, LogProbability(), unknown=True))
    source, model = Padded(torch.tensor([[4, 6], [5, 7], [6, 5], [7, 0]]), torch.tensor([2, 2, 1, 1])), Tables()
    own = [{4, 5, 6}, {5, 6, 4}, {6}, {4, 6}]
    for row, found in enumerate(search(model, source)):
        words = [UNK, *sorted(own[row])]
        expected = {}
        for length in range(4):
            for body in itertools.product(words, repeat=length):
                y, total = (*body, EOS), 0.0
                for place, token in enumerate(y):
                    each = model.log_probs(row, y[:place])
                    listed = math.log(sum(math.exp(each[word]) for word in (PAD, BOS, EOS, *words)))
                    total += each[token] - listed
                expected[y] = total
        assert {h.tokens: h.log_prob for h in found} == pytest.approx(expected, abs=1e-9)


WORDS = [[EOS] * 2] * 4 + [[4, 5], [6, 5], [7, 8], [9, 4], [10, 5]]  # of families.FACTS: 9 source words, 11 target
INNER: dict[str, Any] = {
    "greedy": Greedy(7),
    "beam": Beam(3, 2, 7, filters=(NoRepeat(2),)),
    "sampling": Sampling(3, max_length=7),
}


@pytest.mark.parametrize("prefix", [False, True], ids=["free", "prefix"])
@pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
@pytest.mark.parametrize(
    "family",
    mostly_slow(["luong, coverage, fed", "pointer over transformer", "ensemble"], fast=["pointer over transformer"]),
)
def test_company(family: str, inner: Any, prefix: bool, tmp_path: Path) -> None:
    """The batch never changes an answer, though its readout has all sentences' words."""
    model, source, search = (
        build(FAMILIES[family]),
        sources(all_lengths(family)),
        shortlist(tmp_path, WORDS, [6], inner),
    )
    together = search(model, source, prefixes(BEGINNINGS) if prefix else None)
    for row in range(7):
        forced = prefixes([BEGINNINGS[row]]) if prefix else None
        (alone,) = search(model, sources_alone(source, row), forced)
        assert [h.tokens for h in alone] == [h.tokens for h in together[row]]
        assert [h.log_prob for h in alone] == pytest.approx([h.log_prob for h in together[row]], abs=1e-9)
        listed = {UNK, EOS, 6}.union(*(WORDS[id] for id in source.values[row].tolist()))
        for hypothesis in alone:
            begun = len(BEGINNINGS[row]) if prefix else 0
            assert hypothesis.tokens[:begun] == tuple(BEGINNINGS[row][:begun])  # whether on the list or not
            assert set(hypothesis.tokens) <= listed.union(BEGINNINGS[row][:begun])


def test_a_large_batch_of_different_lengths_keeps_each_sentences_list(tmp_path: Path) -> None:
    """An encoder reads so many sources in parts; each list still belongs to its own source."""
    name = "pointer over transformer"
    model, source = build(FAMILIES[name]), sources([1, 8, 2, 7, 3, 6] * 6)
    search = shortlist(tmp_path, WORDS, [6], Beam(3))
    together = search(model, source)
    alone = [search(model, sources_alone(source, row))[0] for row in range(len(together))]
    assert [[h.tokens for h in found] for found in together] == [[h.tokens for h in found] for found in alone]


def test_all_words_listed_is_no_shortlist(tmp_path: Path) -> None:
    model, source = build(FAMILIES["luong, general"]), sources([5, 2, 4])
    for inner in INNER.values():
        everything = shortlist(tmp_path, WORDS, list(range(4, 11)), inner)
        for found, free in zip(everything(model, source), inner(model, source), strict=True):
            assert [h.tokens for h in found] == [h.tokens for h in free]
            assert [h.score for h in found] == pytest.approx([h.score for h in free], abs=1e-9)


def test_it_streams_what_its_search_does(tmp_path: Path) -> None:
    model, source = build(FAMILIES["luong, general"]), pick(sources([5, 2, 4]), [1])
    for inner in (Greedy(8), Beam(3, max_length=8)):
        search = shortlist(tmp_path, WORDS, [], inner)
        found = search(model, source)[0][0].tokens
        begun = list(search.stream(model, source))
        assert begun[-1] == found
        assert all(found[: len(each)] == each for each in begun)
    assert len(begun := list(shortlist(tmp_path, WORDS, [], Greedy(8)).stream(model, source))) == len(begun[-1])


def test_other_verbs_are_the_searchs(tmp_path: Path) -> None:
    search = shortlist(tmp_path, WORDS, [], Beam(3))
    model, source = build(FAMILIES["luong, general"]), pick(sources([5, 2, 4]), [1])
    target = Padded(torch.tensor([[9, 9, EOS]]), torch.tensor([3]))
    assert search.force(model, source, target) == Beam(3).force(model, source, target)
    assert search.resized(7, 2) == Shortlist(search.path, Beam(7, 2))
    table = {"type": "shortlist", "path": str(search.path), "search": {"type": "beam", "size": 3}}
    assert config.build(table, Search) == search
    assert config.resolve(table, Search)["search"]["size"] == 3


# -------------------------------------------------------------------- errors, the command


def test_what_is_no_list_is_told(tmp_path: Path) -> None:
    model, source = build(FAMILIES["luong, general"]), sources([5, 2, 4])
    with pytest.raises(
        FileNotFoundError, match=r"nothing: there is no shortlist; learn it .* `transduce shortlist RUN`"
    ):
        Shortlist(tmp_path / "nothing")(model, source)
    (tmp_path / "broken").write_bytes(b"no tensors")
    with pytest.raises(ValueError, match="broken is no shortlist"):
        Shortlist(tmp_path / "broken")(model, source)
    with pytest.raises(ValueError, match="this shortlist knows 5 source tokens, the source has others"):
        shortlist(tmp_path, WORDS[:5], [], Beam())(model, source)


@pytest.mark.parametrize("search", [PrefixBeam(), BestPath(), LabelSearch(), LengthBeam(), Viterbi()])
def test_searches_that_do_not_go_word_by_word_have_no_shortlist(search: Any) -> None:
    name = type(search).__name__
    with pytest.raises(ValueError, match=rf"go token by token, and {name} asks its model to .*\(--shortlist\)"):
        Shortlist(Path("any"), search)


def test_the_command_learns_a_list_and_predicts_with_it(own_run: Path, call: Call) -> None:
    assert "there is no shortlist" in told(call("predict", own_run, "--shortlist", stdin=b"ab\n"))
    status, out, _ = call("shortlist", own_run, "--best=2", "--frequent=3")
    assert status == 0
    path, told_of = out.splitlines()
    assert Path(path) == own_run / "shortlist.safetensors"
    assert "% of the words of the validation set are on their sentence's list, which has" in told_of
    lists = CandidateWords.load(Path(path))
    assert lists.best_SN.shape[1] == 2
    assert len(lists.always_A) <= 4 + 3
    status, out, _ = call("predict", own_run, "--shortlist", "--format=jsonl", stdin=b"abc\n\ncab\n")
    assert status == 0
    assert len([json.loads(line) for line in out.splitlines()]) == 3
    assert "is no run directory" in told(call("shortlist", own_run.parent / "nothing"))
