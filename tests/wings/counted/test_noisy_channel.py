"""Noisy channels: the posterior of words against enumeration, expectation maximisation, and a run from end to end."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import transduce
from families import FACTS, WORDS, build
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.core.types import BOS, EOS, PAD, Padded
from transduce.data.pairs import Pairs, Ragged
from transduce.search.forcing import force
from transduce.search.greedy import Greedy
from transduce.wings.counted.channel import Channel, ChannelCounts
from transduce.wings.counted.prefix_tree import PrefixTree

Call = Callable[..., tuple[int, str, str]]
LETTERS = {letter: place for place, letter in enumerate(FACTS.target_entries)}
COUNTS = {
    word: float(count or 1)
    for word, _, count in (line.partition("\t") for line in WORDS.read_text(encoding="utf-8").splitlines())
}
EVERYTHING = {"type": "noisy-channel", "words": str(WORDS), "width": 10**6, "keep": 10**6, "escape": 1e-12}


def padded(rows: list[list[int]]) -> Padded:
    longest = max(map(len, rows))
    return Padded(
        torch.tensor([row + [PAD] * (longest - len(row)) for row in rows]), torch.tensor(list(map(len, rows)))
    )


def ids(word: str) -> list[int]:
    return [LETTERS[letter] for letter in word]


def written(channel: Channel, word: list[int], copy: list[int]) -> float:
    """p(copy | word), by one token of the word after the other."""

    def rest(t: int, s: int) -> float:
        if t == len(word):
            return float(s == len(copy))
        before, after = [BOS, *word][t], [*word, EOS][t + 1]
        place, short = (int(each) for each in channel.places(*map(torch.tensor, (before, word[t], after))))
        first_K, more_K = channel.first_CK[place].tolist(), channel.more_DK[short].tolist()
        total = first_K[0] * rest(t + 1, s)
        if s < len(copy):
            total += first_K[1 + copy[s]] * more_K[0] * rest(t + 1, s + 1)
        if s + 1 < len(copy):
            total += first_K[1 + copy[s]] * more_K[1 + copy[s + 1]] * rest(t + 1, s + 2)
        return total

    return rest(0, 0)


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_the_posterior_is_that_of_enumeration(weight: float) -> None:
    model = build({**EVERYTHING, "weight": weight})
    channel = Channel(model.first, model.more, model.contexts, model.short_contexts)
    for copy in ([4, 5], [6, 4, 4], [], [8], [7, 7, 8, 5, 4]):
        chances = {
            word: written(channel, ids(word), copy) * (count / sum(COUNTS.values())) ** weight
            for word, count in COUNTS.items()
        }
        source = padded([[*copy, EOS]] * len(COUNTS))
        found = force(model, source, padded([[*ids(word), EOS] for word in COUNTS]))
        ours = torch.tensor([hypothesis.log_prob for hypothesis in found]).exp()
        expected = torch.tensor(list(chances.values())) / sum(chances.values())
        assert_close(ours.double(), expected.double(), atol=1e-6, rtol=1e-4)


def test_a_source_that_no_word_can_write_gets_the_most_frequent_words() -> None:
    model = build({**EVERYTHING, "keep": 1})
    ((best,),) = Greedy(max_length=9)(model, padded([[4] * 20 + [EOS]]))
    assert best.tokens == (*ids("ab"), EOS)


def test_pruning_keeps_the_words_that_are_searched_for() -> None:
    whole, pruned = build(EVERYTHING), build({**EVERYTHING, "width": 4, "keep": 2})
    source = padded([[5, 4, EOS], [4, 7, 8, EOS]])
    best, few = (Greedy(max_length=9)(model, source) for model in (whole, pruned))
    assert [hypotheses[0].tokens for hypotheses in best] == [hypotheses[0].tokens for hypotheses in few]
    assert int((pruned.start(source).candidates.value.chance_BC > 0).sum(1).max()) == 2


def test_every_prefix_of_the_tree_has_its_share() -> None:
    tree = PrefixTree.of([[*ids(word), EOS] for word in COUNTS], list(COUNTS.values()))
    for word in (*COUNTS, "abe", "c"):
        node, share = torch.tensor([0]), 0.0
        for token in [*ids(word), EOS]:
            edges, _ = tree.edges(node)
            share += float(tree.share_E[edges[tree.token_E[edges] == token]].sum())
            node = tree.after(torch.tensor([token]), node)
        assert (int(node) >= 0) == (word in COUNTS)
        if word in COUNTS:
            assert_close(math.exp(share), COUNTS[word] / sum(COUNTS.values()))


def pairs(rows: list[tuple[list[int], list[int]]]) -> Pairs:
    sides = []
    for side in (0, 1):
        lines = [[*row[side], EOS] for row in rows]
        sides.append(Ragged(np.concatenate(lines), np.cumsum([0, *map(len, lines)])))
    return Pairs(*sides)


def test_expectation_maximisation_counts_all_ways_to_write_a_copy() -> None:
    rows = [([4, 5], [4, 5]), ([4], [4, 5]), ([4, 4, 5], [4, 5]), ([6, 5, 5, 5], [6, 5]), ([], [4]), ([8] * 5, [4, 5])]
    nothing = tuple(torch.zeros(3, 0, dtype=torch.long))
    copies = torch.arange(9) * (torch.arange(9) > 3)
    ways = ChannelCounts(pairs(rows), nothing, copies, 9, smoothing=1e-6)
    assert ways.uncut.tolist() == [5]
    likelihoods = []
    for _ in range(4):
        expected = sum(math.log(written(ways.channel, word, copy)) for copy, word in rows[:5])
        likelihoods.append(ways.reestimate())
        assert_close(likelihoods[-1], expected)
        assert_close(ways.channel.first_CK.sum(1), torch.ones(len(ways.channel.first_CK)).double())
    assert likelihoods == sorted(likelihoods)
    # "4" alone is always dropped, and the last 5 of "6 5" always writes two tokens or three with the 6 before it
    place, _ = ways.channel.places(*map(torch.tensor, (BOS, 4, EOS)))
    assert_close(float(ways.channel.first_CK[place, 0]), 1.0, atol=1e-4, rtol=0)


def test_a_rare_context_backs_off_to_shorter_ones() -> None:
    rows = [([5], [4])] * 40
    contexts = tuple(torch.tensor([[6, 4, 7], [BOS, 6, EOS]]).unbind(1))
    ways = ChannelCounts(pairs(rows), contexts, torch.zeros(9, dtype=torch.long), 9, smoothing=5.0)
    ways.reestimate()
    unseen, _ = ways.channel.places(*map(torch.tensor, (6, 4, 7)))
    other, _ = ways.channel.places(*map(torch.tensor, (BOS, 6, EOS)))
    assert float(ways.channel.first_CK[unseen, 1 + 5]) > 0.8
    assert float(ways.channel.first_CK[other, 1 + 5]) < 0.3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width = 0: at least 1"),
        ({"weight": -1.0}, "weight = -1.0: at least 0"),
        ({"smoothing": 0.0}, "smoothing = 0.0: more than 0"),
        ({"escape": 1.0}, "escape = 1.0: more than 0 and less than 1"),
    ],
)
def test_values_that_are_not_allowed(options: config.Table, message: str) -> None:
    with pytest.raises(UserError, match=message):
        config.build({**EVERYTHING, **options}, Model, FACTS, "model")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ab\tmany\n", r"1: 'many' is no count of 'ab': expected a positive number"),
        ("ab\t0\n", "'0' is no count"),
        ("\n\n", "has no words: expected a word on each line"),
        ("xyz\n", "the training targets have other characters than each of the 1 words"),
    ],
)
def test_lists_that_cannot_be_used(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "words.tsv").write_text(text, encoding="utf-8")
    model: Any = config.build({**EVERYTHING, "words": str(tmp_path / "words.tsv")}, Model, FACTS, "model")
    with pytest.raises(UserError, match=message):
        model.counts(pairs([([4], [4])]))


def test_a_run_keeps_its_words_and_corrects(tmp_path: Path) -> None:
    words, train = tmp_path / "words.tsv", tmp_path / "train.tsv"
    words.write_text("hello\t10\nhelp\t5\nhell\t1\nworld\t7\nxylophone\n", encoding="utf-8")
    train.write_text("wrd\tword\nhelo\thallo\nplep\thelp\n", encoding="utf-8")
    files = {f"data.{split}.path": str(train) for split in ("train", "valid", "test")}
    settings = {**files, "model.words": str(words), "training.validation.times": 0}
    transduce.train("spelling-channel", tmp_path / "run", settings, device="cpu", progress=False)
    words.unlink()
    model = transduce.load(tmp_path / "run")
    assert [outputs[0].text for outputs in model.predict(["helo", "Wrld", "hlp"])] == ["hello", "world", "help"]


def test_units_other_than_characters_are_refused(tmp_path: Path) -> None:
    train = tmp_path / "train.tsv"
    train.write_text("wrd\tword\n", encoding="utf-8")
    files = {f"data.{split}.path": str(train) for split in ("train", "valid", "test")}
    with pytest.raises(UserError, match=r'set data\.units\.target to "characters"'):
        transduce.train("spelling-channel", tmp_path / "run", {**files, "data.units.target": "symbols"}, progress=False)
