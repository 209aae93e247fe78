"""Typing errors, of fingers or of spelling."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import Literal

from numpy.random import Generator

from transduce.training.augmentation import check_share
from transduce.wings.recipes.origins.spelling_errors import NEIGHBOURS, misspelling
from transduce.wings.robustness.base import OneByOne, TextPair, drawn

KINDS = ("omission", "transposition", "doubling", "neighbour", "neighbour", "extra")
"""The kinds of a slip. A neighbouring key is twice as probable as another kind."""


MOST = 3  # slips in a word


@dataclass(frozen=True)
class TypingErrors(OneByOne):
    """Puts typing errors into a ``share`` of the sources. The target stays.

    A probability from 0 to ``rate`` is drawn for each source. Each word of two or more letters has an error with this
    probability, and up to three more errors, each with the same probability.
    ``errors`` = "typing" are slips of the fingers: a letter is left out, doubled, exchanged with the next one, replaced
    by a neighbouring key or followed by one. Keys of QWERTY stand for Latin letters. Other scripts have a letter of the
    same word in the place of the key. "spelling" are errors of people who find English spelling hard, by the model
    of the recipe ``spelling``. Raises UserError if a number is not from 0 to 1.
    """

    share: float = 0.3
    rate: float = 0.3
    errors: Literal["typing", "spelling"] = "typing"

    def __post_init__(self) -> None:
        check_share("typing-errors.share", self.share)
        check_share("typing-errors.rate", self.rate)

    def varied(self, pair: TextPair, chance: Generator) -> TextPair:
        rate = chance.random() * self.rate
        return replace(pair, source=mistyped(pair.source, rate, chance, self.errors))


def mistyped(text: str, rate: float, chance: Generator, errors: Literal["typing", "spelling"] = "typing") -> str:
    """The text with an error in each word of two or more letters with the probability ``rate``."""

    def word(found: re.Match[str]) -> str:
        text = found[0]
        if errors == "spelling":
            wrong = chance.random() < rate
            return misspelling(text, random.Random(int(chance.integers(2**32)))) if wrong else text
        for _ in range(MOST):
            if len(text) < 2 or chance.random() >= rate:
                break
            text = slip(text, chance)
        return text

    return re.sub(r"[^\W\d_]{2,}", word, text)


def slip(word: str, chance: Generator) -> str:
    """The word with one slip of the fingers. It has at least two letters, and so the result has at least one."""
    place, kind = int(chance.integers(len(word))), drawn(KINDS, chance)
    before, letter, after = word[:place], word[place], word[place + 1 :]
    if kind == "omission":
        return before + after
    if kind == "transposition":
        place = min(place, len(word) - 2)
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    if kind == "doubling":
        return before + letter * 2 + after
    key = _near(letter, word, chance)
    return before + (letter + key if kind == "extra" else key) + after


def _near(letter: str, word: str, chance: Generator) -> str:
    """A key beside the letter, in the letter's case; a letter of the word if the keyboard does not have the letter."""
    keys = NEIGHBOURS.get(letter.lower())
    if keys is None:
        return drawn(word, chance)
    key = drawn(keys, chance)
    return key.upper() if letter.isupper() else key
