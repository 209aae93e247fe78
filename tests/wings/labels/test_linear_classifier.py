"""The linear classifier against scikit-learn, and its features against n-grams of strings."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from families import paired
from transduce.core.errors import UserError
from transduce.core.types import UNK, Padded
from transduce.data.tokenizers.text import Characters, Symbols
from transduce.wings.labels.linear import LinearClassifier
from transduce.wings.labels.ngram_features import bags
from transduce.wings.labels.several import LabelsWithCounts
from transduce.wings.labels.spelled import Spelled

TEXTS = ["a dog barks", "the dog bites a dog", "cats", "a cat naps a lot", "the cats bite the dogs", "dogs nap"] * 2
LABELS = [4, 5, 6, 6, 5, 4] * 2
UNIT = Spelled(Characters()).learn(TEXTS)


def padded(texts: list[str], tokenizer: Any = UNIT) -> Padded:
    rows = [torch.tensor(row) for row in tokenizer.encode(texts)]
    return Padded(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows]))


def words_of(text: str) -> list[str]:
    words = text.split()
    return words + [" ".join(pair) for pair in itertools.pairwise(words)]


def pairs_of(text: str) -> list[str]:
    """Words, and pairs of neighbours and of words with one between them, with both ends of the text."""
    words = ["^", *text.split(), "$"]
    pairs = [
        f"{one} {distance} {other}" for distance in (1, 2) for one, other in zip(words, words[distance:], strict=False)
    ]
    return words[1:-1] + pairs


def pieces_of(text: str) -> list[str]:
    return [f" {word} "[at : at + n] for word in text.split() for n in (2, 3) for at in range(len(word) + 3 - n)]


def trained(labels: list[int] = LABELS, **options: Any) -> LinearClassifier:
    model = LinearClassifier(len(UNIT), 8, 0, pieces=(2, 3), **options)
    counts = model.counts(paired([(row, [label, 2]) for row, label in zip(UNIT.encode(TEXTS), labels, strict=True)]))
    counts.reestimate()
    counts.store()
    return model


def test_features_are_the_ngrams_of_words_and_of_pieces_within_them() -> None:
    known = Spelled(Characters(), words=Symbols(minimum_count=2)).learn(TEXTS)
    for tokenizer in (UNIT, known):
        source, alphabet = padded(TEXTS, tokenizer), len(tokenizer) - tokenizer.words
        of_words, of_pieces = bags(source, alphabet, (1, 2), (2, 3))
        of_pairs, _ = bags(source, alphabet, (1, 1), (2, 3), apart=2)
        for bag, split in ((of_words, words_of), (of_pieces, pieces_of), (of_pairs, pairs_of)):
            names: dict[int, set[str]] = {}
            for row, text in enumerate(TEXTS):
                own = Counter(split(text))
                counts = {int(k): int(c) for k, c in zip(bag.key_K, bag.count_K, strict=True)}
                keys = bag.key_K[bag.row_K == row].tolist()
                assert sorted(bag.count_K[bag.row_K == row].tolist()) == sorted(own.values())
                assert len(keys) == len(own)
                assert counts.keys() >= set(keys)
                for key in keys:
                    names[key] = names.get(key, set(own)) & set(own)
            assert all(names.values())  # a key means the same n-gram in all rows


def values(text: str, split: Callable[[str], list[str]]) -> dict[str, float]:
    """TF-IDF of the n-grams of a text, divided by its norm. An n-gram that TEXTS lack is as rare as their rarest."""
    rarity = {
        gram: 1 + np.log((1 + len(TEXTS)) / (1 + count))
        for gram, count in Counter(gram for each in TEXTS for gram in set(split(each))).items()
    }
    rarest = max(rarity.values())
    own = {gram: (1 + np.log(count)) * rarity.get(gram, rarest) for gram, count in Counter(split(text)).items()}
    norm = np.sqrt(sum(value**2 for value in own.values()))
    return {gram: value / norm for gram, value in own.items()}


def features(text: str) -> dict[str, float]:
    return values(text, pairs_of) | {f"<{gram}>": value for gram, value in values(text, pieces_of).items()}


def test_probabilities_are_those_of_scikit_learn() -> None:
    """Two labels have deviations alike, so scikit-learn's regression of scaled features is the same."""
    learn = pytest.importorskip("sklearn.linear_model")
    extraction = pytest.importorskip("sklearn.feature_extraction")
    labels = [4 + (label > 4) for label in LABELS]
    vectorizer = extraction.DictVectorizer(sparse=False)
    x_NF = vectorizer.fit_transform([features(text) for text in TEXTS])
    one_F, other_F = (1 + (x_NF[np.array(labels) == label] > 0).sum(0) for label in (4, 5))
    ratio_F = np.abs(np.log(one_F / one_F.sum()) - np.log(other_F / other_F.sum()))
    deviation_F = (ratio_F + ratio_F.mean()) / 2
    model = trained(labels, words=(1, 1), minimum_count=2, apart=2, unknown=True)
    regression = learn.LogisticRegression(C=2 / float(model.strength), tol=1e-8, max_iter=1000)
    regression.fit(x_NF * deviation_F, labels)
    new = ["the cat barks", "a dog bites", "dogs unseen"]
    wanted = regression.predict_log_proba(vectorizer.transform([features(text) for text in new]) * deviation_F)
    found = model.start(padded(new)).log_softmax(-1)[:, 4:6]
    assert np.abs(found.numpy() - wanted).max() < 0.02  # L-BFGS ends earlier in float32


def test_one_label_and_no_known_ngram_have_probabilities() -> None:
    assert trained([4] * len(TEXTS)).start(padded(["a dog", "xyz"])).isfinite().all()
    assert trained(minimum_count=len(TEXTS) + 1).start(padded(["a dog"])).isfinite().all()


def test_sources_without_a_label_are_left_out_of_the_regression() -> None:
    assert int(trained([UNK, *LABELS[1:]]).start(padded(TEXTS[:1])).argmax()) == 4  # its copy has the label
    with pytest.raises(UserError, match="no label"):
        trained([UNK] * len(TEXTS))


def test_a_mixture_is_the_product_of_powers() -> None:
    one, other = trained(), trained(LABELS[::-1])
    mixed = LabelsWithCounts(one, other, weight=0.25)
    wanted = 0.75 * one.start(padded(TEXTS)).log_softmax(-1) + 0.25 * other.start(padded(TEXTS)).log_softmax(-1)
    emission = mixed.emit(mixed.start(padded(TEXTS)))
    found = mixed.readout(emission.output)[:, 0].log_softmax(-1)
    assert torch.allclose(found, wanted.log_softmax(-1), atol=1e-5)
    empty = LabelsWithCounts(one, LinearClassifier(len(UNIT), 8, 0))
    assert torch.equal(empty.start(padded(TEXTS))[0], one.start(padded(TEXTS)))


def test_wrong_options_and_targets_are_told() -> None:
    for options in ({"words": (2, 1)}, {"pieces": (0, 3)}, {"minimum_count": 0}, {"apart": -1}):
        with pytest.raises(UserError, match=next(iter(options))):
            LinearClassifier(9, 9, 0, **options)
    with pytest.raises(UserError, match="a classifier writes one"):
        LinearClassifier(9, 9, 0).counts(paired([([4, 2], [4, 5, 2])]))
    with pytest.raises(UserError, match="weight"):
        LabelsWithCounts(trained(), trained(), weight=1.5)
