"""The pages in a headless Chromium. They load nothing, have no errors, fit the window, are readable, and show values at
the mouse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from browsers import FAINT_TEXTS
from transduce.cli.app import app
from transduce.metrics.bins import Bin
from transduce.metrics.significance import Interval
from transduce.wings.alignment import report as word_links
from transduce.wings.alignment.report import PairLinks
from transduce.wings.fitting.report import Fact, Report, Row
from transduce.wings.lab.sweeps.grid import Variant
from transduce.wings.lab.sweeps.measurement import Conditions, Measurement
from transduce.wings.lab.sweeps.question import Question
from transduce.wings.lab.sweeps.results import ResultRow, SweepResults
from transduce.wings.lab.sweeps.results_page import results_page
from transduce.wings.looking.inspection.cells import CellTrace
from transduce.wings.looking.inspection.classes import ClassReading, WordEffect
from transduce.wings.looking.inspection.heads import HeadRole
from transduce.wings.looking.inspection.sentence import SentenceReading, Step, WordWeights
from transduce.wings.looking.reports.cells import cells_page
from transduce.wings.looking.reports.classes import classes_page
from transduce.wings.looking.reports.heads import HeadsReport, heads_page
from transduce.wings.looking.reports.sentence import sentence_page
from transduce.wings.pages.page import write
from transduce.wings.pages.palette import DARK, HUES, LIGHT

pytestmark = pytest.mark.slow

HOVERED = """() => {
  // The boxes of elements that tell something to the mouse, and whether the mouse really reaches each of them.
  const told = [...document.querySelectorAll("svg title")].map(each => each.parentElement)
    .concat([...document.querySelectorAll("[title]")]);
  for (const each of document.querySelectorAll("details")) each.open = true;
  const missed = []; let looked = 0;
  for (const each of told.slice(0, 400)) {
    each.scrollIntoView({block: "center", inline: "center"});
    const shapes = [each, ...each.querySelectorAll("rect, line, path, circle, text, tspan")];
    const points = shapes.flatMap(shape => {
      const box = shape.getBoundingClientRect();
      return [[box.x + box.width / 2, box.y + box.height / 2], [box.x + 2, box.y + 2]];
    });
    // Lines between words cross each other, and a line feed has no place.
    if (!each.getClientRects().length || each.querySelector(".link") || !each.textContent.trim()) continue;
    looked += 1;
    if (!points.some(([x, y]) => each.contains(document.elementFromPoint(x, y)))) missed.push(each.textContent);
  }
  return [looked, missed];
}"""


def reading(source: list[str], target: list[str]) -> SentenceReading:
    """A sentence whose attention is strongest along the diagonal and positive everywhere."""
    places = torch.arange(len(target))[:, None] * len(source) / len(target) - torch.arange(len(source))
    weights_TS = torch.softmax(-places.abs(), -1)
    steps = tuple(Step(token, 0.7, ((token, 0.7), ("other", 0.2))) for token in target)
    heads = {"decoder.attention": torch.stack([weights_TS] * 2)}
    words = WordWeights(tuple(source), tuple(target), weights_TS)
    return SentenceReading("run", " ".join(source), " ".join(target), tuple(source), steps, heads, words, None)


LONG = [f"word{number}" for number in range(200)]
HEBREW = ["כלב", "רץ", "בפארק", "."]


def swept(out: Path) -> SweepResults:
    """The results of a sweep with two seeds of each of six variants with long names."""
    rows = []
    for width in (8, 16, 32, 64, 128, 256):
        score = 50 + width / 8
        found = Measurement(
            split="valid",
            examples=100,
            metrics={"exact": score},
            signatures={"exact": "refs:any"},
            parameters=1_234_567,
            updates=600,
            training_seconds=60.0,
            tokens_per_second=4321.0,
            search_seconds=0.0123,
            greedy_seconds=0.0045,
            length_unit="words",
            lengths=[Bin(1, 4, 2.5, 60, {"exact": score + 5}), Bin(5, 9, 7.0, 40, {"exact": score - 5})],
            conditions=Conditions(1, 1, "cpu"),
            intervals={"exact": Interval(score - 2, score + 2)},
            validation={"exact": score},
        )
        variant = Variant("reverse", {"model.encoder.width": width, "model.encoder.layers": 2})
        rows.append(ResultRow(variant, {1: found, 2: replace(found, metrics={"exact": score + 1})}))
    return SweepResults(Question("reverse", {}), out, tuple(rows), ())


@pytest.fixture(scope="module")
def folder(trained: Path, sister: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One page of every kind that commands write for a run of text, and a few pages made by hand."""
    folder = tmp_path_factory.mktemp("pages")
    lines = folder / "lines.txt"
    lines.write_text("abc\tone\nabca\ttwo\nbca\tone\ncab\ttwo\n", encoding="utf-8")
    run, other = str(trained), str(sister)
    for name, command in {
        "sentence": ["inspect", run, "abca", "--against", other, "--out"],
        "tree": ["inspect", run, "abca", "--beam-tree", "--out"],
        "evaluation": ["evaluate", run, "--report"],
        "comparison": ["compare", run, other, "--report"],
        "examination": ["examine", run, "--limit", "20", "--report"],
        "map": ["map", run, str(lines), "--labels", "--out"],
        "distance": ["distance", "kitten", "sitting", "--out"],
    }.items():
        device = [] if name == "distance" else ["--device=cpu"]
        app([*command, str(folder / f"{name}.html"), *device], standalone_mode=False)
    write(folder / "long.html", sentence_page([reading(LONG, LONG)]))
    write(folder / "hebrew.html", sentence_page([reading(HEBREW, ["a", "dog", "runs", "in", "the", "park", "."])]))
    text = 'He said "come in" and left.\n' * 8
    values_NU = np.linspace(-1, 1, 2 * len(text), dtype=np.float32).reshape(-1, 2)
    write(folder / "cells.html", cells_page(CellTrace(text, values_NU, (2,)), 1))
    roles = [
        HeadRole(f"encoder.layers.{n // 4}.mixer.heads", n % 4, "source", n / 8, 0.5, -1, 0.9, 0.0, 0.0, 0.0)
        for n in range(8)
    ]
    write(folder / "heads.html", heads_page(HeadsReport("run", 4, roles)))
    words = (WordEffect("good", 0, 4, 1.5), WordEffect("film", 5, 9, -0.5))
    labels = ("<pos>", 0.8), ("<neg>", 0.2)
    write(folder / "classes.html", classes_page(ClassReading("good film", "<pos>", labels, words)))
    write(folder / "sweep.html", results_page(swept(folder)))
    row = Row("one", 90.0, Interval(80.0, 95.0), 0.001, 0.1, 1.0, "")
    others = [replace(row, name=f"other-{n}", score=90.0 + n / 100) for n in range(6)]
    report = Report("Fit", "one was chosen.", "accuracy", [Fact("The data", ["4 pairs"])], [row, *others], [])
    write(folder / "fitted.html", report.page())
    links = PairLinks(("the", "house"), ("das", "Haus"), ((0, 0), (1, 1)), np.eye(2).tolist())
    word_links.write(links, "Word alignment", folder / "links.html")
    return folder


@pytest.fixture
def opened(browser: Any, folder: Path) -> Iterator[Callable[..., Any]]:
    """Opens a page of the folder. After the test, checks that no page loaded anything or had an error."""
    contexts, asked, failed = [], [], []

    def opening(name: str, scheme: str = "light", width: int = 1280) -> Any:
        contexts.append(browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}))
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: failed.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.goto((folder / f"{name}.html").as_uri())
        return page

    yield opening
    for context in contexts:
        context.close()
    assert failed == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


PAGES = [
    *("sentence", "tree", "evaluation", "comparison", "examination", "map", "distance", "cells", "links", "hebrew"),
    *("heads", "classes", "sweep", "fitted"),
]


def serious(page: Any) -> list[str]:
    """What axe finds that is serious or critical."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    found = axe.run(page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_can_be_read(opened: Callable[..., Any], name: str, scheme: str) -> None:
    for width in (390, 1280):
        page = opened(name, scheme, width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(FAINT_TEXTS) == []
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("h1").count() == 1
        assert page.locator("script").count() == (name == "sweep")
    assert serious(page) == []


@pytest.mark.parametrize("name", ["sentence", "tree", "map", "cells", "hebrew"])
def test_the_mouse_is_told_values(opened: Callable[..., Any], name: str) -> None:
    looked, missed = opened(name).evaluate(HOVERED)
    assert looked > 3
    assert missed == []


def test_a_sentence_of_200_tokens_is_a_page(opened: Callable[..., Any], folder: Path) -> None:
    assert (folder / "long.html").stat().st_size < 3e6
    page = opened("long", width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    told = page.locator("svg title").first.evaluate("each => each.textContent")
    assert told.startswith("word0 ← word0: 0.")
    assert told.count(":") == 5


def test_what_is_written_from_the_right_stands_from_the_right(opened: Callable[..., Any]) -> None:
    page = opened("hebrew")
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    for drawing in (0, 1):  # the heat map, and the lines
        svg = page.locator("svg").nth(drawing)
        first, last = (svg.get_by_text(word, exact=True).first.bounding_box() for word in (HEBREW[0], HEBREW[2]))
        assert first["x"] > last["x"]
    first, last = (svg.get_by_text(word, exact=True).first.bounding_box() for word in ("dog", "park"))
    assert first["x"] < last["x"]


# Linear RGB as seen without the cones for long or for middle wavelengths (Machado et al. 2009, severity 1).
PROTAN = ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998))
DEUTAN = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881))


def lab(colour: str, lacking: Any = None) -> Any:
    """The CIE L*a*b* values of a colour such as #1d4ed8. ``lacking`` is the matrix of a colour blindness."""
    value = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    if lacking is not None:
        linear = np.clip(np.array(lacking) @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ linear / [0.9505, 1.0, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("lacking", [None, PROTAN, DEUTAN], ids=["all cones", "no long waves", "no middle waves"])
def test_two_colours_that_mean_something_differ_for_everybody(lacking: Any) -> None:
    pairs = [(HUES[0], HUES[1]), (HUES[2], HUES[1])]
    pairs += [(colours["blue"], colours["orange"]) for colours in (LIGHT, DARK)]
    pairs += [(colours["blue-wash"], colours["orange-wash"]) for colours in (LIGHT, DARK)]
    for one, other in pairs:
        assert np.linalg.norm(lab(one, lacking) - lab(other, lacking)) > 15  # 2.3 is just noticeable


def test_a_heading_sorts_the_sweep(opened: Callable[..., Any]) -> None:
    page = opened("sweep")
    names = "[...document.querySelectorAll('tbody th')].map(each => each.textContent)"
    before = page.evaluate(names)
    page.get_by_role("button", name="exact,").click()  # the smallest first; the rows stand in the order of widths
    assert page.evaluate(names) == before
    page.get_by_role("button", name="exact,").click()
    assert page.evaluate(names) == before[::-1]
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    assert page.locator("figcaption").first.text_content() in before[0]


def test_a_wide_screen_is_used_and_the_page_says_first_what_it_shows(opened: Callable[..., Any]) -> None:
    page = opened("evaluation", width=1440)
    boxes = "[...document.querySelectorAll('section')].map(each => each.getBoundingClientRect().right)"
    assert max(page.evaluate(boxes)) > 1300
    assert page.locator(".summary").text_content().startswith("The ")
    assert page.locator("article").count() > 1
    tops = page.evaluate("[...document.querySelectorAll('article')].map(each => each.getBoundingClientRect().top)")
    assert len(set(tops)) < len(tops), "cards stand side by side"
    classes = opened("classes")
    assert "80.0 % sure of pos" in classes.locator(".summary").text_content()
    assert "<pos>" not in classes.locator("main").text_content(), "a label as people wrote it"
    heads = opened("heads").locator("main").text_content()
    assert "layer 2" in heads
    assert "head 4" in heads
