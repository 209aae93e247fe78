"""Units of recurrent models: states after each character, properties of texts, and which units follow them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import transduce
from transduce import api
from transduce.answers.transducer import Transducer
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.types import BOS
from transduce.wings.looking.inspection.cells import CellTrace, trace
from transduce.wings.looking.inspection.tracking import brackets, correlations, indentation, place, quotes, track
from transduce.wings.looking.reports.cells import cells_drawing, cells_page

TEXT = "<ab><cd>\n</cd></ab>"


@pytest.fixture(scope="module")
def run(tiny: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("cells") / "run"
    kept = {key: value for key, value in tiny.items() if key.startswith(("training", "data.cache"))}
    changes = {
        "data.origin": {"type": "xml-documents", "documents": 60, "steps": 3, "longest": 2},
        "model.decoder.width": 5,
        "model.decoder.layers": 2,
        "metrics": ["perplexity"],
    }
    api.train("cells-xml", path, kept | changes, device="cpu", progress=False)
    return path


@pytest.fixture(scope="module")
def transducer(run: Path) -> Transducer:
    return transduce.load(run, device="cpu")


@torch.inference_mode()
def state_after(transducer: Transducer, ids: list[int]) -> list[float]:
    """The state after BOS and these ids, which are read in one call."""
    state = transducer.model.start(transducer.padded([transducer.read_one("")]))
    _, state = transducer.model.extend(torch.tensor([[BOS, *ids]]), state)
    return [float(each) for leaf in tree.leaves(state) if leaf.shape == (1, 5) for each in leaf[0]]


def test_states_are_those_after_each_character(transducer: Transducer, monkeypatch: pytest.MonkeyPatch) -> None:
    found = trace(transducer, TEXT)
    first, second = transducer.target_tokenizer.encode(TEXT.split("\n"))
    assert found.values_NU.shape == (len(TEXT), 20)  # h and c of two layers
    assert found.sizes == (5, 5, 5, 5)
    assert found.values_NU[3] == pytest.approx(state_after(transducer, first[:4]), abs=1e-5)
    # The end of a line is the beginning of the next one.
    read = [*first[:-1], BOS, *second[:2]]
    assert found.values_NU[len(read) - 1] == pytest.approx(state_after(transducer, read), abs=1e-5)
    monkeypatch.setattr("transduce.wings.looking.inspection.cells.ROW", 2)  # now each line is a document
    apart = trace(transducer, TEXT)
    assert apart.values_NU[len(first)] == pytest.approx(state_after(transducer, second[:1]), abs=1e-5)
    assert apart.values_NU[:8] == pytest.approx(found.values_NU[:8], abs=1e-5)


def test_properties_of_a_text() -> None:
    assert quotes('a "b" c').tolist() == [0, 0, 1, 1, 0, 0, 0]
    assert quotes('"a\n\nb').tolist() == [1, 1, 1, 0, 0]  # an empty line ends it
    assert quotes("“a “b” c").tolist() == [1, 1, 1, 1, 1, 0, 0, 0]
    assert brackets("f(a[0])]x").tolist() == [0, 1, 1, 2, 2, 1, 0, 0, 0]
    assert indentation("  a\n b").tolist() == [1, 2, 2, 2, 1, 1]
    assert place("ab\nc").tolist() == [1, 2, 3, 1]


def test_the_unit_that_follows_is_found() -> None:
    rng = np.random.default_rng(1)
    text = 'he said "yes indeed" and went. ' * 40
    values_NU = rng.normal(size=(len(text), 30)).astype(np.float32)
    inside = quotes(text)
    values_NU[:, 17] = -inside + 0.5 * rng.normal(size=len(text))
    found = track(CellTrace(text, values_NU, (10, 20)), "quotes")
    assert found.best == 17
    half = len(text) // 2
    assert found.units[0][1] == pytest.approx(np.corrcoef(values_NU[half:, 17], inside[half:])[0, 1])
    assert found.units[0][1] < -0.5
    assert found.characters == len(text) - half
    # Two units that only together hold the property: the probe sees what no unit shows.
    noise = rng.normal(size=len(text)).astype(np.float32) * 10
    values_NU[:, 17], values_NU[:, 18] = noise, inside - noise
    found = track(CellTrace(text, values_NU, (30,)), "quotes")
    assert abs(found.units[0][1]) < 0.3
    assert found.f1 > 99


def test_the_probe_does_not_see_the_second_half() -> None:
    rng = np.random.default_rng(2)
    text = 'he said "yes indeed" and went. ' * 20
    values_NU = rng.normal(size=(len(text), 300)).astype(np.float32)  # as many units as characters to learn from
    assert track(CellTrace(text, values_NU, (300,)), "quotes").f1 < 70
    assert track(CellTrace(text, values_NU, (300,)), "place").explained < 0.1


def test_correlations_are_numpys() -> None:
    rng = np.random.default_rng(3)
    units, values = rng.normal(size=(50, 4)), rng.normal(size=50)
    units[:, 3] = 2.0
    expected = [np.corrcoef(units[:, unit], values)[0, 1] for unit in range(3)]
    assert correlations(units, values).tolist() == pytest.approx([*expected, 0])


def test_inspect_shows_units(run: Path, trained: Path, tmp_path: Path, call: Callable[..., Any]) -> None:
    text = "\n".join(["<ab></ab>", "<c>(</c>", "(<d>)"] * 4)
    (tmp_path / "text.txt").write_text(text)
    asked = "inspect", run, tmp_path / "text.txt", "--cells", "--device=cpu"
    status, out, _ = call(*asked, "--track=brackets")
    assert status == 0
    assert out.startswith("correlation with brackets")
    assert call(*asked, "--track=brackets", "--out", tmp_path / "page.html")[0] == 0
    assert "Units that follow brackets" in (tmp_path / "page.html").read_text()
    assert call(*asked, "--unit=3", "--out", tmp_path / "unit.json")[0] == 0
    found = json.loads((tmp_path / "unit.json").read_text())
    assert (found["unit"], found["text"], len(found["values"])) == (3, text, len(text))
    assert "unit 3 (tensor 1, place 3)" in call(*asked, "--unit=3")[1]
    for options, message in (
        ((), "add --unit NUMBER"),
        (("--unit=20",), "unit 20: the state has 20 units"),
        (("--track=quotes",), "quotes has one value in the first half"),
        (("--track=colour",), "property 'colour': expected quotes"),
        (("--unit=1", "--out=x.png"), "a unit is shown on a page"),
    ):
        status, _, err = call(*asked, *options)
        assert status == 2
        assert message in err
    with pytest.raises(UserError, match="is no language model"):
        trace(transduce.load(trained, device="cpu"), "abc")


def test_the_page_shows_each_character() -> None:
    found = CellTrace("a<b", np.array([[1.0], [-0.5], [0.0]], dtype=np.float32), (1,))
    page = cells_page(found, 0)
    assert '<span class="p8" title="+1.00">a</span><span class="n4" title="-0.50">&lt;</span>b' in page


def test_the_drawing_colours_each_character_of_the_first_lines() -> None:
    text = "ab\n\n<c\n" + "d\n" * 50
    values = np.linspace(-1, 1, len(text), dtype=np.float32)[:, None]
    drawn = cells_drawing(CellTrace(text, values, (1,)), 0)
    assert drawn.count("<text") == 40
    assert drawn.count("<rect") == 4 + 38
    assert "&lt;c" in drawn
    first = f'fill-opacity="{0.5 * abs(values[0, 0]):.6g}"'
    assert f'class="n" {first}' in drawn
