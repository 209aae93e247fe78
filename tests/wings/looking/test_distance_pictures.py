"""Pictures of edit distance show the table, and their pages need no other file."""

from __future__ import annotations

import io
import re
import shlex
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from contextlib import redirect_stdout
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.cli import app as cli
from transduce.metrics.edit_distance import Costs, EditTable, distance
from transduce.metrics.units import columns
from transduce.wings.looking.reports.distance.drawing import HUES
from transduce.wings.looking.reports.distance.page import page, save, svg
from transduce.wings.looking.reports.distance.terminal import alignment_lines, lines, passed

DOCS = Path(__file__).parents[3] / "docs"
SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta", "br", "input"}

texts = st.text("ab <&\"'\n\t\u0301猫é\ud800", max_size=5)
tables = st.builds(EditTable, texts, texts, st.sampled_from([Costs(), Costs(1, 1, 2, 1), Costs(0.5, 1.25, 10)]))


def arrows(table: EditTable[str]) -> Counter[str]:
    """Counts the back-pointers of each kind. A back-pointer on no optimal alignment counts as "other"."""
    cells = [(i, j) for i, row in enumerate(table.distances) for j in range(len(row))]
    return Counter(edit.kind if table.passing[i][j] else "other" for i, j in cells for edit in table.edits(i, j))


# ------------------------------------------------------------------ terminal


def test_a_transposition_has_a_sign_of_its_own() -> None:
    assert lines(distance("ab", "ba", transposition=0.5)) == [
        "      ·     b     a",
        "·   [  0]←   1 ←   2",
        "       ↑ ↖     ↖",
        "a      1     1     1",
        "       ↑ ↖    X",
        "b      2     1  [0.5]",
        "",
        "← insert 1   ↑ delete 1   ↖ match 0, substitute 1   x transpose 0.5   "
        "⇐ ⇑ ⇖ X on an optimal alignment   [ ] on the first",
    ]


@settings(max_examples=60, deadline=None)
@given(table=tables)
def test_every_back_pointer_has_its_arrow(table: EditTable[str]) -> None:
    drawn = lines(table)[1:-2]
    signs = Counter(character for line in drawn for character in line)
    found = arrows(table)
    assert sum(signs[arrow] for arrow in "←↑↖x⇐⇑⇖X") == found.total()
    assert signs["⇖"] == found["match"] + found["substitute"]
    assert (signs["⇑"], signs["⇐"], signs["X"]) == (found["delete"], found["insert"], found["transpose"])
    assert signs["["] == signs["]"] == len(passed(table.alignment()))
    assert len(drawn) == 2 * len(table.source) + 1


@settings(max_examples=60, deadline=None)
@given(table=tables, width=st.integers(8, 30))
def test_alignments_are_cut_into_blocks(table: EditTable[str], width: int) -> None:
    drawn = alignment_lines(table.alignment(), width)
    assert all(columns(line) <= width for line in drawn)
    letters = "".join(drawn[2::4]).replace(" ", "")
    expected = "".join({"transpose": "tt", "match": "="}.get(edit.kind, edit.kind[0]) for edit in table.alignment())
    assert letters == expected


def test_an_alignment() -> None:
    assert alignment_lines(distance("the cat", "a 猫猫 cat", "words").alignment()) == [
        "- the  cat",
        "a 猫猫 cat",
        "i s    =",
    ]


# ------------------------------------------------------------------ drawing and page


@settings(max_examples=40, deadline=None)
@given(table=tables)
def test_the_drawing_is_the_table(table: EditTable[str]) -> None:
    drawn = ElementTree.fromstring(svg(table))
    cells = [group for group in drawn.iter(f"{SVG}g") if group.get("class") == "cell"]
    costs = [cell.findtext(f"{SVG}text") for cell in cells]
    assert costs == [f"{cost:g}" for row in table.distances for cost in row]
    tips = Counter(
        arrow.get("marker-end", "")[5:-1] for arrow in drawn.iter(f"{SVG}path") if "arrow" in arrow.get("class", "")
    )
    assert tips == arrows(table)
    framed = [rect for rect in drawn.iter(f"{SVG}rect") if rect.get("class") == "framed"]
    assert len(framed) == len(passed(table.alignment()))
    shaded = [float(rect.get("fill-opacity", "")) > 0 for rect in drawn.iter(f"{SVG}rect")]
    assert shaded == [passing > 0 for row in table.passing for passing in row]


def test_what_is_pointed_at_explains_itself() -> None:
    drawn = ElementTree.fromstring(svg(distance("ab", "ac", substitution=2)))
    titles = [title.text for title in drawn.iter(f"{SVG}title")]
    assert "D[2, 2] = 2\nsubstitute b by c: 0 + 2 = 2\ndelete b: 1 + 1 = 2\ninsert c: 1 + 1 = 2" in titles
    assert "match a" in titles


class Reader(HTMLParser):
    """Fails for a tag that needs a network or a script, and for an element that is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "iframe", "img")
        assert not {name for name, _ in attrs} & {"src", "href", "onclick"}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@settings(max_examples=40, deadline=None)
@given(table=tables)
def test_the_page_stands_alone(table: EditTable[str]) -> None:
    drawn = page(table)
    read = Reader(drawn)
    assert f"The edit distance is {table.distance:g}: " in read.text
    assert f"{table.count:,} optimal alignment" in read.text
    assert drawn.count("<li>") == min(table.count, 50)
    assert drawn.encode()


def test_the_page_says_how_many_it_leaves_out() -> None:
    assert "and 13 more</p>" in page(distance("aaa", "bbb", substitution=2))  # Delannoy's 63
    assert "more</p>" not in page(distance("aaa", "bbb"))


def test_kinds_of_edits_have_their_colours() -> None:
    drawn = page(distance("abcd", "bax", transposition=1))
    for kind, hue in HUES.items():
        assert f".{kind} {{ color: var(--{hue}); }}" in drawn
        assert f'class="key {kind}"' in drawn


def test_the_rule_has_the_costs_in_it() -> None:
    text = Reader(page(distance("a", "b", insertion=0.5, deletion=2, substitution=3))).text
    assert "D[i, j−1] + 0.5" in text
    assert "D[i−1, j] + 2" in text
    assert "D[i−1, j−1] + 3" in text
    assert "D[i−2, j−2]" not in text


def test_the_ending_says_what_is_written(tmp_path: Path) -> None:
    table = distance("a", "b")
    save(table, tmp_path / "table.html")
    save(table, tmp_path / "table.svg")
    assert (tmp_path / "table.html").read_text(encoding="utf-8") == page(table)
    assert (tmp_path / "table.svg").read_text(encoding="utf-8") == svg(table)
    with pytest.raises(ValueError, match=r"table.png: a table is written as .html or .svg"):
        save(table, tmp_path / "table.png")


# ------------------------------------------------------------------ the page of the documentation


def blocks(language: str) -> list[str]:
    text = (DOCS / "edit-distance.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", blocks("console"))
def test_the_command_prints_what_the_page_shows(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command, _, expected = block.partition("\n")
    monkeypatch.setattr(sys, "argv", shlex.split(command.removeprefix("$ ")))
    printed = io.StringIO()
    with redirect_stdout(printed), pytest.raises(SystemExit):
        cli.main()
    assert printed.getvalue() == expected


@pytest.mark.parametrize("block", blocks("python"))
def test_the_pages_python_runs(block: str) -> None:
    with redirect_stdout(io.StringIO()):
        exec(compile(block, "docs/edit-distance.md", "exec"), {})


def test_the_committed_picture_is_drawn_by_this_code() -> None:
    drawn = (DOCS / "pictures" / "edit-distance.svg").read_text(encoding="utf-8")
    assert drawn == svg(distance("intention", "execution", substitution=2))
