"""Texts with fewer words, joined texts, and parts of texts of several sentences."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from numpy.random import Generator

from transduce.training.augmentation import check_share
from transduce.wings.robustness.base import OneByOne, TextPair

END = re.compile(r"(?<=[.!?…])[\"'”’»)\]]*\s+|(?<=[。！？।॥])")
"""Where a sentence ends: white space after its last mark, or directly after a mark of scripts without spaces."""


@dataclass(frozen=True)
class DroppedWords(OneByOne):
    """Leaves words out of a ``share`` of the sources (Iyyer et al. 2015). White space separates words; each is left out
    with the probability ``rate``, and at least one stays. The target stays. Raises UserError if a number is not from 0
    to 1.
    """

    share: float = 0.1
    rate: float = 0.1

    def __post_init__(self) -> None:
        check_share("dropped-words.share", self.share)
        check_share("dropped-words.rate", self.rate)

    def varied(self, pair: TextPair, chance: Generator) -> TextPair:
        words = pair.source.split(" ")
        kept = [word for word, number in zip(words, chance.random(len(words)), strict=True) if number >= self.rate]
        text = " ".join(kept)
        return replace(pair, source=text) if text.strip() else pair


@dataclass(frozen=True)
class Joined:
    """Joins a ``share`` of the pairs with another pair of the same batch, both sources and both targets. So a model
    that learns from single sentences can read several. ``between`` stands between them. Raises UserError for a share
    that is not from 0 to 1.
    """

    share: float = 0.1
    between: str = " "
    for_text: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_share("joined.share", self.share)

    def __call__(self, pairs: Sequence[TextPair], chances: Sequence[Generator]) -> list[TextPair]:
        found = []
        for pair, chance in zip(pairs, chances, strict=True):
            if chance.random() < self.share:
                other = pairs[int(chance.integers(len(pairs)))]
                pair = TextPair(pair.source + self.between + other.source, pair.target + self.between + other.target)
            found.append(pair)
        return found


@dataclass(frozen=True)
class Split(OneByOne):
    """Takes a part of a ``share`` of the pairs: some neighbouring sentences of the source, and the same ones of the
    target. A pair stays whole if its two sides do not have equally many sentences, or have only one. Raises UserError
    for a share that is not from 0 to 1.
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        check_share("split.share", self.share)

    def varied(self, pair: TextPair, chance: Generator) -> TextPair:
        sources, targets = sentences(pair.source), sentences(pair.target)
        if len(sources) != len(targets) or len(sources) < 2:
            return pair
        first = int(chance.integers(len(sources)))
        last = int(chance.integers(first, len(sources) if first else len(sources) - 1))
        parts = slice(first, last + 1)
        return TextPair("".join(sources[parts]).strip(), "".join(targets[parts]).strip())


def sentences(text: str) -> list[str]:
    """The sentences of a text, by their final marks; together they are the text."""
    ends = [found.end() for found in END.finditer(text)]
    cuts = [0, *ends, len(text)]
    return [part for begin, end in itertools.pairwise(cuts) if (part := text[begin:end]).strip()]
