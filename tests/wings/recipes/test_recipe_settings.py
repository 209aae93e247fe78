"""The essential settings of each recipe are pinned: no edit of a recipe goes unnoticed."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from transduce.core import config, recipes

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "pin-recipes"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = spec_from_loader("pin_recipes", SourceFileLoader("pin_recipes", str(SCRIPT)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", recipes.names())
def test_a_recipe_is_what_was_pinned(name: str, script: ModuleType) -> None:
    pinned = config.read(script.PINNED).get(name)
    assert script.essential(recipes.own_tables(name)) == pinned, "a recipe has changed: run scripts/pin-recipes"


def test_only_recipes_are_pinned(script: ModuleType) -> None:
    assert sorted(config.read(script.PINNED)) == recipes.names()
    assert script.PINNED.read_text(encoding="utf-8") == script.page()


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("digits-joint", "objective.type", "ctc"),
        ("captions", "objective.smoothing", 0.0),
        ("g2p-attention", "model.encoder.cell", "gru"),
        ("tagging", "metrics", ["exact"]),
    ],
)
def test_what_decides_a_result_is_essential(name: str, key: str, value: object, script: ModuleType) -> None:
    own = recipes.own_tables(name)
    changed = config.assign(own, key, value)
    assert changed != own
    assert script.essential(changed) != script.essential(own)


def test_g2p_has_the_lstm_of_g2p_attention() -> None:
    assert recipes.read("g2p")["model"]["model"] == recipes.read("g2p-attention")["model"]
