"""The recipes and options that the documentation names exist. Its commands and files with settings build a model."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest
import torch
from test_recipes import facts

from transduce.cli.commands import SUMMARIES, imported
from transduce.core import config, recipes
from transduce.training.request import AUTO
from transduce.training.settings import Settings

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
WRITTEN = [page for page in PAGES if page.name not in ("results.md", "log.md")]  # one is generated, one is history
ELSEWHERE = {"--init", "--plugin", "--teacher"}  # options that bring their own parts or settings
VERBS = ("train", "data", "recipes")  # transduce VERB RECIPE


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def commands() -> list[tuple[str, list[str]]]:
    """The page and the words of each command `transduce ...`."""
    found = []
    for page in PAGES:
        for _, text in blocks(page):
            for line in text.replace("\\\n", " ").splitlines():
                line = line.removeprefix("$ ")
                if line.startswith("transduce "):
                    found.append((page.name, shlex.split(line, comments=True)))
    return found


def changed() -> list[tuple[str, str, list[str]]]:
    """The page, the recipe and the settings of each command that trains a shipped recipe with other settings."""
    found = []
    for page, words in commands():
        settings = [value for option, value in pairwise(words) if option == "--set"]
        if words[1] == "train" and settings and words[2] in recipes.names() and not ELSEWHERE.intersection(words):
            found.append((page, words[2], settings))
    return found


def files() -> list[tuple[str, str]]:
    """The page and the text of each file that changes a recipe."""
    return [(page.name, text) for page in PAGES for _, text in blocks(page) if text.startswith("base = ")]


@pytest.mark.parametrize(("page", "recipe", "settings"), changed())
def test_the_settings_of_a_page_make_a_model(page: str, recipe: str, settings: list[str]) -> None:
    make(config.change(recipes.read(recipe), settings))


@pytest.mark.parametrize(("page", "text"), files())
def test_a_file_of_a_page_makes_a_model(page: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(text, "utf-8")
    make(recipes.read(tmp_path / "mine.toml"))


def make(table: config.Table) -> None:
    with torch.device("meta"):  # no weights
        config.build(table, Settings, facts(table["data"]["units"])).model()


def test_the_options_of_a_page_exist() -> None:
    """Every command of a page is checked. Options after a pipe belong to another program."""
    unknown = []
    for page, (_, name, *words) in commands():
        if name not in SUMMARIES:
            continue
        command: Any = imported(name)
        while words and words[0] in getattr(command, "commands", ()):
            command = command.commands[words.pop(0)]
        known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        own = takewhile(lambda word: word not in ("|", "&&"), words)
        unknown += [(page, name, word) for word in own if word.startswith("--") and word.split("=")[0] not in known]
    assert not unknown


def test_pages_name_only_recipes_that_exist() -> None:
    """A recipe's name is in a command, in `recipe=` of a sweep, or after the word "recipe"."""
    named = set()
    for page, words in commands():
        named |= {(page, words[2])} if words[1] in VERBS and len(words) > 2 else set()
        compared = [word.removeprefix("recipe=").split(",") for word in words if word.startswith("recipe=")]
        named |= {(page, name) for names in compared for name in names}
    for page in WRITTEN:
        named |= {(page.name, name) for name in re.findall(r"\brecipes? `([\w-]+)`", page.read_text("utf-8"))}
    names = (each for each in named if re.fullmatch(r"[a-z0-9-]+", each[1]))  # neither placeholders nor files
    assert not [each for each in names if each[1] not in (*recipes.names(), AUTO)]
