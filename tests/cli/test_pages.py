"""Code on the documentation pages. If a page shows how to add a part, its code runs as a plugin, and its model must
obey the laws. The command and the code of the page on series run too."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import test_laws
from families import build
from transduce.core import config, registry
from transduce.core.plugins import load_plugins
from transduce.core.types import Memory, Padded

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["adding-a-cell", "adding-an-attention"]


def block(page: str, language: str) -> str:
    """The page's one fenced block of a language."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    (code,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(code)


@pytest.fixture(params=PAGES)
def model(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The page's model, made by the page's class; the names are as before afterwards."""
    for protocol, table in registry.NAMES.items():
        monkeypatch.setitem(registry.NAMES, protocol, dict(table))
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    plugin = tmp_path / "plugin.py"
    plugin.write_text(block(request.param, "python"), encoding="utf-8")
    load_plugins([str(plugin)])
    return build(config.parse(block(request.param, "toml").encode(), request.param))


@pytest.mark.parametrize("model", ["adding-an-attention"], indirect=True)
@torch.no_grad()
def test_the_pages_attention_is_its_formula(model: Any) -> None:
    """One query over five states, the last two of them padding: those further than the window (2) get nothing."""
    attend = model.decoder.wiring.attention
    query, states = torch.randn(1, 1, 8, dtype=torch.float64), torch.randn(1, 5, 12, dtype=torch.float64)
    memory = Memory(Padded(states, torch.tensor([3])), (), None)
    weights = attend(query, attend.start(memory))[1][0, 0]
    place = 3 * torch.sigmoid(attend.place(torch.tanh(attend.hidden(query)))).item()
    energy = attend.energy(query, attend.energy.keys(states))[0, 0]
    scores = [math.exp(float(energy[s]) - (s - place) ** 2 / 2) if abs(s - place) <= 2 else 0.0 for s in range(3)]
    assert weights.tolist() == pytest.approx([score / sum(scores) for score in scores] + [0.0, 0.0])


@pytest.mark.parametrize("page", PAGES)
def test_the_file_is_short(page: str) -> None:
    assert len(block(page, "python").splitlines()) < 60


def test_the_pages_model_holds_the_laws(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for grad in (True, False):
        test_laws.test_chunk(model, grad)
        test_laws.test_stagger(model, grad)
    test_laws.test_row(model)
    test_laws.test_hypotheses_share_their_source(model)
    test_laws.test_padding(model)
    test_laws.test_accumulate(model, monkeypatch)


# -------------------------------------------------------------------- series
