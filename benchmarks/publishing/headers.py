"""The lines with scores in a recipe's header.

They begin with "# Score" and continue in lines that begin with "#   ". A recipe that can be trained has them. A recipe
that is only the base of others has none. No other line of a header has a score.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from publishing.page import TemplateError
from publishing.rows import ResultRow
from transduce.core import recipes
from transduce.training.budget import Budget

BLOCK = re.compile(r"(?:^# Score.*\n(?:#   .*\n)*)+", re.MULTILINE)
WIDTH = 120


def header(name: str, text: str, rows: Sequence[ResultRow], others: bool) -> str:
    """The recipe's text with up-to-date scores.

    ``rows`` are figures of the recipe as shipped. ``others`` says whether there are figures with other settings. Raises
    TemplateError if the recipe has no place for scores, or several.
    """
    blocks = BLOCK.findall(text)
    if "model" not in recipes.read(name):
        if blocks:
            raise TemplateError(f"{name}.toml is the base of others and has a line '# Score': remove it")
        return text
    if len(blocks) != 1:
        raise TemplateError(
            f"{name}.toml has {len(blocks)} lines '# Score' in its header, expected one: add or remove one"
        )
    return BLOCK.sub(lambda _: "".join(f"{line}\n" for line in _score_lines(name, rows, others)), text)


def _score_lines(name: str, rows: Sequence[ResultRow], others: bool) -> list[str]:
    if not rows:
        measured = "not measured as shipped; docs/results.md has figures with other settings" if others else None
        return _wrapped(f"# Score: {measured or 'not measured yet'}. {budget(name)}")
    sentences = []
    for row in rows:
        kind = f" (older recipe: {row.older})" if row.older else ""
        scores = ", ".join(f"{metric} {value}" for metric, value in row.scores.items())
        where = "; ".join(filter(None, (row.work, row.machine, row.data, row.doubt)))
        sentences.append(f"# Score{kind}: {scores} on {row.split}; {where}.")
    sentences[-1] += f" {budget(name)}"
    return [line for sentence in sentences for line in _wrapped(sentence)]


def budget(name: str) -> str:
    """The budget of the recipe's training, as a sentence."""
    training = recipes.read(name).get("training", {})
    return f"Budget: {Budget(*(training.get(limit) for limit in recipes.BUDGET))}."


def _wrapped(text: str) -> list[str]:
    """The text in lines of at most ``WIDTH`` characters. All lines but the first are indented."""
    return textwrap.wrap(text, WIDTH, subsequent_indent="#   ", break_long_words=False, break_on_hyphens=False)
