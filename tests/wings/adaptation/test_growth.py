"""Vocabularies that grow: old ids and vectors stay, new pieces are reached, and new tokens start from their parts."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from selection import mostly_slow
from transduce import api
from transduce.core.types import UNK
from transduce.data.tokenizers.text import Bpe, Characters, TextTokenizer, Unigram, Words
from transduce.wings.adaptation.pieces import LEAST, _cut, _pair, parts
from transduce.wings.labels.tokenizer import Labelled

OLD = ["the dog sees the cat", "the cats see the dogs", "then they hear them"] * 3
NEW = ["le chien voit le chat", "les chats voient les chiens, là", "le chien là-bas"] * 3
PIECES = [Bpe(60), Unigram(45, ("__en__",))]


@pytest.mark.parametrize("unit", PIECES, ids=lambda unit: type(unit).__name__)
def test_pieces_grow_and_old_ids_stay(unit: Any) -> None:
    old = unit.learn([f"__en__ {text}" for text in OLD])
    new = type(unit)(unit.size).learn(NEW)
    grown = old.extended(new)
    assert grown.entries[: len(old)] == old.entries
    assert {*new.entries} <= {*grown.entries}
    assert len(grown) > len(old) + 5
    for text in NEW:
        ids = grown.encode([text])[0]
        assert UNK not in ids
        assert grown.decode(ids) == text
        assert len(ids) < len(old.encode([text])[0])
    assert grown.encode(OLD) == old.encode(OLD), "no new piece is in the old texts"
    again = grown.extended(new)
    assert again.entries == grown.entries
    copy = TextTokenizer.from_json(grown.as_json())
    assert copy.encode(NEW) == grown.encode(NEW)


def test_each_new_bpe_piece_is_reached() -> None:
    """A new piece is one token where it stands alone, although old merges come first."""
    old, new = Bpe(60).learn(OLD), Bpe(90).learn([*NEW, *OLD])
    grown = old.extended(new)
    for piece in grown.entries[len(old) :]:
        if piece.startswith("▁") and len(piece) > 1:
            assert grown.tokens(grown.encode([piece[1:]])[0][:-1]) == [piece]


def test_words_are_cut_as_the_library_cuts_them() -> None:
    record = Bpe(60).learn(OLD).as_json()["model"]
    ranks = {_pair(merge): rank for rank, merge in enumerate(record["merges"])}
    library = Bpe(60).learn(OLD)
    for word in ("then", "these", "dogsees", "them"):
        assert _cut(f"▁{word}", ranks) == library.tokens(library.encode([word])[0][:-1])
    assert _cut("abab", {("b", "a"): 0, ("a", "b"): 1}) == ["a", "ba", "b"]


@pytest.mark.parametrize("unit", [Bpe, Unigram])
def test_growth_is_bounded(unit: Any) -> None:
    letters = "abcdefghijklmnopqrst"
    words = [a + b + c for a in letters for b in letters for c in letters[:6]]
    old = unit(60).learn([" ".join(words[:50]), letters] * 2)
    grown = old.extended(unit(1500).learn([" ".join(words)] * 3))
    assert len(grown) - len(old) <= LEAST + 2


def test_the_parts_of_new_entries() -> None:
    old = Bpe(60).learn(OLD)
    found = parts(old, ["▁theyx", "É", "Q", "▁thé", "▁t漢"])
    names = {entry: [old.entries[number] for number in numbers] for entry, numbers in found.items()}
    assert names == {"▁theyx": ["▁they"], "É": ["e"], "▁thé": ["▁the"], "▁t漢": ["▁", "t"]}
    words = Words().learn(OLD)
    assert parts(words, ["▁DOG", "▁chien"]) == {"▁DOG": [words.entries.index("▁dog")]}
    tagged = Unigram(45, ("__en__", "__de__")).learn(["__en__ a b", "__de__ a b"])
    assert parts(tagged, ["▁__fr__"]) == {"▁__fr__": [tagged.entries.index(f"▁__{name}__") for name in ("en", "de")]}
    labels = Labelled(Characters()).learn(["x\tab", "y\tab"])
    column = [number for number, entry in enumerate(labels.entries) if isinstance(entry, tuple)]
    assert parts(labels, [(0, "z"), "B"]) == {(0, "z"): column, "B": [labels.entries.index("b")]}


SMALL = {
    "training.steps": 1,
    "training.optimizer": {"type": "sgd", "rate": 1e-12},
    "training.precision": "float32",
    "training.validation.times": 0,
    "model.encoder.embedding_width": 8,
    "model.decoder.embedding_width": 8,
    "model.encoder.width": 4,
    "model.decoder.width": 8,
}
UNITS = {
    "bpe": {"type": "bpe", "size": 50},
    "unigram": {"type": "unigram", "size": 40},
    "characters": {"type": "characters"},
    "words": {"type": "words"},
}


PAIRED = list(product(["none", "target", "all"], UNITS))


@pytest.mark.parametrize(
    ("tie", "unit"), mostly_slow(PAIRED, fast=[("none", "unigram"), ("target", "words"), ("all", "bpe")])
)
def test_a_run_keeps_old_rows_and_begins_new_ones_from_their_parts(unit: str, tie: str, tmp_path: Path) -> None:
    old_pairs = [(text.upper(), text) for text in [*OLD, "THE DOG SEES CATS"] * 3]
    settings = SMALL | {"data.units": {"joint": UNITS[unit]}, "model.tie": tie}
    old = api.train("translation", tmp_path / "old", settings, old_pairs, progress=False)
    changes = SMALL | {"init.vocabulary": "extend", "model.tie": tie}
    new = api.train(
        "translation", tmp_path / "new", changes, [(b, b) for b in NEW] * 3, init=tmp_path / "old", progress=False
    )
    before, after = old.tokenizers.target.entries, new.tokenizers.target.entries
    assert after[: len(before)] == before
    assert new.tokenizers.joint
    weights = [load_file(tmp_path / name / "checkpoints" / "best" / "model.safetensors") for name in ("old", "new")]
    begun = parts(old.tokenizers.target, after[len(before) :])
    assert begun or unit == "words"
    tables = [name for name, tensor in weights[1].items() if len(after) in tensor.shape]
    assert len(tables) >= (2 if tie == "all" else 3)
    for name in tables:
        was, now = weights[0][name], weights[1][name]
        assert torch.allclose(now[: len(before)], was, atol=1e-6), name
        for place, entry in enumerate(after[len(before) :], len(before)):
            if entry in begun:
                assert torch.allclose(now[place], was[begun[entry]].mean(0), atol=1e-6), (name, entry)
            elif now.dim() == 2:
                assert not torch.allclose(now[place], was[4:].mean(0), atol=1e-4), "tokens without parts differ"


def test_a_counted_part_and_an_inherited_one(tmp_path: Path) -> None:
    """The network of a mixture grows, and its counts are those of the new pairs."""
    part = {"embedding_width": 8, "width": 8, "dropout": 0.0}
    settings = {
        "training.steps": 1,
        "training.precision": "float32",
        "training.validation.times": 0,
        "model.model.members": 2,
        **{f"model.model.model.{side}.{key}": value for side in ("encoder", "decoder") for key, value in part.items()},
        "data.units": {"source": "characters", "target": "symbols"},
    }
    old = [("ab", "A B"), ("ba", "B A"), ("aab", "A A B")] * 8
    new = [("bc", "B C"), ("cab", "C A B"), ("ca", "C A")] * 8
    api.train("g2p-small", tmp_path / "old", settings, old, progress=False)
    changes = {key: value for key, value in settings.items() if key != "data.units"} | {"init.vocabulary": "extend"}
    run = api.train("g2p-small", tmp_path / "new", changes, new, init=tmp_path / "old", progress=False)
    assert run.tokenizers.source.entries[-1] == "c"
    assert run.tokenizers.target.entries[-1] == "C"
    assert run("cabc") == "C A B C", "as the counts say"
