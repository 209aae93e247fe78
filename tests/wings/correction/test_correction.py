"""The correction of texts against enumeration, and its metrics by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import transduce
from families import build
from transduce.core.errors import UserError
from transduce.core.types import UNK, Example, Prediction
from transduce.metrics.base import metric
from transduce.metrics.statistics import statistics
from transduce.wings.correction.corrector import Corrector, with_capitals
from transduce.wings.correction.metrics import edits

Call = Callable[..., tuple[int, str, str]]
TEXT = ["the red house is here", "a red car is there", "he read the book here", "she read a book there", "the car"] * 4
PAIRS = [
    "teh\tthe",
    "hous\thouse",
    "reed\tread",
    "boook\tbook",
    "ther\tthere",
    "heer\there",
    "cra\tcar",
    "rde\tred",
] * 3
WORDS = {"the": 50, "red": 9, "read": 9, "house": 5, "is": 30, "here": 9, "car": 5, "there": 9, "book": 6, "reed": 1}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("correction")
    for name, lines in (
        ("pairs.tsv", PAIRS),
        ("text.txt", TEXT),
        ("words.tsv", [f"{w}\t{n}" for w, n in WORDS.items()]),
    ):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    own = {"data.cache": str(folder / "cache")}
    pairs = {f"data.{split}.path": str(folder / "pairs.tsv") for split in ("train", "valid")}
    texts = {f"data.{split}.path": str(folder / "text.txt") for split in ("train", "valid")}
    units = {"data.units.target": {"type": "words", "lowercase": True, "minimum_count": 5}, "model.order": 2}
    listed = {"model.words": str(folder / "words.tsv"), "model.width": 10_000, "training.epochs": 2}
    transduce.train("spelling-channel", folder / "speller", own | pairs | listed, device="cpu", progress=False)
    transduce.train("ptb-ngram", folder / "words", own | texts | units, device="cpu", progress=False)
    return {"speller": folder / "speller", "words": folder / "words"}


@pytest.fixture(scope="module")
def loaded(runs: dict[str, Path]) -> tuple[Any, Any]:
    return transduce.load(runs["speller"], device="cpu"), transduce.load(runs["words"], device="cpu")


def written(speller: Any, word: str) -> dict[str, float]:
    """log p(word | y) for the words y of the list."""
    row = speller.source_tokenizer.encode([word])[0][:-1]
    entries = speller.target_tokenizer.entries
    return {"".join(entries[t] for t in y): c for y, c, _ in speller.model.words_for(torch.tensor(row), 10)}


def probability(
    words: tuple[str, ...], text: list[str], channel: dict[str, dict[str, float]], language: Any, errors: float
) -> float:
    """log of the product that the corrector maximises, for one choice of words."""
    total = 0.0
    ids = [language.target_tokenizer.encode([f"a {word}"])[0][1] for word in words]
    state = language.model.start(torch.zeros(1, 1))
    for word, old, token in zip(words, text, ids, strict=True):
        log_prob, state = language.model.step(state, torch.tensor([token]))
        total += float(log_prob)
        if token == UNK:
            total += math.log(WORDS[word] / sum(WORDS.values())) if word in WORDS else math.log(1e-9)
        if word == old:
            total += math.log(1 - errors)
        else:
            total += math.log(errors) + channel[old].get(word, -math.inf)
    return total


@pytest.mark.parametrize("text", ["reed cra", "he reed", "xyz is"])
def test_the_words_are_the_most_probable_ones(text: str, loaded: tuple[Any, Any]) -> None:
    old = text.split()
    choices = [[word, *(y for y in WORDS if y != word)] if len(word) > 1 else [word] for word in old]
    speller, language = loaded
    channel = {word: written(speller, word) for word in old}
    best = max(itertools.product(*choices), key=lambda words: probability(words, old, channel, language, 0.1))
    assert Corrector(*loaded, errors=0.1, candidates=10, beam=500)(text).split() == list(best)


def test_context_decides_and_the_rest_stays(loaded: tuple[Any, Any]) -> None:
    corrector = Corrector(*loaded, errors=0.1)
    assert corrector("teh red  cra, IS HEER 12!") == "the red  car, IS HERE 12!"
    assert corrector("Teh reed cra") == "The red car"
    assert corrector("he reed teh book") == "the read the book"
    assert corrector("") == ""
    assert Corrector(*loaded, errors=1e-12)("he red the book") == "he red the book"
    assert with_capitals("the", "Teh") == "The"
    assert with_capitals("the", "tEh") == "the"


def test_the_list_is_what_it_was_counted_from(loaded: tuple[Any, Any]) -> None:
    speller = loaded[0]
    entries = speller.target_tokenizer.entries
    found = {"".join(map(entries.__getitem__, word)): share for word, share in speller.model.listed()}
    total = sum(WORDS[word] for word in found)
    assert len(found) > 5
    assert found == pytest.approx({word: math.log(WORDS[word] / total) for word in found}, abs=1e-5)
    ids = torch.tensor(speller.source_tokenizer.encode(["teh"])[0][:-1])
    (best, channel, share), *_ = speller.model.words_for(ids, 3)
    assert "".join(speller.target_tokenizer.entries[t] for t in best) == "the"
    assert share == pytest.approx(found["the"])
    assert channel < 0


def test_the_command(runs: dict[str, Path], call: Call) -> None:
    code, out, _ = call("correct", str(runs["speller"]), str(runs["words"]), "--errors", "0.1", stdin=b"Teh reed cra\n")
    assert (code, out) == (0, "The red car\n")
    code, _, told = call("correct", str(runs["words"]), str(runs["speller"]), stdin=b"a\n")
    assert code
    assert "model.type = 'ngram': for the correction of texts 'noisy-channel' was expected" in told


def test_options_are_checked(loaded: tuple[Any, Any]) -> None:
    with pytest.raises(UserError, match="errors = 0: a probability"):
        Corrector(*loaded, errors=0)
    with pytest.raises(UserError, match="beam = 0: at least 1"):
        Corrector(*loaded, beam=0)


def scores(source: str, output: str, reference: str) -> list[float]:
    names = ("edit_precision", "edit_recall", "edit_f05")
    found = statistics([metric(each) for each in names], [Prediction(output)], [Example(source, (reference,))])
    return [each.score for each in found]


def test_metrics_by_hand() -> None:
    # three words are wrong; two are changed rightly, one right word is spoiled
    assert scores("teh cat sta on mat s", "the cat sat in mat s", "the cat sat on mats s") == pytest.approx(
        [200 / 3, 200 / 3, 200 / 3]
    )
    p, r = 1 / 2, 1 / 3
    assert scores("a b c d", "x b y d", "x b z w") == pytest.approx([50, 100 / 3, 125 * p * r / (0.25 * p + r)])
    assert scores("a b", "b", "b") == [100, 100, 100]
    assert edits("a b", "a x b") == {("insert", 1, "x")}
    kept = scores("a b", "a b", "a b")
    assert all(map(math.isnan, kept))
    assert scores("a b", "a b", "a c")[1:] == [0, 0]
    with pytest.raises(UserError, match="has no source"):
        statistics([metric("edit_f05")], [Prediction("a")], [Example(None, ("a",))])


def test_a_channel_of_another_size() -> None:
    model = build({"type": "noisy-channel", "words": str(Path(__file__).parents[2] / "words.tsv"), "weight": 0.5})
    rows = model.words_for(torch.tensor([4, 5]), 3)
    assert 0 < len(rows) <= 3
