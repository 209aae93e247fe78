"""Tokenizer files of every kind can be loaded, also files of a user's own units."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_api import PAIRS

import transduce
from transduce.core import names
from transduce.core.plugins import load_plugins
from transduce.core.protocols import Parallel, can, lacking_verbs
from transduce.data.corpora import DataError
from transduce.data.tokenizers.storage import load, record_of

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
    names._registered.clear()
    del names.NAMES["Unit"]["shifted"]
    with pytest.raises(DataError, match=r"no registered unit has tokenizers of kind 'shifted'.*--plugin"):
        load(target)


def test_a_tokenizer_that_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    class Mine:
        def as_json(self) -> Any:
            return {}

    with pytest.raises(DataError, match=r"a Mine could be saved but not loaded: give Mine a kind .* tokenizer = Mine"):
        record_of(Mine())  # type: ignore[arg-type]


def test_a_model_needs_the_methods_that_its_protocol_inherits() -> None:
    """``Parallel`` defines ``emit``, and inherits ``start`` and ``readout``."""

    class Half:
        def emit(self, source: Any, lengths: Any = None) -> None: ...

    assert not can(Half, Parallel)
    assert lacking_verbs(Half, Parallel) == ["start", "readout"]
