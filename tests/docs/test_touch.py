"""Things to touch in the book, in a browser: by the mouse and by the keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import transduce
from book import touch


def shown(browser: Any, *things: touch.Touch | touch.Page) -> Any:
    page = browser.new_page()
    page.set_content("".join(thing._repr_html_() for thing in things))
    return page


@pytest.mark.slow
def test_a_table_fills_step_by_step(browser: Any) -> None:
    steps = [
        {"cells": [[0, 0]], "note": "It begins."},
        {"cells": [[0, 1], [1, 1]], "origins": [[0, 0]], "note": "It goes on."},
    ]
    page = shown(browser, touch.table("A table", ["a", "b"], ["c", "d"], [[1.0, 0.25], ["x", "y"]], steps))
    assert page.locator("td").all_inner_texts() == ["", "", "", "", ""]
    page.get_by_role("button", name="Next").click()
    assert page.locator("tbody td").all_inner_texts() == ["1", "", "", ""]
    page.get_by_role("slider").press("ArrowRight")
    assert page.locator("tbody td").all_inner_texts() == ["1", "0.25", "", "y"]
    assert page.locator(".touch-now").count() == 2
    assert page.locator(".touch-origin").inner_text() == "1"
    assert page.locator(".touch-note").inner_text() == "It goes on."
    page.get_by_role("button", name="Next").click()  # there is no further step
    page.get_by_role("button", name="Back").click()
    assert page.locator("tbody td").all_inner_texts() == ["1", "", "", ""]


def test_one_points_at_weights_and_turns_a_dial(browser: Any) -> None:
    frames = [{"label": str(size), "bars": [("all", size / 4)], "note": f"frame {size}"} for size in (1, 2)]
    page = shown(
        browser,
        touch.pointing("Weights", ["x", "y"], ["one", "two"], [[0.9, 0.1], [0.2, 0.8]]),
        touch.dial("A dial", "Width", frames),
    )
    assert page.locator(".touch-token").all_inner_texts() == ["one 0.90", "two 0.10"]
    page.get_by_role("button", name="y").focus()
    assert page.locator(".touch-token").all_inner_texts() == ["one 0.20", "two 0.80"]
    assert "y looks most at two: 0.80." in page.locator(".touch-note").all_inner_texts()
    assert page.locator("strong").inner_text() == "Width: 1"
    page.get_by_role("slider").press("End")
    assert page.locator("strong").inner_text() == "Width: 2"
    assert page.locator(".touch-size").inner_text() == "0.500"
    assert page.locator(".touch-note").all_inner_texts()[1] == "frame 2"


def test_a_model_inside_a_page_answers_what_one_types(browser: Any, tmp_path: Path) -> None:
    settings = {"data.origin.pairs": 60, "training.steps": 2, "training.validation.metrics": []}
    run = tmp_path / "run"
    transduce.train("reverse", run, settings, progress=False, device="cpu")
    page = shown(browser, touch.model("A <model>", run))
    inside = page.frame_locator("iframe[title='A <model>']")
    inside.get_by_label("Text").fill("abc")
    inside.get_by_role("button", name="Answer").click()
    inside.get_by_text("Answered in").wait_for()
    assert inside.locator("#outputs section li p").count() == 1
