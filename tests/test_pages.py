"""The pages that show how to add a part: their code is run as a plugin, and their model held to the laws."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import test_laws
from families import build
from transduce import config, names
from transduce.cli.plugins import load_plugins

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ["adding-an-attention"]


def block(page: str, language: str) -> str:
    """The page's one fenced block of a language."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    (code,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(code)


@pytest.fixture(params=PAGES)
def model(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The page's model, made by the page's class; the names are as before afterwards."""
    for protocol, table in names.NAMES.items():
        monkeypatch.setitem(names.NAMES, protocol, dict(table))
    monkeypatch.setattr(names, "_registered", dict(names._registered))
    plugin = tmp_path / "plugin.py"
    plugin.write_text(block(request.param, "python"), encoding="utf-8")
    load_plugins([str(plugin)])
    return build(config.parse(block(request.param, "toml").encode(), request.param))


@pytest.mark.parametrize("page", PAGES)
def test_the_file_is_short(page: str) -> None:
    assert len(block(page, "python").splitlines()) < 60


def test_the_pages_model_holds_the_laws(model: Any) -> None:
    for grad in (True, False):
        test_laws.test_chunk(model, grad)
        test_laws.test_stagger(model, grad)
    test_laws.test_row(model)
    test_laws.test_hypotheses_share_their_source(model)
    test_laws.test_padding(model)
    test_laws.test_accumulate(model)
