"""The extras of the package: what `pip install 'transduce[...]'` adds."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import transduce

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
NOT_FOR_USERS = {"benchmarks", "site", "book", "dev"}


def members(extra: str) -> set[str]:
    """The extras that an extra contains, by name."""
    found = [re.fullmatch(r"transduce\[(.*)\]", requirement) for requirement in EXTRAS[extra]]
    return {name for each in found if each for name in each[1].split(",")}


def test_all_is_every_extra_for_users_and_nothing_else() -> None:
    assert members("all") == EXTRAS.keys() - NOT_FOR_USERS - {"all"}
    assert len(EXTRAS["all"]) == 1


def test_the_package_and_its_metadata_have_one_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version == transduce.__version__
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_developers_have_everything() -> None:
    assert members("dev") == {"all", "benchmarks", "site"}


@pytest.mark.parametrize("page", ["README.md", "docs/start.md", "docs/install.md"])
def test_the_pages_name_extras_that_there_are(page: str) -> None:
    named = re.findall(r"-e '\.\[([\w,]+)\]'|transduce\[([\w,]+)\]", (ROOT / page).read_text(encoding="utf-8"))
    assert {name for both in named for part in both for name in part.split(",") if name} <= EXTRAS.keys()


def test_the_table_of_extras_is_complete() -> None:
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == sorted(EXTRAS)
