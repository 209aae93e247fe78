"""Sentence vectors from word vectors, and their measures on pairs of sentences."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transduce.core.errors import UserError
from transduce.data.corpora import DataError
from transduce.wings.recipes.origins.chance import chance_of
from transduce.wings.recipes.origins.sentences import Sentences, noisy
from transduce.wings.vectors.files import load
from transduce.wings.vectors.representations.pairs import (
    PairSets,
    SentencePair,
    graded,
    measure_majority,
    measure_overlap,
    measure_vectors,
    overlap,
    read_sick,
)
from transduce.wings.vectors.representations.regression import LogisticRegression, chosen
from transduce.wings.vectors.representations.retrieval import nearest_sentences, retrieval
from transduce.wings.vectors.sentences import SmoothInverseFrequency, average
from transduce.wings.vectors.table import Vectors

SMALL = Path(__file__).parent / "word_vectors" / "small.vec"


@pytest.fixture(scope="module")
def small() -> Vectors:
    return load(SMALL)


def test_an_average_has_the_known_words(small: Vectors) -> None:
    found = average(small, ["the King and the queen!", "zebra", "cat cat dog"])
    king, queen, cat, dog = small.known(["king", "queen", "cat", "dog"])
    assert np.allclose(found, [(king + queen) / 2, np.zeros(9), (2 * cat + dog) / 3], atol=1e-6)


def test_smooth_inverse_frequency_equals_its_formula(small: Vectors) -> None:
    """Arora et al. 2017, algorithm 1, sentence by sentence."""
    sentences = ["the king and the queen", "a cat, a dog", "king cat"]
    counts = Counter({"king": 6, "King": 2, "cat": 1, "the": 91})
    sif = SmoothInverseFrequency.fit(small, counts, sentences, smoothing=0.1)
    weights = {"king": 0.1 / (0.1 + 0.08), "queen": 1.0, "cat": 0.1 / (0.1 + 0.01), "dog": 1.0}
    rows = []
    for words in (["king", "queen"], ["cat", "dog"], ["king", "cat"]):
        rows.append(sum(weights[word] * small.known([word])[0] for word in words) / len(words))
    matrix = np.array(rows)
    common = np.linalg.svd(matrix)[2][0]
    assert np.allclose(sif(sentences), matrix - np.outer(matrix @ common, common), atol=1e-5)
    with pytest.raises(UserError, match="0 counted words, 3 sentences"):
        SmoothInverseFrequency.fit(small, Counter(), sentences)


# ------------------------------------------------------------------ regression


def test_a_regression_is_at_its_minimum() -> None:
    """The gradient of the objective, computed anew, is zero; rows of a constant feature do no harm."""
    generator = np.random.default_rng(6)
    x = np.concatenate([generator.standard_normal((60, 3)) * [1, 10, 0.1], np.ones((60, 1))], 1)
    target = np.eye(3)[generator.integers(0, 3, 60)]
    fit = LogisticRegression.fit(x, target, 0.05)
    scaled = torch.from_numpy((x - fit.mean_D) / fit.scale_D)
    weight = torch.from_numpy(fit.weight_DC.copy()).requires_grad_()
    bias = torch.from_numpy(fit.bias_C.copy()).requires_grad_()
    loss = torch.nn.functional.cross_entropy(scaled @ weight + bias, torch.from_numpy(target))
    (loss + 0.025 * (weight**2).sum()).backward()
    assert weight.grad is not None
    assert bias.grad is not None
    assert max(float(weight.grad.abs().max()), float(bias.grad.abs().max())) < 1e-4
    assert np.allclose(fit(x), (scaled @ weight + bias).softmax(-1).detach().numpy())
    with pytest.raises(UserError, match="60 rows of features, 59 targets"):
        LogisticRegression.fit(x, target[:59], 0.05)


def test_the_strength_is_chosen_by_the_score() -> None:
    x, target = np.array([[0.0], [1.0], [2.0]]), np.eye(2)[[0, 1, 1]]
    weak, strong = (abs(LogisticRegression.fit(x, target, strength).weight_DC).max() for strength in (1e-3, 10.0))
    assert weak > strong
    assert abs(chosen(x, target, lambda fit: -abs(fit.weight_DC).max(), (1e-3, 10.0)).weight_DC).max() == strong


def test_scores_become_distributions_with_their_mean() -> None:
    found = graded(np.array([1.0, 3.25, 5.0, 7.0]))
    assert np.allclose(found, [[1, 0, 0, 0, 0], [0, 0, 0.75, 0.25, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1]])


# ------------------------------------------------------------------------ pairs


def made_up(count: int, seed: int) -> list[SentencePair]:
    """Pairs that are related, and entail each other, as far as their numbers are near."""
    generator = np.random.default_rng(seed)
    found = []
    for one, other in generator.integers(0, 10, (count, 2)):
        distance = abs(int(one) - int(other))
        found.append(SentencePair(f"n {one}", f"n {other}", 5 - distance * 4 / 9, "near" if distance < 3 else "far"))
    return found


def test_vectors_that_know_the_answer_have_it_right() -> None:
    sets = PairSets(made_up(300, 1), made_up(60, 2), made_up(200, 3))

    def embed(texts: Any) -> Any:
        numbers = np.array([int(text.split()[1]) for text in texts])
        return np.stack([np.cos(numbers / 4), np.sin(numbers / 4)], 1)

    knows, nothing = measure_vectors("knows", embed, sets), measure_majority(sets)
    blind = measure_vectors("blind", lambda texts: embed(["n 1"] * len(texts)), sets)
    assert knows.width == 2
    assert knows.entailment.value > 0.97
    assert knows.relatedness.value > 0.97
    assert knows.cosine is not None
    assert knows.cosine.value > 0.9
    majority = sum(pair.label == "far" for pair in sets.test) / 200
    assert nothing.entailment.value == blind.entailment.value == majority
    assert nothing.cosine is None


def test_overlap_and_negation_are_features() -> None:
    found = overlap(SentencePair("A man isn't singing", "a man sings", 1.0, "x"))
    assert found == [2 / 4, 2 / 3, 2 / 5, 1.0, 1.0, 0.0, 1.0, 2 / 5]
    pairs = [SentencePair("a b", "a b", 5.0, "same"), SentencePair("a b", "c d", 1.0, "other")] * 10
    assert measure_overlap(PairSets(pairs, pairs, pairs)).entailment.value == 1.0


def test_a_file_of_pairs_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("1\ta b\tc d\t4.5\tNEUTRAL\n")
    assert read_sick(tmp_path / "x.tsv") == [SentencePair("a b", "c d", 4.5, "NEUTRAL")]
    for content, message in (("1\ta\tb\n", "x.tsv:1: 3 columns"), ("", "x.tsv has no pairs")):
        (tmp_path / "x.tsv").write_text(content)
        with pytest.raises(UserError, match=message):
            read_sick(tmp_path / "x.tsv")


# ---------------------------------------------------------- pairs from a text


def test_noise_removes_and_swaps_words() -> None:
    words = [f"w{i}" for i in range(20)]
    many = [noisy(words, 0.3, 0.5, chance_of(1, "x", number)) for number in range(200)]
    assert 13 < np.mean([len(each) for each in many]) < 15
    assert all(set(each) <= set(words) for each in many)
    assert any(each != sorted(each, key=words.index) for each in many)
    assert all(abs(each.index(word) - sorted(each, key=words.index).index(word)) <= 1 for each in many for word in each)
    assert noisy(words, 0.0, 0.0, chance_of(1, "x", 0)) == words
    assert all(len(noisy(["a"], 0.99, 0.5, chance_of(1, "x", number))) == 1 for number in range(20))


def test_sentences_become_pairs(tmp_path: Path) -> None:
    text = "\n".join(f'He said {n}. "Then {n}?" And so {n}!' for n in range(100)) + "\n\n" + "Alone here.\n"
    (tmp_path / "x.txt").write_text(text)
    splits = Sentences(str(tmp_path / "x.txt"), "next", divide=True, words=4).prepare(tmp_path / "made")
    rows = [
        tuple(line.split("\t"))
        for files in (splits.train, splits.valid, splits.test)
        if files is not None
        for line in Path(files.paths[0]).read_text().splitlines()
    ]
    assert ("He said 3.", '"Then 3?"') in rows
    assert ('"Then 3?"', "And so 3!") in rows
    assert ("And so 3!", "He said 4.") in rows
    assert len(rows) == 299  # the last paragraph follows an empty line
    splits = Sentences(str(tmp_path / "x.txt"), "same", remove=0.2).prepare(tmp_path / "made too")
    assert splits.train is not None
    noise = [line.split("\t") for line in Path(splits.train.paths[0]).read_text().splitlines()]
    assert all(set(source.split()) <= set(target.split()) for source, target in noise)
    assert any(source != target for source, target in noise)


def pairs_of(path: Path, **settings: Any) -> list[tuple[str, str]]:
    """The pairs of a text in all splits, in the order of the splits."""
    splits = Sentences(str(path), **settings).prepare(path.parent / "-".join(map(str, settings.values())))
    files = [each for each in (splits.train, splits.valid, splits.test) if each is not None]
    lines = [line for each in files for line in Path(each.paths[0]).read_text(encoding="utf-8").splitlines()]
    return [(source, target) for source, target in (line.split("\t") for line in lines)]


def test_a_sentence_has_both_neighbours(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("\n".join(f"line {n}" for n in range(100)) + "\n\nalone\n", encoding="utf-8")
    after = [(f"line {n}", f"» line {n + 1}") for n in range(99)]
    before = [(f"line {n + 1}", f"« line {n}") for n in range(99)]
    assert sorted(pairs_of(tmp_path / "x.txt", target="neighbours")) == sorted(after + before)
    made = pairs_of(tmp_path / "x.txt", target="all", remove=0.4)
    assert sorted(each for each in made if each[1][0] != "=") == sorted(after + before)
    same = [(source, target) for source, target in made if target[0] == "="]
    assert {target for _, target in same} == {"= alone", *(f"= line {n}" for n in range(100))}
    assert any(source != target[2:] for source, target in same)


def test_all_pairs_of_a_sentence_are_in_one_split(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("\n".join(f"line {n}" for n in range(300)), encoding="utf-8")
    splits = Sentences(str(tmp_path / "x.txt"), "all", remove=0.0, swap=0.0).prepare(tmp_path / "made")
    found = []
    for files in (splits.train, splits.valid, splits.test):
        assert files is not None
        found.append({line.split("\t")[0] for line in Path(files.paths[0]).read_text("utf-8").splitlines()})
    assert not found[0] & found[1]
    assert not (found[0] | found[1]) & found[2]


def test_a_share_of_the_words_is_misspelled(tmp_path: Path) -> None:
    text = [f"receive separate necessary definitely {n}" for n in range(200)]
    (tmp_path / "x.txt").write_text("\n".join(text), encoding="utf-8")
    made = pairs_of(tmp_path / "x.txt", remove=0.0, swap=0.0, misspell=0.3)
    words = [(one, two) for source, target in made for one, two in zip(source.split(), target.split(), strict=True)]
    assert 0.15 < np.mean([one != two for one, two in words]) < 0.32  # some misspellings undo themselves
    assert pairs_of(tmp_path / "x.txt", remove=0.0, swap=0.0) == [(target, target) for _, target in made]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"misspell": 1.0}, "misspell = 1.0: a probability"),
        ({"remove": 1.0}, "remove = 1.0: a probability"),
        ({"swap": -0.1}, "swap = -0.1"),
        ({"words": 0}, "words = 0"),
    ],
)
def test_settings_of_noise_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Sentences("x.txt", **settings)


# -------------------------------------------------------------------- retrieval


def test_the_nearest_sentences_are_those_of_the_largest_cosine() -> None:
    texts = ["east", "north", "far north-east", "nothing"]
    vectors = np.array([[1.0, 0], [0, 2], [3, 3.1], [0, 0]], dtype=np.float32)
    queries = np.array([[5.0, 0], [-1, -1]], dtype=np.float32)
    (near, opposite) = nearest_sentences(vectors, texts, queries, 3)
    assert [(each.text, each.place) for each in near] == [("east", 0), ("far north-east", 2), ("north", 1)]
    assert [each.cosine for each in near] == pytest.approx([1.0, 3 / np.hypot(3, 3.1), 0.0], abs=1e-6)
    assert opposite[0].text == "nothing"
    with pytest.raises(UserError, match="vectors of 3 numbers, the sentences of 2"):
        nearest_sentences(vectors, texts, np.ones((1, 3), np.float32))


def test_retrieval_counts_each_sentence_once_and_never_itself() -> None:
    texts = ["a", "a too", "b", "b too", "c"]
    vectors = np.array([[1, 0.0], [1, 0.1], [0, 1], [1, 0.3], [0.1, 1]], dtype=np.float32)
    pairs = [("a", "a too"), ("a too", "a"), ("b", "b too"), ("c", "c")]
    # a and a too find each other; b finds c; the nearest of b too is a too; c has no partner
    assert retrieval(vectors, texts, pairs).value == 2 / 4
    assert retrieval(vectors, texts, [*pairs, ("b", "c")]).value == pytest.approx(4 / 5)
    assert np.isnan(retrieval(vectors, texts, []).value)


def test_the_measure_of_pairs_has_retrieval_and_the_command_finds_neighbours(
    small: Vectors, tmp_path: Path, call: Any
) -> None:
    pairs = [SentencePair("the king", "a queen", 4.8, "x"), SentencePair("cat dog", "dog", 4.5, "y")]
    pairs.append(SentencePair("the king", "cat", 1.0, "x"))
    found = measure_vectors("average", lambda texts: average(small, texts), PairSets(pairs, pairs, pairs))
    every = ["the king", "cat dog", "a queen", "dog", "cat"]
    expected = retrieval(average(small, every), every, [("the king", "a queen"), ("cat dog", "dog")])
    assert found.retrieval == expected
    (tmp_path / "texts.txt").write_text("a cat\na queen\nthe dog\n")
    status, out, _ = call("vectors", "nearest", str(SMALL), str(tmp_path / "texts.txt"), "--query", "king", "--k", "1")
    assert status == 0
    assert out.split("\t")[1].strip() == "a queen"
