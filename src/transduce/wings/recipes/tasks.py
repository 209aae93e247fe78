"""The tasks of the recipes, for people who look for one."""

from __future__ import annotations

TASKS: dict[str, tuple[str, ...]] = {
    "Pronunciation": ("g2p", "pronunciation"),
    "Inflection": ("inflection",),
    "Spelling and accents": ("spelling", "accents"),
    "Translation": ("translation", "multi30k", "phrase-based", "word-alignment", "denoising"),
    "Tags and labels for words or texts": ("tagging", "entities", "classification", "entailment", "labelled"),
    "Summaries, shorter sentences and answers": ("summaries", "compression", "answers"),
    "Syntax trees and code": ("parsing", "code"),
    "Conversation": ("replies",),
    "Language models": ("language-model", "masked", "ptb", "warpeace", "code-char"),
    "Vectors of sentences": ("sentences",),
    "Speech": ("digits",),
    "Pictures and clips": ("mnist", "ocr", "captions", "clips"),
    "Series of numbers, and music": ("series", "music"),
    "Comparing cells, and first steps": ("cells", "reverse"),
}
"""The heading of each task, and the first parts of the names of its recipes."""


def task_of(recipe: str) -> str:
    """The heading of a recipe's task. The longest beginning of its name decides; raises KeyError if there is none."""
    beginnings = {part: task for task, parts in TASKS.items() for part in parts if _begins(recipe, part)}
    return beginnings[max(beginnings, key=len, default="")]


def _begins(recipe: str, part: str) -> bool:
    return recipe == part or recipe.startswith(f"{part}-")
