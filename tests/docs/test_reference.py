"""The reference in docs/configuration.md is what the constructors say today."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from transduce.core import registry

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "reference"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = spec_from_loader("reference", SourceFileLoader("reference", str(SCRIPT)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        spec.loader.exec_module(module)
    return module


def test_the_page_is_current(script: ModuleType) -> None:
    current = script.PAGE.read_text(encoding="utf-8") == script.page()
    assert current, "docs/configuration.md is out of date: run `python scripts/reference`"


def test_every_name_and_table_is_there(script: ModuleType) -> None:
    text = script.reference()
    for protocol, known in registry.NAMES.items():
        if protocol == "Metric":
            continue
        assert f"\n### {protocol}\n" in text
        assert all(f'**`type = "{name}"`**' in text for name in known)
    for tables in ("`[data]`", "`[data.train]`, `[data.valid]`, `[data.test]`", "`[training.validation]`"):
        assert f"\n### {tables}\n" in text
    assert all(f"\n- `{metric}` — " in text for metric in registry.NAMES["Metric"])


def test_what_holders_hand_is_not_asked_of_people(script: ModuleType) -> None:
    handed = script.handed_by_holders()
    assert handed["Energy"] == {"query_width", "memory_width"}
    assert "input_width" in handed["Wiring"]
    assert "| `memory` |" not in script.reference()
    assert "| `embedding_width` | an integer | `256` |" in script.reference()
    assert "| `units` | a table | required |" in script.reference()
