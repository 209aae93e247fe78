"""What a model said: a source, the output for it, and what was expected of the output."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from transduce.answers.answer import Output

WORDLESS = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Said:
    """A source and the model's best output for it.

    ``number`` is the example's place in the corpus, counted from 1. ``expected`` is the number of words that an output
    for this source should have; None if nothing says it. ``truncated`` is True if the model did not read the whole
    source.
    """

    number: int
    source: str
    output: Output
    references: tuple[str, ...] = ()
    expected: float | None = None
    truncated: bool = False

    @property
    def text(self) -> str:
        return self.output.text

    @property
    def certainty(self) -> float | None:
        """The mean log-probability of the output's tokens; None if the model gives no probabilities."""
        if self.output.log_prob is None:
            return None
        return self.output.log_prob / max(1, len(self.output.token_log_probs))


def words(text: str) -> Sequence[str]:
    """The words of a text between white space. A text of one word gives its characters, for sources that are words."""
    found = text.split()
    return found if len(found) > 1 else list(text.strip())


def similarity(one: str, other: str) -> float:
    """1 for texts of the same words in the same order, 0 for texts that share none: one minus the edit distance in
    words, divided by the length of the longer text. Only words count, so punctuation and capitals do not.
    """
    return Levenshtein.normalized_similarity(*(bare(text) for text in (one, other)))


def bare(text: str) -> list[str]:
    """The words of a text without capitals and punctuation. A mark between white space is no word."""
    return [word for word in (WORDLESS.sub("", each) for each in words(text.lower())) if word]
