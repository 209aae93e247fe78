"""The book: its chapters have their parts, wrong answers get help, and named code exists. test_site.py makes the pages,
and axe reads them there.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from book import chapter, grading, notebooks, parts, slides, touch
from book.exercise import exercises, judge, same
from book.source import found, source

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CHAPTERS = chapter.chapters()
SCRATCH = ("02-cells", "05-attention", "12-search", "14-ctc", "15-edit-distance")
ROOT = chapter.FOLDER.parent


def test_there_are_26_chapters_in_the_order_of_the_index() -> None:
    listed = re.findall(r"^- \[(\d+)\. (.*?)\]\((.*?)\.md\)$", (chapter.FOLDER / "index.md").read_text("utf-8"), re.M)
    assert [name for _, _, name in listed] == CHAPTERS
    assert [int(number) for number, _, _ in listed] == list(range(1, 27))
    for number, title, name in listed:
        assert parts.read(name).title == f"{number}. {title}"


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_has_its_parts(name: str) -> None:
    read = parts.read(name)
    expected = ["Formula", "Experiment", "Touch", "Exercises", "Read on"]
    if name in SCRATCH:
        expected.insert(1, "From scratch")
    assert [each for each in read.sections if not each.startswith("What the lectures")][1:] == expected
    assert 80 < len(read.idea.split()) <= 400
    assert "$$" in read.sections["Formula"]
    assert "source(" in read.sections["Formula"]
    assert "picture(" in read.sections["Experiment"]
    assert "touch." in read.sections["Touch"]
    for number in (1, 2, 3):  # a place for the answer, and a solution that is folded away
        checks = [cell for cell in parts.cells(read.sections["Exercises"]) if f"check({number}, " in cell.code]
        assert [bool(cell.tags) for cell in checks] == [False, True]
        assert " = ...\n" in checks[0].code
        assert checks[1].tags == ("hide-cell",)
        assert checks[1].code.startswith("# Solution")


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_code_that_a_chapter_shows_is_in_the_package(name: str) -> None:
    for cell in parts.read(name).cells:
        for node in ast.walk(ast.parse(cell.code)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "source":
                names = [ast.literal_eval(argument) for argument in node.args]
                assert source(*names).code.count("\n") >= 2, names


def test_code_from_scratch_is_short() -> None:
    for name in SCRATCH:
        first = parts.cells(parts.read(name).sections["From scratch"])[0]
        assert first.code.count("\n") < 60


@pytest.mark.parametrize("name", CHAPTERS)
def test_three_typical_wrong_answers_get_help(name: str) -> None:
    every = exercises(name)
    assert len(every) == 3
    for exercise in every:
        assert judge(exercise, exercise.right).right
        assert len(exercise.wrong) == 3
        said = set()
        for answer, message in exercise.wrong:
            verdict = judge(exercise, answer)
            assert not verdict.right, (answer, message)
            assert message in verdict.message
            said.add(verdict.message)
        assert len(said) == 3
        assert exercise.hint in judge(exercise, object()).message


def test_code_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no transduce\.search\.beam\.Bean"):
        found("transduce.search.beam.Bean.step")
    with pytest.raises(ValueError, match="at most 45"):
        source("transduce.search.beam.Beam")


def test_a_docstring_is_left_out_and_code_is_not() -> None:
    code = source("transduce.search.ranking.Wu.__call__").code
    assert code.startswith("def __call__")
    assert "return log_prob / penalty" in code
    assert '"""' not in source("transduce.metrics.edit_distance.EditTable._moves").code


def test_answers_are_compared_with_a_tolerance() -> None:
    assert same(0.3333, 1 / 3)
    assert same([1.0, (2,)], [1, [2.001]])
    assert not same(1, True)
    assert not same(3, "3")
    assert not same(object(), 3)


def test_a_thing_to_touch_is_safe_in_a_page() -> None:
    html = touch.dial("<b>", "Width", [{"label": "</script>", "bars": [("a", 1)], "note": ""}])._repr_html_()
    assert "</script>" not in html.split('<script type="application/json">')[1].split("</script></div>")[0]
    assert "&lt;b&gt;" in html


def test_a_filled_chapter_is_graded(tmp_path: Path) -> None:
    jupytext = pytest.importorskip("jupytext")
    text = (chapter.FOLDER / "15-edit-distance.md").read_text("utf-8")
    for number, answer in ((1, 3), (2, 8)):
        text = text.replace(f"answer = ...\ncheck({number}", f"answer = {answer}\ncheck({number}")
    jupytext.write(jupytext.reads(text, "md:myst"), tmp_path / "15-edit-distance.ipynb")
    rows = {row[0]: row for row in grading.sheet(tmp_path)}
    assert rows["15-edit-distance"][1:5] == ["1", "0", "0", "1"]
    assert "8 is the distance" in rows["15-edit-distance"][5]
    assert "3: no answer" in rows["15-edit-distance"][5]
    assert rows["01-sequences"][4:] == ["0", "1: no file | 2: no file | 3: no file"]


def test_chapters_become_notebooks_once(tmp_path: Path) -> None:
    pytest.importorskip("jupytext")
    assert len(notebooks.write(tmp_path)) == 26
    assert notebooks.write(tmp_path) == []
    cells = json.loads((tmp_path / "14-ctc.ipynb").read_text("utf-8"))["cells"]
    assert any("hide-cell" in cell["metadata"].get("tags", []) for cell in cells)


def test_a_page_becomes_slides() -> None:
    page = (
        "<h1>1. A<a>¶</a></h1><p>One.</p><details><p>Folded.</p></details><h2>Formula</h2><p>Two:</p>"
        '<figure class="picture"><svg></svg></figure><h2>Read on</h2><p>Three.</p></article>'
    )
    made: Any = slides.slides(page)
    assert made == [
        ("1. A", ""),
        ("The idea", "<p>One.</p>"),
        ("Formula", '<p>Two:</p><figure class="picture"><svg></svg></figure>'),
    ]
    deck = slides.deck(page)
    assert deck.count('class="slide"') == 3
    assert "http" not in deck.replace("http://www.w3.org", "")


def test_the_questions_have_the_answers_of_the_pictures() -> None:
    every = tomllib.loads((chapter.FOLDER / "questions.toml").read_text("utf-8"))["question"]
    assert {len([each for each in every if each["chapter"] == name]) for name in {q["chapter"] for q in every}} == {10}
    assert len(every) == 50
    for question in every:
        name = f"{question['chapter']}.{question['picture']}.json"
        found: Any = json.loads((chapter.FOLDER / "figures" / name).read_text("utf-8"))
        for key in question["data"].split("."):
            found = found[int(key) if isinstance(found, list) else key]
        assert found == pytest.approx(question["answer"], rel=0.02, abs=0.01), question
