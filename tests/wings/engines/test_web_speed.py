"""benchmarks/web_speed.py: its table, and what it finds of a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_engine_file import SEARCHES, TABLES, content, needs_engine

import transduce_engine
from transduce.wings.engines.web.page import page

pytestmark = pytest.mark.usefixtures("benchmarks")


def test_a_row_compares_an_engine_with_another_in_the_same_round() -> None:
    import web_speed

    done = {
        "one": [(4.0, [["a"], ["b"], ["c"]]), (1.0, []), (2.0, [])],
        "two": [(2.0, [["a"], ["B"], ["c"]]), (3.0, []), (8.0, [])],
    }
    assert web_speed.speeds("run", done, "two", 3) == [
        "| run | one | 2 | 3.00 | 2 of 3 |",
        "| run | two | 1 | 1.00 | 3 of 3 |",
    ]


@needs_engine
def test_the_outputs_of_a_page_and_its_requests_are_found(browser: Any, tmp_path: Path) -> None:
    import web_speed

    _, file = content(TABLES["transformer, pre-norm"], SEARCHES["beam 5"])
    given, out = ["abc", "", "ba"], tmp_path / "page.html"
    whole = page("letters", file, False)
    out.write_text(whole)
    expected = [answer.best.text or "(empty)" for answer in transduce_engine.load(file).answer(given)]
    assert web_speed.in_a_page(browser, out, given, False) == (expected, 0)
    (tmp_path / "other.js").touch()
    out.write_text(whole.replace("</body>", '<script src="other.js"></script></body>'))
    assert web_speed.in_a_page(browser, out, given, False) == (expected, 1)
