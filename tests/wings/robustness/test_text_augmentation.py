"""Augmentations of texts: kinds by hand, pairs that cannot change, sampled pieces by brute force, and whole runs."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import transduce
from selection import mostly_slow
from transduce import api
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.types import EOS, SPECIALS, UNK
from transduce.data.preparation import NOTHING, Tokenizers
from transduce.data.settings import Lines, Units
from transduce.data.tokenizers.text import Bpe, Bytes, Characters, Symbols, TextTokenizer, Unigram, Words
from transduce.training.augmentation import check_augmentation
from transduce.wings.robustness.base import TextPair
from transduce.wings.robustness.casing import Casing
from transduce.wings.robustness.feed import Variation
from transduce.wings.robustness.pieces import SampledPieces
from transduce.wings.robustness.punctuation import NoFinalPunctuation, SpeechLike
from transduce.wings.robustness.robust import Robust, lowercased
from transduce.wings.robustness.typing_errors import TypingErrors, mistyped, slip
from transduce.wings.robustness.words import DroppedWords, Joined, Split, sentences
from transduce.wings.signals.tokenizers.numbers import Numbers

TEXTS = [f"Der {a} Hund sieht, wie {b} läuft." for a in ("alte", "junge", "kleine") for b in ("Eva", "Otto", "er")]
KINDS: dict[str, Any] = {
    "casing": Casing(1.0),
    "end": NoFinalPunctuation(1.0),
    "speech": SpeechLike(1.0),
    "typing": TypingErrors(1.0, 1.0),
    "spelling": TypingErrors(1.0, 1.0, "spelling"),
    "words": DroppedWords(1.0, 0.5),
    "robust": Robust(1.0),
}


def chances(number: int, seed: int = 1) -> list[np.random.Generator]:
    return [np.random.default_rng([seed, each]) for each in range(number)]


def changed(kind: Any, source: str, target: str = "x", seed: int = 1) -> TextPair:
    (pair,) = kind([TextPair(source, target)], chances(1, seed))
    return pair


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        (Casing(1.0, ("capitals",)), "Don't stop, straße.", "DON'T STOP, STRASSE."),
        (Casing(1.0, ("lower",)), "ΑΣ İ Ok", "ας i̇ ok"),
        (Casing(1.0, ("title",)), "don't STOP the o'clock", "Don't Stop The O'clock"),
        (NoFinalPunctuation(1.0), "Wait … (please)!» ", "Wait … (please"),
        (NoFinalPunctuation(1.0), "他来了。", "他来了"),
        (NoFinalPunctuation(1.0), "5 €", "5 €"),
        (NoFinalPunctuation(1.0), "...", "..."),
        (SpeechLike(1.0), "«Don't», she said — a well-known 'fact'.", "don't she said a well-known fact"),
        (SpeechLike(1.0), "-?", "-?"),
        (DroppedWords(1.0, 1.0), "a b c", "a b c"),
        (DroppedWords(1.0, 0.0), "a b c", "a b c"),
    ],
)
def test_what_a_kind_makes_of_a_source(kind: Any, source: str, expected: str) -> None:
    assert changed(kind, source) == TextPair(expected, "x")


def test_the_target_is_in_the_same_case_if_asked() -> None:
    assert changed(Casing(1.0, ("capitals",), "same"), "ab", "Cd") == TextPair("AB", "CD")


def test_a_share_of_the_pairs_changes() -> None:
    pairs = [TextPair("a b", "x")] * 400
    found = Casing(0.25, ("capitals",))(pairs, chances(400))
    assert 60 < sum(pair.source == "A B" for pair in found) < 140


@pytest.mark.parametrize("word", ["ab", "Über", "слово", "שלום", "aaa"])
def test_a_slip_is_one_edit_and_leaves_a_word(word: str) -> None:
    rapidfuzz = pytest.importorskip("rapidfuzz.distance")
    found = {slip(word, np.random.default_rng(seed)) for seed in range(200)}
    assert len(found) > 3
    assert all(each and rapidfuzz.OSA.distance(word, each) <= 1 for each in found)
    foreign = {letter.lower() for each in found for letter in each} - set(word.lower())
    assert bool(foreign) == (word.isascii() or word == "Über"), "another script gets letters of the word"


def test_the_rate_of_typing_errors_is_a_share_of_the_words() -> None:
    text = " ".join(["wonderful"] * 1000)
    wrong = [word for word in mistyped(text, 0.1, np.random.default_rng(1)).split() if word != "wonderful"]
    assert 70 < len(wrong) < 130
    assert mistyped("a 1 22 _x_ .", 1.0, np.random.default_rng(1)) == "a 1 22 _x_ ."


def test_joined_pairs_have_both_sides_of_another_pair() -> None:
    pairs = [TextPair(f"s{n}.", f"t{n}.") for n in range(8)]
    found = Joined(1.0)(pairs, chances(8))
    assert all(pair.source.replace("s", "t") == pair.target for pair in found)
    assert all(len(pair.source.split()) == 2 for pair in found)
    assert Joined(0.0)(pairs, chances(8)) == pairs


def test_a_split_pair_is_a_part_of_both_sides() -> None:
    pair = TextPair('A b. C d! "E?" F', "a b. c d! e? f")
    assert sentences(pair.source) == ["A b. ", "C d! ", '"E?" ', "F"]
    assert sentences("他来了。他走了。") == ["他来了。", "他走了。"]
    found = [changed(Split(1.0), pair.source, pair.target, seed) for seed in range(60)]
    assert {each.source for each in found} >= {"A b.", "F", "C d!", 'C d! "E?" F', 'A b. C d! "E?"'}
    assert pair not in found
    letters = {each.source.lower().replace('"', "") == each.target for each in found}
    assert letters == {True}
    assert changed(Split(1.0), "A. B.", "a b.") == TextPair("A. B.", "a b."), "unequal numbers stay"


# -------------------------------------------------------------------- ids


def ids(tokenizers: Tokenizers, sources: Sequence[str], targets: Sequence[str]) -> tuple[list[Any], list[Any]]:
    return tokenizers.source.encode(sources), tokenizers.target.encode(targets)


@pytest.mark.parametrize("unit", [Characters(), Bytes(), Bpe(80), Unigram(60)], ids=lambda unit: type(unit).__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_changes_alike_in_any_company(unit: Any, kind: str) -> None:
    letters = ["ABCDEFGHIJKLMNOPQRSTUVWXYZÄ", "abcdefghijklmnopqrstuvwxyzäöü'"]
    tokenizer = unit.learn([*TEXTS, *letters])
    variation = Variation([KINDS[kind]], Tokenizers(tokenizer, tokenizer), Lines(), 3)
    sources, targets = ids(variation.tokenizers, TEXTS, TEXTS)
    whole = variation(sources, targets, np.arange(9), 2)
    assert whole.changed > 4
    alone = [variation([sources[n]], [targets[n]], np.array([n]), 2) for n in range(9)]
    assert [each.sources[0] for each in alone] == whole.sources
    assert whole.targets == targets
    if kind not in ("end", "speech"):  # these two are not random
        assert variation(sources, targets, np.arange(9), 3).sources != whole.sources, "anew in each epoch"


def test_a_pair_stays_if_its_change_cannot_be_learned() -> None:
    lower = Characters().learn(["abc ."])
    both = Tokenizers(lower, lower)
    varied = Variation([Casing(1.0, ("capitals",))], both, Lines(), 1)(*ids(both, ["ab"], ["c"]), np.array([0]), 0)
    assert (varied.sources, varied.changed, varied.stays) == (lower.encode(["ab"]), 1, 1)
    some = Characters().learn(["abc ABC"])
    both = Tokenizers(some, some)
    varied = Variation([Casing(1.0, ("capitals",))], both, Lines(), 1)(*ids(both, ["abé"], ["c"]), np.array([0]), 0)
    assert varied.sources == some.encode(["abé"]), "ids with an unknown token do not say their text"
    short = Variation([Joined(1.0)], both, Lines(max_target_length=4), 1)
    assert short(*ids(both, ["a", "b"], ["a", "b"]), np.arange(2), 0).stays == 0
    short = Variation([Joined(1.0)], both, Lines(max_target_length=3), 1)
    assert short(*ids(both, ["a", "b"], ["a", "b"]), np.arange(2), 0).stays == 2
    labelled = Tokenizers(Symbols().learn(["a . b"]), Symbols().learn(["X Y"]))
    sides = ids(labelled, ["a .", "a b"], ["X Y", "X X"])
    tagged = Variation([NoFinalPunctuation(1.0)], labelled, Lines(unequal="skip"), 1)
    assert tagged(*sides, np.arange(2), 0).sources == sides[0], "each token keeps its label"
    assert Variation([NoFinalPunctuation(1.0)], labelled, Lines(), 1)(*sides, np.arange(2), 0).sources != sides[0]


def test_another_source_than_text_is_refused(tmp_path: Path, tiny: dict[str, Any]) -> None:
    class Signals:
        signal, bands = True, True

    with pytest.raises(UserError, match="Casing changes texts, and the source is a signal"):
        check_augmentation((Casing(),), Signals())
    with pytest.raises(UserError, match=r"it changes texts, and the source of this run is absent"):
        api.train(
            "language-model",
            tmp_path / "run",
            {"training.augmentation": ["casing"], "training.steps": 1},
            pairs=[("", "ab")] * 40,
            progress=False,
        )
    words = [("V;PST\twalk", "walked"), ("V;PRS\ttalk", "talks")] * 20
    for recipe, pairs in {"inflection-small": words, "labelled": [(f"x\t{b}", b) for _, b in words]}.items():
        with pytest.raises(UserError, match=r"training\.robust: it changes texts, and the source .* no plain text"):
            api.train(recipe, tmp_path / recipe, {"training.robust": True}, pairs=pairs, progress=False)
    with pytest.raises(UserError, match=r"sampled-pieces cuts words into other pieces, and the source has no pieces"):
        api.train("reverse", tmp_path / "run", tiny | {"training.augmentation": ["sampled-pieces"]}, progress=False)
    capitals = {"type": "casing", "cases": ["capitals"], "share": 1.0}
    with pytest.raises(UserError, match=r"none of \d+ changed pairs can be learned"):
        api.train("reverse", tmp_path / "run", tiny | {"training.augmentation": [capitals]}, progress=False)
    assert not (tmp_path / "run" / "config.toml").exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Casing(1.5), r"casing\.share = 1\.5"),
        (lambda: Casing(cases=()), r"casing\.cases"),
        (lambda: NoFinalPunctuation(-1), r"no-final-punctuation\.share"),
        (lambda: SpeechLike(2), r"speech-like\.share"),
        (lambda: TypingErrors(rate=2), r"typing-errors\.rate"),
        (lambda: DroppedWords(rate=-1), r"dropped-words\.rate"),
        (lambda: Joined(2), r"joined\.share"),
        (lambda: Split(2), r"split\.share"),
        (lambda: SampledPieces(rate=2), r"sampled-pieces\.rate"),
        (lambda: Robust(2), r"robust\.share"),
    ],
)
def test_wrong_numbers_are_refused(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


# ------------------------------------------------------------------ pieces


@pytest.mark.parametrize("unit", [Bpe(120), Unigram(80, ("__de__",))], ids=lambda unit: type(unit).__name__)
def test_sampled_pieces_say_the_same_text(unit: Any) -> None:
    texts = [f"__de__ {text}" for text in TEXTS] if isinstance(unit, Unigram) else TEXTS
    tokenizer = unit.learn(texts)
    both = Tokenizers(tokenizer, tokenizer)
    sides = ids(both, texts, texts)
    varied = Variation([SampledPieces(1.0, 0.5, "source")], both, Lines(), 1)(*sides, np.arange(9), 0)
    assert varied.targets == sides[1]
    assert varied.sources != sides[0]
    assert [tokenizer.decode(row) for row in varied.sources] == texts
    assert all(row[-1] == EOS and UNK not in row for row in varied.sources)
    if isinstance(unit, Unigram):
        anyhow = Variation([SampledPieces(1.0, 1.0, "source")], both, Lines(), 1)(*sides, np.arange(9), 0)
        assert {row[0] for row in anyhow.sources} == {sides[0][0][0]}, "a tag stays whole"


def test_bpe_without_dropout_is_the_usual_cut() -> None:
    tokenizer = Bpe(200).learn(TEXTS)
    cut = SampledPieces(1.0, 0.0).cutter(tokenizer)
    other = SampledPieces(1.0, 1.0).cutter(tokenizer)
    for text in TEXTS:
        assert cut(text, np.random.default_rng(1)) == tokenizer.encode([text])[0]
        assert len(other(text, np.random.default_rng(1))) == len(text) + 2, "letters, the first space and EOS"


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_cuts_of_a_unigram_model_have_their_probability(rate: float) -> None:
    """All cuts of a word by brute force, with the probabilities of Kudo 2018, section 3.3."""
    import tokenizers

    scores = {"▁": -1.0, "a": -2.0, "b": -2.5, "ab": -3.0, "▁a": -2.2, "▁ab": -4.0, "abb": -6.0}
    record = json.loads(Unigram(30).learn(["ab abb"])._library.to_str())
    record["model"]["vocab"] = [*((special, -9.0) for special in SPECIALS), *scores.items()]
    tokenizer = TextTokenizer(tokenizers.Tokenizer.from_str(json.dumps(record)))
    word = "▁abb"
    exact = {}
    for number in range(len(word)):
        for cuts in itertools.combinations(range(1, len(word)), number):
            parts = [word[begin:end] for begin, end in itertools.pairwise((0, *cuts, len(word)))]
            if all(part in scores for part in parts):
                exact[tuple(parts)] = math.exp((1 - rate) * sum(scores[part] for part in parts))
    total, draws = sum(exact.values()), 4000
    cut = SampledPieces(1.0, rate).cutter(tokenizer)
    chance = np.random.default_rng(1)
    found = Counter(tuple(tokenizer.tokens(cut("abb", chance)[:-1])) for _ in range(draws))
    assert set(found) <= set(exact)
    assert all(abs(found[cuts] / draws - weight / total) < 0.03 for cuts, weight in exact.items())


# --------------------------------------------------------------------- runs


PAIRS = [(f"Ein {a} {b} läuft.", f"A {c} {d} runs.") for a, c in (("alter", "old"), ("junger", "young")) for b, d in
         (("Hund", "dog"), ("Mann", "man"), ("Bär", "bear"), ("Wolf", "wolf"))] * 4  # fmt: skip


SMALL = {
    "model.encoder.embedding_width": 8,
    "model.decoder.embedding_width": 8,
    "model.decoder.width": 8,
    "model.encoder.width": 4,
}


def test_a_robust_run_reads_its_source_in_lower_case(tmp_path: Path) -> None:
    settings = {"training.robust": True, "training.steps": 2, "data.units": {"source": "characters", "target": "words"}}
    settings |= SMALL
    run = tmp_path / "run"
    model = api.train("translation", run, settings, pairs=PAIRS, progress=False)
    assert model.settings["data"]["units"]["source"]["lowercase"] is True
    assert model.settings["training"]["robust"] is True
    assert model.tokenizers.source.encode(["EIN BÄR"]) == model.tokenizers.source.encode(["ein bär"])
    assert model.tokenizers.target.decode(model.tokenizers.target.encode(["A Dog"])[0]) == "A <unk>"
    api.train(str(run / "config.toml"), run, {"training.steps": 4}, resume=True, progress=False)
    assert lowercased({"joint": "bpe"}) == {"joint": "bpe", "source_lowercase": True}
    assert lowercased({"joint": "bpe", "source_lowercase": False}) == {"joint": "bpe", "source_lowercase": False}
    assert lowercased({"target": "bpe"}) == {"target": "bpe"}
    kept: config.Table = {"source": {"type": "characters", "lowercase": False}, "target": "words"}
    assert lowercased(kept) == kept
    assert lowercased({"source": "symbols", "target": "words"})["source"] == "symbols", "symbols may differ by case"


@pytest.mark.parametrize(
    "unit", mostly_slow(["characters", "words", "bpe", "unigram", "bytes"], fast=["words", "unigram"])
)
def test_one_vocabulary_reads_the_source_in_lower_case_and_writes_as_usual(unit: str, tmp_path: Path) -> None:
    settings = {
        "training.robust": True,
        "training.steps": 1,
        "data.units": {"joint": {"type": unit, **({"size": 70} if unit in ("bpe", "unigram") else {})}},
        "model.tie": "all",
        **SMALL,
    }
    pairs = [(source.upper(), target) for source, target in PAIRS]
    model = api.train("translation", tmp_path / "run", settings, pairs=pairs, progress=False)
    source, target = model.tokenizers.both
    assert model.tokenizers.joint
    assert source.encode(["EIN Bär"]) == source.encode(["ein bär"]) == target.encode(["ein bär"])
    assert source.normalize("EIN Bär") == "ein bär"
    assert target.decode(target.encode(["A young man runs."])[0]) == "A young man runs."
    assert UNK not in source.encode(["EIN ALTER BÄR LÄUFT."])[0], "learned from lower case, too"
    assert transduce.load(tmp_path / "run").tokenizers.fingerprints == model.tokenizers.fingerprints


def test_a_lower_case_source_needs_joint_text() -> None:
    for units in ({"source": Characters(), "target": Words()}, {"joint": Numbers()}):
        with pytest.raises(UserError, match=r"units\.source_lowercase is for joint units of text"):
            Units(**units, source_lowercase=True)


def test_texts_change_in_training_and_a_resumed_run_is_the_same(tmp_path: Path) -> None:
    settings = {
        "training.augmentation": ["casing", "joined", "typing-errors", {"type": "sampled-pieces", "rate": 0.3}],
        "training.precision": "float32",
        "data.units": {"joint": {"type": "bpe", "size": 90}},
        "training.batching.tokens": 150,
        "training.validation.times": 0,
        "training.optimizer": {"type": "sgd", "rate": 0.1},
        "training.schedule": "constant",
        **SMALL,
    }
    weights = {}
    for name, steps in {"whole": [6], "parts": [3, 6]}.items():
        for number, each in enumerate(steps):
            api.train(
                "translation", tmp_path / name, settings | {"training.steps": each}, None if number else PAIRS,
                resume=bool(number), progress=False,
            )  # fmt: skip
        weights[name] = (tmp_path / name / "checkpoints" / "last" / "model.safetensors").read_bytes()
    assert weights["whole"] == weights["parts"]
    plain = settings | {"training.augmentation": [], "training.steps": 6}
    api.train("translation", tmp_path / "plain", plain, PAIRS, progress=False)
    assert (tmp_path / "plain" / "checkpoints" / "last" / "model.safetensors").read_bytes() != weights["whole"]


def test_a_language_model_has_no_source() -> None:
    target = Words().learn(["a"])
    assert not Tokenizers(NOTHING.learn(()), target).conditional
