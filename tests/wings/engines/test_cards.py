"""Model cards of every kind of run: what the model does, its members, its labels, its data and its limits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from test_recipes import facts

from transduce.core import config, recipes, registry
from transduce.core.errors import UserError
from transduce.data.fingerprints import Fingerprint
from transduce.training.settings import Settings
from transduce.wings.engines.sharing import kinds
from transduce.wings.engines.sharing.card import Card
from transduce.wings.engines.sharing.examples import examples_of
from transduce.wings.engines.sharing.packing import pack
from transduce.wings.records.scores import Score


def settings(recipe: str) -> config.Table:
    """The settings of a run of a recipe, with all defaults."""
    table = recipes.read(recipe)
    return config.resolve(table, Settings, facts(table["data"]["units"]))


def card(recipe: str, **known: Any) -> str:
    return str(Card("mine", settings(recipe), "0.2", 7, **known))


@pytest.mark.parametrize("recipe", [each for each in recipes.names() if "model" in recipes.read(each)])
def test_every_recipe_has_a_card_in_words(recipe: str) -> None:
    text = card(recipe)
    first = next(line for line in text.splitlines() if line.startswith("This model of transduce"))
    assert not re.search(r"turns (into|\.)|  |into \.|reads and", first), first
    assert "## Use it" in text
    assert "## Limits" in text


@pytest.mark.parametrize(
    ("recipe", "told"),
    [
        (
            "g2p-small",
            ("turns text (in characters) into symbols.", "| member 2 | joint-ngram", "seeds, members 3: "),
        ),
        ("classification", ("| member 1 | classifier", "| member 2 | linear-classifier")),
        ("ptb-lstm", ("is a language model", "model.generate(", "transduce generate PATH", "transduce score PATH")),
        ("masked", ("fills the gaps of a text", 'model("The ___ barks")')),
        ("word-alignment", ("which word of a sentence belongs to which", "transduce align PATH")),
        ("digits", ("recordings", 'model("recording.wav")')),
        ("translation", ("| encoder | recurrent", "An output is cut after 200 tokens")),
    ],
)
def test_the_card_of_a_kind_says_how_to_use_it(recipe: str, told: tuple[str, ...]) -> None:
    text = card(recipe)
    assert [each for each in told if each not in text] == []


def test_a_card_names_labels_data_and_which_way_is_better() -> None:
    text = card(
        "classification",
        labels=["good", "<b>bad</b>"],
        fingerprints={"train": [Fingerprint("12ab", 1200), Fingerprint("34cd", 34)]},
        scores=[Score("cer", 1.0, 0.5, 1.5, "test", 60, "s", False, Fingerprint("56ef", 60))],
        effort={"updates": 1200, "minutes": 0.05, "target tokens": 9},
    )
    assert "answers with one of 2 labels." in text
    assert "Its labels: good, &#60;b&#62;bad&#60;/b&#62;." in text
    assert "| 1,234 | `12ab`, `34cd` |" in text
    assert "| 60 | `56ef` |" in text, "the test split, which training did not read"
    assert "| cer | test | 60 | 1.00 | 0.50 to 1.50 | lower | s |" in text
    assert "| training | 1,200 updates, 3 s, 9 target tokens |" in text
    assert "- It learned from 1,234 lines." in text
    assert "- It answers with one of its labels for every input" in text
    many = card("classification", labels=[str(place) for place in range(100)])
    assert "39, …." in many
    assert "40, " not in many.split("## Use it")[0]


def test_every_unit_has_words() -> None:
    assert registry.NAMES["Unit"].keys() - kinds.UNITS.keys() == {"labels", "gaps"}  # the card names them otherwise


def test_labels_are_read_from_the_tokenizer(tmp_path: Path) -> None:
    file = tmp_path / "target.json"
    file.write_text(json.dumps({"kind": "labelled", "labels": [["good", "bad"]]}))
    assert kinds.labels(settings("classification"), file) == ("good", "bad")
    vocabulary = {"added_tokens": [{"content": "<pad>"}], "model": {"vocab": {"<pad>": 0, "NOUN": 1}}}
    file.write_text(json.dumps(vocabulary))
    assert kinds.labels(settings("tagging"), file) == ("NOUN",)
    assert kinds.labels(settings("translation"), file) == ()
    assert kinds.labels(settings("accents"), file) == ()  # letters, which no one reads as labels


def test_a_packed_run_has_the_fingerprints_of_its_data(own_run: Path, tmp_path: Path) -> None:
    pack(own_run, tmp_path / "packed")
    kept = json.loads((own_run / "checkpoints/last/fingerprints.json").read_text())
    text = (tmp_path / "packed" / "README.md").read_text()
    assert f"| {kept['train'][0]['lines']:,} | `{kept['train'][0]['sha256']}` |" in text
    (own_run / "checkpoints/last/fingerprints.json").write_text('{"train": [{}]}')
    with pytest.raises(UserError, match=r"fingerprints\.json is damaged"):
        pack(own_run, tmp_path / "packed")
    (own_run / "checkpoints/last/fingerprints.json").unlink()
    pack(own_run, tmp_path / "packed")


def test_a_card_has_the_examples_of_its_run(own_run: Path, tmp_path: Path) -> None:
    assert examples_of(own_run) == examples_of(None) == ()
    (own_run / "examples.txt").write_text("a <b> | c\n\nd\n")
    pack(own_run, tmp_path / "pack")
    assert "## Examples\n- a &#60;b&#62; &#124; c\n- d\n" in (tmp_path / "pack" / "README.md").read_text()
    assert examples_of(own_run) == examples_of(tmp_path / "pack") == ("a <b> | c", "d")
