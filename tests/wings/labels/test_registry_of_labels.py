"""What the wing labels adds to test_registry.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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
