"""Texts without their final punctuation, or as a recogniser of speech writes them: without case and punctuation."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace

from numpy.random import Generator

from transduce.training.augmentation import check_share
from transduce.wings.robustness.base import OneByOne, TextPair

INSIDE = "'’-‐‑"  # they stay between two letters: don't, well-known


@dataclass(frozen=True)
class NoFinalPunctuation(OneByOne):
    """Removes the punctuation at the end of a ``share`` of the sources. The target stays, so the model learns to write
    it. A source of punctuation alone stays. Raises UserError for a share that is not from 0 to 1.
    """

    share: float = 0.15

    def __post_init__(self) -> None:
        check_share("no-final-punctuation.share", self.share)

    def varied(self, pair: TextPair, chance: Generator) -> TextPair:
        return replace(pair, source=without_end(pair.source) or pair.source)


@dataclass(frozen=True)
class SpeechLike(OneByOne):
    """Writes a ``share`` of the sources in lower case and without punctuation, as a recogniser of speech does. An
    apostrophe or a hyphen inside a word stays. The target stays. Raises UserError for a share that is not from 0 to 1.
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        check_share("speech-like.share", self.share)

    def varied(self, pair: TextPair, chance: Generator) -> TextPair:
        return replace(pair, source=as_spoken(pair.source) or pair.source)


def without_end(text: str) -> str:
    """The text without the punctuation and white space at its end."""
    end = len(text)
    while end and (text[end - 1].isspace() or is_punctuation(text[end - 1])):
        end -= 1
    return text[:end]


def as_spoken(text: str) -> str:
    """The words of the text in lower case, without punctuation between them."""
    kept = [letter if not is_punctuation(letter) or _inside(text, place) else " " for place, letter in enumerate(text)]
    return " ".join("".join(kept).lower().split())


def is_punctuation(letter: str) -> bool:
    """True for a character of one of Unicode's categories of punctuation."""
    return unicodedata.category(letter).startswith("P")


def _inside(text: str, place: int) -> bool:
    return text[place] in INSIDE and text[place - 1 : place].isalpha() and text[place + 1 : place + 2].isalpha()
