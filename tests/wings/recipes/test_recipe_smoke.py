"""Every recipe of a model trains for two updates, with its own model, on a few made-up or local examples, and answers.

The recipes of pictures and clips: tests/wings/recipes/test_picture_recipes.py.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from test_picture_recipes import SETTINGS as PICTURES

from transduce import api
from transduce.core import config, recipes

pytestmark = pytest.mark.slow

RECIPES = {name: recipes.read(name) for name in recipes.names()}
NAMES = [name for name, table in RECIPES.items() if "model" in table and name not in PICTURES]
LETTERS = "abcdefgh"


def words(draw: random.Random) -> list[str]:
    return ["".join(draw.choices(LETTERS, k=draw.randint(1, 4))) for _ in range(draw.randint(2, 4))]


def made_up(units: config.Table) -> list[tuple[str, str]]:
    """Pairs for these units: words, and as many labels; a language model has no source."""
    draw = random.Random(1)
    sentences = [words(draw) for _ in range(60)]
    if set(units) == {"target"}:
        return [("", " ".join(sentence)) for sentence in sentences]
    return [(" ".join(sentence), " ".join(f"B-{word[0]}" for word in sentence)) for sentence in sentences]


def factors(text: str) -> str:
    """Gives each word three more factors."""
    return " ".join(f"{word}|NOUN|{word[0]}|_" for word in text.split())


def data(recipe: str, folder: Path) -> tuple[dict[str, Any], list[tuple[str, str]] | None, str]:
    """Settings and pairs that replace the data of a recipe, and a source to answer (for sound: any recording)."""
    if recipe.startswith("digits"):
        root = os.environ.get("TRANSDUCE_DATA")
        if not root or not (Path(root) / "fsdd").is_dir():
            pytest.skip("no recordings: set TRANSDUCE_DATA to a folder with fsdd/")
        recordings = Path(root) / "fsdd"
        few = {} if recipe in ("digits", "digits-hmm") else {"data.origin.strings": 6}
        return {"data.origin.folder": str(recordings)} | few, None, "a recording"
    if recipe.startswith("series"):
        return {}, None, " ".join(map(str, range(300, 324)))
    if recipe == "labelled":
        return {"data.origin.pairs": 40}, None, "sort\tcab"
    if recipe.startswith("inflection"):
        lines = [f"{''.join(word)}\tV;PST\t{''.join(word)}ed" for word in made_up({})]
        (folder / "verbs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return {f"data.{split}.path": str(folder / "verbs.tsv") for split in ("train", "valid")}, None, "walk\tV;PST"
    if recipe in ("masked", "denoising"):
        return {}, [(text, text) for text, _ in made_up({"source": "symbols"})], "ab ___"
    if recipe in ("replies", "replies-plays"):
        given = made_up({"source": "symbols"})
        return {}, [(f"pets\t{text}", text[::-1]) for text, _ in given], "pets\tab cab"
    if recipe == "entities":
        given = made_up({"source": "spelled", "target": "symbols"})
        return {}, [(text, tags.replace("B-a", "O")) for text, tags in given], "ab cab"
    if recipe.startswith("compression"):  # the output has words of the source
        given = made_up({"source": "symbols"})
        return {}, [(text, " ".join(text.split()[::2])) for text, _ in given], "ab cab"
    if recipe == "answers":  # the output is a part of the passage
        given = [text for text, _ in made_up({"source": "symbols"})]
        return {}, [(f"{text} ?\t{text} cab .", text.split()[-1]) for text in given], "ab ?\tab cab ."
    if recipe == "translation-tagged":
        given = [text for text, _ in made_up({"source": "symbols"})]
        return {}, [(factors(text), text) for text in given], factors("ab cab")
    if recipe == "accents":
        return {}, [(text, text.upper()) for text, _ in made_up({"source": "characters"})], "ab cab"
    if recipe == "music-harmony":
        draw = random.Random(1)
        chords = [[[draw.randint(40, 70) for _ in range(4)] for _ in range(draw.randint(2, 4))] for _ in range(60)]
        return (
            {},
            [
                (
                    " ".join(str(chord[0]) for chord in piece),
                    " ".join(f"{' '.join(map(str, chord))} ." for chord in piece),
                )
                for piece in chords
            ],
            " ".join(str(chord[0]) for chord in chords[0]),
        )
    if recipe.startswith("entailment"):
        given = made_up({"source": "symbols"})
        return {}, [(f"{text}\t{text[::-1]}", "yes" if len(text) % 2 else "no") for text, _ in given], "ab cab\tcab"
    if recipe.startswith("parsing"):
        given = made_up({"source": "symbols"})
        return (
            {},
            [(text, f"(S {' '.join(f'(NP (N {word}))' for word in text.split())})") for text, _ in given],
            "ab cab",
        )
    return {}, made_up(RECIPES[recipe]["data"]["units"]), "ab cab"


def short(table: config.Table) -> dict[str, Any]:
    """Two updates, or the passes that a counted model needs, and short searches."""
    settings: dict[str, Any] = {"training.precision": "float32", "training.validation.examples": 2}
    settings |= {"training.validation.every": 2}
    if "optimizer" in table["training"]:
        settings |= {"training.steps": 2, "training.batching.tokens": 200}
    in_validation = table["training"].get("validation", {}).get("search")
    for key, search in (("search", table.get("search")), ("training.validation.search", in_validation)):
        if isinstance(search, dict) and "max_length" in search:
            settings[f"{key}.max_length"] = 8
    return settings


@pytest.mark.parametrize("recipe", NAMES)
def test_a_recipe_trains_and_answers(recipe: str, tmp_path: Path) -> None:
    given, pairs, source = data(recipe, tmp_path)
    settings = short(RECIPES[recipe]) | {"data.cache": str(tmp_path / "cache")} | given
    model = api.train(recipe, tmp_path / "run", settings, pairs, device="cpu", progress=False)
    if source == "a recording":
        source = str(next((tmp_path / "cache").rglob("*.wav")))
    if recipe == "word-alignment":
        assert model.align([(source, source)]).links.write()[0]
    elif model.conditional:
        assert isinstance(model(source), str)
    else:
        (output, *_) = next(model.predict([""]))
        assert isinstance(output.text, str)
