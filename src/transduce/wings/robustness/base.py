"""The contract of an augmentation of texts, and the parts that several of them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from numpy.random import Generator

T = TypeVar("T")


@dataclass(frozen=True)
class TextPair:
    """A source and its target, as text."""

    source: str
    target: str


class TextAugmentation(Protocol):
    """Changes the pairs of a training batch. ``chances`` has a random generator for each pair, seeded with the seed,
    the epoch and the pair's number in the data. So a resumed run sees the same texts. The result has equally many
    pairs.

    A pair does not change if its changed texts cannot be learned: they have unknown tokens or are too long
    (``VariedTexts``). So a kind need not know vocabularies.
    """

    for_text: ClassVar[bool]

    def __call__(self, pairs: Sequence[TextPair], chances: Sequence[Generator]) -> list[TextPair]: ...


class OneByOne:
    """An augmentation of each pair alone. A subclass has ``share``, the share of the pairs that it changes in an epoch,
    and ``varied``, the changed pair.
    """

    for_text: ClassVar[bool] = True
    share: float

    def __call__(self, pairs: Sequence[TextPair], chances: Sequence[Generator]) -> list[TextPair]:
        return [
            self.varied(pair, chance) if chance.random() < self.share else pair
            for pair, chance in zip(pairs, chances, strict=True)
        ]

    def varied(self, pair: TextPair, chance: Generator) -> TextPair:
        raise NotImplementedError


def drawn(items: Sequence[T], chance: Generator) -> T:
    """One of the items, each equally probable."""
    return items[int(chance.integers(len(items)))]
