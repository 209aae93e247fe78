"""The linear tagger: its features against those of strings, and what it learns from them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from families import paired
from transduce.core.errors import UserError
from transduce.core.types import UNK, Padded
from transduce.data.tokenizers.text import Characters, Symbols
from transduce.wings.labels.linear_tagger import LinearTagger
from transduce.wings.labels.spelled import Spelled, shape
from transduce.wings.labels.word_features import divided, features

TEXTS = ["The dog barks", "the dogs bark", "a cat naps", "Dogs", "", "dog a dog barks", "naps the cat ?"]
UNIT = Spelled(Characters(), words=Symbols(lowercase=True, minimum_count=2), shapes=True).learn(TEXTS)
DET, NOUN, VERB = 4, 5, 6


def padded(texts: Sequence[str], tokenizer: Any = UNIT) -> Padded:
    rows = [torch.tensor(row) for row in tokenizer.encode(texts)]
    return Padded(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows]))


def strings(texts: Sequence[str]) -> list[list[object]]:
    """The features of each word, by their definition in ``LinearTagger``."""
    every = [word.lower() for text in TEXTS for word in text.split()]
    found: list[list[object]] = []
    for text in texts:
        pieces = [(shape(word), *word) for word in text.split()]
        known = [word.lower() if every.count(word.lower()) > 1 else (shape(word), word) for word in text.split()]
        ending = [each[-3:] if len(each) >= 3 else each for each in pieces]

        def near(of: Sequence[object], place: int) -> object:
            return of[place] if 0 <= place < len(of) else None

        for t, own in enumerate(pieces):
            around = [near(known, t + by) for by in (-1, 1, -2, 2)]
            ends = [near(ending, t + by) for by in (-1, 1)]
            shapes = [near([each[:1] for each in pieces], t + by) for by in (-1, 1)]
            first = [own[:n] if n <= len(own) else None for n in range(1, 6)]
            last = [own[-n:] if n <= len(own) else None for n in range(1, 6)]
            pairs = [(around[0], known[t]), (known[t], around[1]), (around[0], around[1]), (around[2], around[0])]
            pairs += [(around[1], around[3]), (ends[0], ending[t]), (ending[t], ends[1]), (own[:1], *ends)]
            found.append([known[t], own, *first, *last, *around, *ends, *shapes, *pairs])
    return found


def test_features_are_those_of_the_strings() -> None:
    source, wanted = padded(TEXTS), strings(TEXTS)
    words = divided(source, len(UNIT) - UNIT.words)
    assert words.count_B.tolist() == [len(text.split()) for text in TEXTS]
    found = features(source, words).tolist()
    assert [len(row) for row in found] == [len(row) for row in wanted]
    for (own, keys), (other, other_keys) in itertools.combinations(zip(wanted, found, strict=True), 2):
        assert [a == b for a, b in zip(own, other, strict=True)] == [
            a == b for a, b in zip(keys, other_keys, strict=True)
        ]
    assert len(set(itertools.chain(*found))) == sum(len(set(map(str, column))) for column in zip(*wanted, strict=True))


def test_a_source_without_marks_has_a_word_for_each_token() -> None:
    source = Padded(torch.tensor([[5, 6, 5, 2], [6, 2, 0, 0], [2, 0, 0, 0]]), torch.tensor([4, 2, 1]))
    words = divided(source, 9)
    assert words.count_B.tolist() == [3, 1, 0]
    keys = features(source, words)
    assert torch.equal(keys[0, :12], keys[2, :12])  # its own spelling
    assert not torch.equal(keys[0, :12], keys[1, :12])
    empty = Padded(torch.tensor([[2]]), torch.tensor([1]))
    assert len(features(empty, divided(empty, 9))) == 0


def trained(
    texts: Sequence[str], label: Callable[[int, list[str]], int], tokenizer: Any = UNIT, **options: Any
) -> LinearTagger:
    model = LinearTagger(len(tokenizer) - tokenizer.words, 8, tokenizer.words, **options)
    targets = [[label(t, text.split()) for t in range(len(text.split()))] for text in texts]
    counts = model.counts(paired([(row, [*own, 2]) for row, own in zip(tokenizer.encode(texts), targets, strict=True)]))
    before = counts.reestimate()
    assert counts.reestimate() > before  # the labels became more probable
    return model


def tags(model: LinearTagger, text: str) -> list[int]:
    logits = model.start(padded([text]))
    return list(logits.values[0].argmax(-1)[: int(logits.lengths[0])])


def test_it_learns_from_endings_and_from_neighbours() -> None:
    nouns, verbs = ["dog", "cat", "bark", "nap"], ["barks", "naps", "runs", "sees"]
    texts = [f"the {noun} {verb}" for noun in nouns for verb in verbs] * 8

    def by_place(t: int, words: list[str]) -> int:
        return (DET, NOUN, VERB)[t]

    model = trained(texts, by_place)
    assert tags(model, "the zebra jumps") == [DET, NOUN, VERB]  # neither word is known
    assert tags(model, "The bark barks") == [DET, NOUN, VERB]

    def after_the(t: int, words: list[str]) -> int:
        return NOUN if words[t - 1] == "the" else VERB

    alike = ["the nap", "a nap", "the bark", "a bark"] * 16
    neighbours = trained(alike, after_the)
    assert tags(neighbours, "the nap")[1] == NOUN
    assert tags(neighbours, "a nap")[1] == VERB


def test_labels_that_are_unknown_are_left_out() -> None:
    model = trained(["the dog barks"] * 40, lambda t, words: UNK if t == 1 else VERB)
    assert tags(model, "the dog barks") == [VERB] * 3
    assert float(model.start(padded(["the dog"])).values.softmax(-1)[0, 0, NOUN]) < 1e-6
    with pytest.raises(UserError, match="no label"):
        trained(["the dog"], lambda t, words: UNK)


def test_counting_again_gives_the_same_weights() -> None:
    texts = ["the dog barks", "a cat naps"] * 20
    one, other, fewer = (trained(texts, lambda t, words: DET + t, minimum_count=n) for n in (2, 2, 30))
    assert torch.equal(one.weight, other.weight)
    assert torch.equal(one.keys, other.keys)
    assert len(fewer.keys) < len(one.keys)


def test_wrong_options_and_targets_are_told() -> None:
    with pytest.raises(UserError, match="minimum_count"):
        LinearTagger(9, 9, 0, minimum_count=0)
    with pytest.raises(UserError, match="train it first"):
        LinearTagger(9, 9, 0).start(padded(["the"]))
    with pytest.raises(UserError, match="labels for a source"):
        LinearTagger(9, 9, 0).counts(paired([([4, 5, 2], [4, 2])])).store()
    pairs = paired([([4, 2], [4, 2])])
    pairs.source.ids = pairs.source.ids.astype(float)
    with pytest.raises(UserError, match="numbers"):
        LinearTagger(9, 9, 0).counts(pairs)
