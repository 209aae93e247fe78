"""What the wing labels adds to test_registry.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_api import PAIRS

import transduce
from transduce.core import registry
from transduce.core.plugins import load_plugins
from transduce.data.corpora import DataError
from transduce.data.tokenizers.storage import from_record, load, record_of
from transduce.data.tokenizers.text import Characters, Symbols
from transduce.wings.labels.spelled import Spelled
from transduce.wings.labels.tokenizer import Labelled, Labels
from transduce.wings.signals.tokenizers.numbers import Numbers
from transduce.wings.syntax.tokenizers.factors import Factored
from transduce.wings.syntax.tokenizers.features import Features

TEXTS = ["a b", "b c"]


UNITS: list[tuple[Any, list[str], set[str]]] = [
    (Labelled(Characters()), ["x\ta b", "y\tb c"], {"labels", "with_text", "text"}),
    (Labels(), ["x", "y"], {"labels", "with_text", "text"}),
    (Features(Symbols()), ["V;PST\ta b", "N\tb c"], {"features", "separator", "text"}),
    (Factored(), ["a|A b|B"], {"factors", "separator"}),
    (Spelled(Characters()), TEXTS, {"words"}),
    (Spelled(Characters(), Symbols()), TEXTS, {"words", "known"}),
    (Numbers(), ["1 2 4"], {"mean", "scale"}),
]


@pytest.mark.parametrize(("unit", "texts", "keys"), UNITS, ids=lambda each: type(each).__name__)
def test_saved_files_are_read(unit: Any, texts: list[str], keys: set[str], tmp_path: Path) -> None:
    tokenizer = unit.learn(texts)
    record = json.loads(json.dumps(record_of(tokenizer)))
    assert set(record) == {"kind", *keys}
    (tmp_path / "saved.json").write_text(json.dumps(record))
    for found in (from_record(record), load(tmp_path / "saved.json")):
        assert type(found) is unit.tokenizer
        assert found.fingerprint == tokenizer.fingerprint
        assert found.encode(texts) == tokenizer.encode(texts)


PLUGIN = """
from dataclasses import dataclass

import transduce
from transduce.data.tokenizers.text import Characters, TextTokenizer


class ShiftedTokenizer(TextTokenizer):
    kind = "shifted"

    def encode(self, texts):
        return super().encode([text.swapcase() for text in texts])

    def decode(self, ids):
        return super().decode(ids).swapcase()


@dataclass(frozen=True)
class Shifted:
    signal = False
    tokenizer = ShiftedTokenizer

    def learn(self, texts):
        return ShiftedTokenizer.from_json(Characters().learn(text.swapcase() for text in texts).as_json())


transduce.register("Unit", "shifted", Shifted)
"""


@pytest.mark.usefixtures("names_restored")
def test_a_users_own_unit_trains_saves_loads_and_predicts(tiny: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    load_plugins([str(tmp_path / "mine.py")])
    settings = {key: value for key, value in tiny.items() if key != "data.origin"} | {
        "training.steps": 2,
        "data.units": {
            "source": {"type": "labelled", "text": "shifted"},
            "target": {"type": "shifted"},
        },
    }
    pairs = [(f"x\t{source}", target) for source, target in PAIRS]
    trained = transduce.train("reverse", tmp_path / "run", settings, pairs=pairs, device="cpu", progress=False)
    record = json.loads(next((tmp_path / "run").rglob("source.json")).read_text())
    assert (record["kind"], record["text"]["kind"]) == ("labelled", "shifted")
    loaded = transduce.load(tmp_path / "run", device="cpu")
    assert loaded.target_tokenizer.decode(loaded.target_tokenizer.encode(["ab"])[0]) == "ab"
    assert [loaded(source) for source, _ in pairs[:3]] == [trained(source) for source, _ in pairs[:3]]
    target = next((tmp_path / "run").rglob("target.json"))
    registry._registered.clear()
    del registry.NAMES["Unit"]["shifted"]
    with pytest.raises(DataError, match=r"no registered unit has tokenizers of kind 'shifted'.*--plugin"):
        load(target)
