"""What the wing recipes adds to test_config_limits.py."""

from __future__ import annotations

import re

import pytest
from test_config_limits import refused

from transduce.core import config, recipes
from transduce.core.protocols import Model
from transduce.core.types import Facts
from transduce.training.settings import read_settings

FACTS = ("source_vocabulary", "target_vocabulary", "source_factors", "source_words")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("encoder.width=9223372036854775807", "encoder.width: 9223372036854775807 is out of range; at most 1,000,000"),
        ("encoder.embedding_width=1000001", "encoder.embedding_width: 1000001 is out of range"),
        ("encoder.layers=100000", "encoder.layers: 100000 is out of range; at most 1,000 was expected"),
        ("encoder.width=-9223372036854775809", "encoder.width: -9223372036854775809 is out of range"),
    ],
)
def test_sizes_that_nobody_needs_are_refused(setting: str, expected: str) -> None:
    model = {"type": "tagger", "encoder": {"type": "recurrent", "cell": "gru", "width": 4, "embedding_width": 4}}
    table = config.override(model, setting)
    assert refused(lambda: config.check(table, Model, FACTS, "model")).startswith(f"model.{expected}")


def test_a_model_that_no_memory_holds_is_refused() -> None:
    encoder = {"type": "recurrent", "cell": "lstm", "width": 10**6, "embedding_width": 10**6, "layers": 900}
    table = {"type": "tagger", "encoder": encoder}
    line = refused(lambda: config.build(table, Model, Facts(10**9, 10**9), "model"))
    assert re.search(r"needs more memory than this machine has .* choose smaller widths or fewer layers$", line)


@pytest.mark.parametrize(
    "setting",
    [
        "training.optimizer.rate=nan",
        "model.decoder.cell={type='lstm', forget_bias=nan}",
        "search.allocation={type='groups', groups=1, penalty=nan}",
        "search.allocation={type='groups', groups=1, penalty=inf}",
        "training.clip=-inf",
    ],
)
def test_what_is_not_a_number_is_refused(setting: str) -> None:
    recipe = recipes.read("g2p-attention")
    assert "is not a finite number; a finite number was expected" in refused(
        lambda: read_settings(recipes.change(recipe, [setting]))
    )
