"""Parts of pages: escaped text, drawings as files of their own, and defined colours with enough contrast."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from transduce.wings.ctc import report as lattice
from transduce.wings.lab.reports import evaluation, passages
from transduce.wings.looking.reports import heat_map, search_tree
from transduce.wings.looking.reports.distance import drawing as table_drawing
from transduce.wings.looking.reports.distance import page as table_page
from transduce.wings.pages import drawing
from transduce.wings.pages.drawing import Drawing, text
from transduce.wings.pages.markup import Markup, element, joined, table
from transduce.wings.pages.page import STYLE, document, foreign, notes, section, write
from transduce.wings.pages.palette import DARK, HUES, LIGHT, variables, written_out

STYLES = [STYLE, *(each.STYLE for each in (drawing, search_tree, evaluation, heat_map, lattice, passages))]
STYLES += [table_drawing.STYLE, table_page.STYLE]


def test_text_is_escaped_and_markup_is_not() -> None:
    assert element("p", "<b>", Markup("<i></i>"), class_='"x"', stroke_width=1.5) == (
        '<p class="&quot;x&quot;" stroke-width="1.5">&lt;b&gt;<i></i></p>'
    )
    assert joined(["a", Markup("<i></i>")], "<") == "a&lt;<i></i>"
    assert document("<b>", "&", element("p", "<"), style="p { }").count("&lt;b&gt;") == 2


def test_a_table_has_a_caption_and_says_what_heads_what() -> None:
    markup = table(["a", "<"], [["b", "1"]], "both")
    assert markup.startswith('<div class="wide" tabindex="0" role="group" aria-label="both"><table><caption>both')
    assert '<thead><tr><th scope="col">a</th>' in markup
    assert '<th scope="col">&lt;</th>' in markup
    assert '<tr><th scope="row">b</th><td>1</td></tr>' in markup
    assert "caption" not in table(["a"], [])


def test_a_page_has_one_heading_and_a_text_its_own_direction() -> None:
    page = document("<שלום>", "about", section("part", "x"), heading=foreign("<שלום>"))
    assert page.count("<h1>") == page.count("<main>") == page.count("<h2>") == 1
    assert '<h1><bdi lang="">&lt;שלום&gt;</bdi></h1>' in page
    assert "<title>&lt;שלום&gt;</title>" in page


def test_what_holds_nothing_is_not_closed() -> None:
    assert element("input", type="radio", name="view") == '<input type="radio" name="view">'
    assert notes("a", "b").count("<br>") == 1


@pytest.mark.parametrize("style", STYLES)
def test_every_colour_of_a_style_is_in_the_palette(style: str) -> None:
    named = set(re.findall(r"var\(--([\w-]+)\)", style))
    assert named <= LIGHT.keys() == DARK.keys()
    assert "#" not in re.sub(r"#(kept|all)", "", style)  # no colour of its own
    assert "var(" not in written_out(style)
    assert all(f"--{name}: {colors[name]};" in variables() for name in named for colors in (LIGHT, DARK))


def brightness(color: str) -> float:
    """The relative luminance of WCAG 2."""
    parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(brightness, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colors", [LIGHT, DARK])
def test_colours_are_seen_on_their_paper(colors: dict[str, str]) -> None:
    """WCAG 2 requires a contrast of at least 3 for graphics and 4.5 for small text."""
    for ground in ("paper", "card"):
        assert contrast(colors["ink"], colors[ground]) > 12
        assert contrast(colors["faint"], colors[ground]) >= 4.5
    for wash in ("blue-wash", "orange-wash"):
        assert contrast(colors["ink"], colors[wash]) > 7
    hues = [name for name in colors if LIGHT[name] in HUES]
    assert len(hues) == len(HUES)
    assert min(contrast(colors[name], colors["paper"]) for name in hues) > 3


def test_a_drawing_alone_has_its_colours_in_it() -> None:
    alone = Drawing(40, 20, "<a>", [text(1, 2, "var(--ink) & <b>", class_="faint")]).alone(
        "svg text { fill: var(--red); }"
    )
    tree = ElementTree.fromstring(alone)
    assert (tree.get("width"), tree.get("viewBox"), tree.get("aria-label")) == ("40", "0 0 40 20", "<a>")
    assert [each.text for each in tree.iter("{http://www.w3.org/2000/svg}text")] == ["var(--ink) & <b>"]
    style = tree.findtext("{http://www.w3.org/2000/svg}style") or ""
    assert LIGHT["red"] in style
    assert "var(" not in style


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    write(tmp_path / "new" / "page.html", "é\ud800")
    assert (tmp_path / "new" / "page.html").read_bytes() == "é?".encode()
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["page.html"]
