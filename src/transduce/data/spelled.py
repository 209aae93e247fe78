"""Words in pieces: "dogs bark" as <s> d o g s <s> b a r k </s>, so that a model sees where words begin.

What white space separates is a word. "<s>", which opens no source otherwise, stands before each, and its pieces, of any
unit of text, behind it. What is said of a source by words (labels, as many as it has) is then said whatever they are
cut into.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from transduce.data.corpora import DataError
from transduce.data.recorded import Recorded
from transduce.data.tokenizers import Tokenizer, Unit, shifted
from transduce.types import BOS, EOS


class SpelledTokenizer(Recorded):
    """Lines of words to ids and back; the ids are those of the pieces' tokenizer, and BOS before each word."""

    numeric = False
    signal = False
    labels = 0
    factors = 1

    def __init__(self, pieces: Tokenizer) -> None:
        if pieces.numeric or pieces.labels or pieces.factors > 1:
            raise DataError("words are cut into pieces of text: set pieces of the unit to characters, bpe or another")
        self._pieces = pieces

    def __len__(self) -> int:
        return len(self._pieces)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        lines = [text.split() for text in texts]
        words = list(dict.fromkeys(word for line in lines for word in line))
        spelled = dict(zip(words, ([BOS, *ids[:-1]] for ids in self._pieces.encode(words)), strict=True))
        return [[*(i for word in line for i in spelled[word]), EOS] for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        words: list[list[int]] = []
        for i in ids:
            if i == BOS or not words:
                words.append([])
            words[-1].append(i)
        return " ".join(filter(None, map(self._pieces.decode, words)))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return self._pieces.tokens(ids)

    def length(self, ids: Sequence[int]) -> int:
        return ids.count(BOS)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each id stands in the text: the mark of a word at its beginning, without extent."""
        found: list[tuple[int, int]] = []
        for word in re.finditer(r"\S+", text):
            found += [(word.start(), word.start()), *shifted(self._pieces.spans(word[0])[:-1], word.start())]
        return [*found, (len(text), len(text))]

    def normalize(self, text: str) -> str:
        return " ".join(map(self._pieces.normalize, text.split()))

    @property
    def entries(self) -> tuple[Hashable, ...]:
        return self._pieces.entries

    @property
    def pieces(self) -> tuple[str, ...]:
        return self._pieces.pieces

    def extended(self, other: Tokenizer) -> SpelledTokenizer:
        if not isinstance(other, SpelledTokenizer):
            raise DataError("words in pieces can be extended by their like alone; use the same units")
        return SpelledTokenizer(self._pieces.extended(other._pieces))

    def as_json(self) -> Any:
        return {"words": self._pieces.as_json()}


@dataclass(frozen=True)
class Spelled:
    """Words, which white space separates, each in ``pieces`` of a unit of text, with <s> before each word.

    Source of encoders that answer once a word: ``embedding = {type = "spelled"}``, or ``first-piece``.
    """

    pieces: Unit

    signal = False

    def learn(self, texts: Iterable[str]) -> SpelledTokenizer:
        return SpelledTokenizer(self.pieces.learn(word for text in texts for word in text.split()))
