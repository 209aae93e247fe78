"""The contract of a simple method: the data that it gets, and the predictions that it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from transduce.core.types import Example, Prediction

Examples = Sequence[Example]


@dataclass(frozen=True)
class Splits:
    """The examples of a set of data. ``read`` returns the steps [S, D] of a source that is the path of a signal; it is
    None if the sources are text.
    """

    train: Examples
    valid: Examples
    test: Examples
    read: Callable[[str], Any] | None = None


Method = Callable[[Splits], list[Prediction]]
"""Learns from ``train``, chooses on ``valid``, and returns a prediction for each example of ``test``."""


@dataclass(frozen=True)
class Task:
    """A task: its simple method in ``words``, the function that does it as MODULE:NAME, and the ``metric`` that
    compares. ``block`` neighbouring examples are drawn together, because windows of a series overlap.
    """

    words: str
    function: str
    metric: str
    block: int = 1

    def method(self, data: Splits) -> list[Prediction]:
        """Imports the function when it is called, because each module needs libraries of its own."""
        module, _, name = self.function.partition(":")
        method: Method = getattr(import_module(f"simple_methods.{module}"), name)
        return method(data)


def sources(examples: Examples) -> list[str]:
    return [each.source for each in examples]


def targets(examples: Examples) -> list[str]:
    """The first reference of each example."""
    return [each.references[0] for each in examples]


def outputs(texts: Sequence[str]) -> list[Prediction]:
    return [Prediction(str(text)) for text in texts]  # scikit-learn has strings of its own


def right(texts: Sequence[str], examples: Examples) -> int:
    """How many texts equal a reference."""
    return sum(text in each.references for text, each in zip(texts, examples, strict=True))
