"""The site of the documentation: its menus, the checks of its pages, and, slowly, a build that axe reads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from transduce.cli.commands import SUMMARIES

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "site"
READ = ("docs/index", "docs/commands", "docs/python", "docs/results", "docs/tutorial", "search")  # by axe
CHAPTERS = ("05-attention", "12-search", "14-ctc", "15-edit-distance", "23-word-vectors")  # by axe, too


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SITE))


def test_each_page_of_docs_is_in_a_menu() -> None:
    import site_pages

    listed = set()
    for name in site_pages.LISTS:
        text = [(ROOT / f"{name}.md").read_text("utf-8")]
        site_pages.complete(name, text)
        listed |= set(re.findall(r"^(/[\w/.-]+)$", text[0], re.MULTILINE))
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "book").glob("*.md")]
    there = {"/" + path.relative_to(ROOT).with_suffix("").as_posix() for path in pages}
    assert listed == there - {"/docs/index"} | {"/CHANGELOG", "/CONTRIBUTING"}


def test_each_command_has_a_table_of_its_options() -> None:
    import site_pages

    text = "\n".join(site_pages.commands())
    assert all(f"\n### {name}\n" in text for name in SUMMARIES)
    assert "| `--beam` | Beam size; 1 is greedy. (from 1 to 10,000) |  |" in text
    assert "#### vectors train\n" in text
    assert "\b" not in text


def test_the_faults_of_a_site_are_found(tmp_path: Path) -> None:
    import make_site

    (tmp_path / "a.html").write_text('<p id="x"></p><a href="b.html#y">b</a><a href="#x">x</a><a href="c.html">c</a>')
    (tmp_path / "b.html").write_text('<script src="https://cdn.org/a.js"></script><a href="https://b.org">b</a>')
    (tmp_path / "a.css").write_text('p { background: url("//fonts.org/a.woff2") } b { background: url(a.png) }')
    assert make_site.faults(tmp_path) == [
        "a.html: b.html#y is no place of the page",
        "a.html: c.html is no file",
        "b.html loads https://cdn.org/a.js",
        'a.css loads url("//fonts.org/a.woff2',
    ]


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Sphinx needs Python 3.11")
def test_the_site_builds_without_a_warning_and_axe_finds_nothing_serious(tmp_path: Path, browser: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe

    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, SITE / "make_site.py", tmp_path / "site"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr
    assert done.stdout.endswith("no warning, no broken link, nothing from a network\n")
    found = []
    for width, scheme in ((1440, "light"), (390, "dark")):
        for name in (*READ, "book/index", *(f"book/{chapter}" for chapter in CHAPTERS)):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.goto((tmp_path / "site" / f"{name}.html").as_uri())
            for each in Axe().run(page).response["violations"]:
                if each["impact"] in ("serious", "critical"):
                    found.append((name, width, each["id"], each["nodes"][0]["html"]))
            page.close()
    page = browser.new_page()
    page.goto((tmp_path / "site" / "search.html").as_uri() + "?q=minimum+risk")
    page.wait_for_selector("#search-results li a")  # without a server
    assert not found
