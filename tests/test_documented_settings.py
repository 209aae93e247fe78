"""The settings of each `transduce train` command in the documentation make a model of the recipe."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from test_recipes import facts
from transduce import config, recipes
from transduce.training.settings import Settings

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
ELSEWHERE = {"--init", "--plugin", "--teacher"}  # options that bring a part, or a setting, of their own


def commands() -> list[tuple[str, str, list[str]]]:
    """The page, the recipe and the settings of each command that trains a shipped recipe with other settings."""
    found = []
    for page in PAGES:
        for block in re.findall(r"^```\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True) if line.startswith("transduce train ") else []
                settings = [value for option, value in pairwise(words) if option == "--set"]
                if settings and words[2] in recipes.names() and not ELSEWHERE.intersection(words):
                    found.append((page.name, words[2], settings))
    return found


@pytest.mark.parametrize(("page", "recipe", "settings"), commands())
def test_the_settings_of_a_page_make_a_model(page: str, recipe: str, settings: list[str]) -> None:
    table = config.change(recipes.read(recipe), settings)
    with torch.device("meta"):  # no weights
        config.build(table, Settings, facts(table["data"]["units"])).model()
