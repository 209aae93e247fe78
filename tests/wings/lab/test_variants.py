"""benchmarks/variants.py: its files name settings that their recipes have, and its tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from transduce.core import config, recipes
from transduce.core.types import Example

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


pytestmark = pytest.mark.usefixtures("benchmarks")


@pytest.mark.parametrize("file", sorted((BENCHMARKS / "variants").glob("*.toml")), ids=lambda file: file.stem)
def test_the_variants_differ_and_their_recipes_have_the_settings(file: Path) -> None:
    from variants import Comparison

    compared = Comparison(**config.read(file))
    found = []
    for own in compared.variants.values():
        table = recipes.read(own.get("recipe", compared.recipe))
        changed = recipes.change(
            table, [f"training.steps={compared.updates}", *compared.settings, *own.get("settings", [])]
        )
        found.append((changed["data"]["units"], changed["model"], changed.get("init")))
    assert all(one != other for place, one in enumerate(found) for other in found[:place])


def test_examples_with_new_words() -> None:
    from variants import with_new_words

    train = [Example("x", ("a b",)), Example("y", ("c",))]
    assert with_new_words(train, [Example("", ("b c",)), Example("", ("a d",))]) == [False, True]


def test_the_curve_of_a_run_is_read_from_its_validations(tmp_path: Path) -> None:
    import numpy as np
    from variants import Trained, curves

    from transduce.metrics.base import metric
    from transduce.metrics.statistics import Statistics

    (tmp_path / "metrics.jsonl").write_text(
        '{"event": "update", "step": 1}\n'
        '{"event": "validation", "what": "valid", "step": 2, "loss": 3.0, "metrics": {"exact": 10.0}}\n'
        '{"event": "validation", "what": "average", "step": 4, "loss": 3.0, "metrics": {"exact": 99.0}}\n'
        '{"event": "validation", "what": "valid", "step": 4, "loss": 2.0, "metrics": {"exact": 20.0}}\n'
    )
    found = Trained(tmp_path, Statistics(metric("exact"), np.zeros((1, 2))), "exact")
    assert curves({"one": found})[2:] == ["| one | 10.0 | 20.0 |"]
