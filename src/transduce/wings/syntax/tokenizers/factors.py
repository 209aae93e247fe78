"""Tokens with factors: "Hunde|hund|NOUN bellen|bellen|VERB" has a word, its lemma and its part of speech.

White space separates tokens, and a bar separates factors. Each token has the same number of factors, none of them
empty. The factors of a token are adjacent in a row of ids: first the word, then the tags. Each factor has its own
vocabulary, so a tag is never mistaken for a word. Factors are compared in Unicode NFC. A factor that did not occur in
training is unknown, even if the token's other factors are known. Inside a word a bar is written as in Moses, "&#124;".
With another separator (OpenNMT's is "￨", U+FFE8) a bar is a normal character.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from unicodedata import normalize

from transduce.core.config.errors import Table
from transduce.core.types import BOS, EOS, PAD, SPECIALS, UNK
from transduce.data.corpora import DataError, LineError
from transduce.data.tokenizers.base import Tokenizer, checked, divided
from transduce.data.tokenizers.json_records import Recorded


class FactoredTokenizer(Recorded):
    """Converts lines of tokens with factors to ids and back: one id per factor and token, and one EOS.

    ``values`` are the values of each factor in the order of their ids: first the words, then the tags.
    """

    kind = "factored"
    numeric = False
    signal = False
    labels = 0

    def __init__(self, values: Sequence[Sequence[str]], separator: str) -> None:
        self._values = tuple(tuple(column) for column in values)
        self._separator = separator
        following = itertools.count(len(SPECIALS))
        self._ids = [{value: next(following) for value in column} for column in self._values]
        tags = (separator + tag for column in self._values[1:] for tag in column)
        self._pieces = (*SPECIALS, *self._values[0], *tags)

    @property
    def factors(self) -> int:
        return len(self._values)

    def __len__(self) -> int:
        return len(self._pieces)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each line, ending with EOS. Raises LineError if a token has the wrong number of factors."""
        return [
            [
                *(
                    ids.get(value, UNK)
                    for token in split(line, self.factors, self._separator)
                    for ids, value in zip(self._ids, token, strict=True)
                ),
                EOS,
            ]
            for line in texts
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """The line of the ids. Padding, BOS and EOS add nothing. An unknown factor is "<unk>". An incomplete last token
        keeps the factors that it has.

        Raises DataError for an id outside the vocabulary.
        """
        spoken = [self._pieces[i] for i in checked(ids, len(self)) if i not in (PAD, BOS, EOS)]
        values = [piece.removeprefix(self._separator) for piece in spoken]
        tokens = (values[place : place + self.factors] for place in range(0, len(values), self.factors))
        return " ".join(map(self._separator.join, tokens))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces for people to read, one per id. A tag follows its separator."""
        return [self._pieces[i] for i in checked(ids, len(self))]

    def length(self, ids: Sequence[int]) -> int:
        """The number of complete tokens, each with all its factors, without EOS."""
        return (len(ids) - 1) // self.factors

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The span of each id in the text: one factor of one token. EOS has an empty span at the end."""
        return divided(text, self._separator)

    def normalize(self, text: str) -> str:
        """Returns ``decode(encode(text))``, assuming that the text has no unknown factors. Raises LineError as
        ``split`` does.
        """
        return " ".join(map(self._separator.join, split(text, self.factors, self._separator)))

    @property
    def entries(self) -> tuple[Hashable, ...]:
        """The special tokens, then each value with the number of its factor, which makes it different from a special
        token with the same spelling.
        """
        return (*SPECIALS, *((number, value) for number, column in enumerate(self._values) for value in column))

    @property
    def pieces(self) -> tuple[str, ...]:
        """Empty texts: no id adds text on its own."""
        return ("",) * len(self)

    def extended(self, other: Tokenizer) -> FactoredTokenizer:
        """Returns a new tokenizer that also has the values of ``other``, at the end of each factor. The ids of the tags
        may change, because tags follow words.

        Raises DataError if the number of factors or the separator differs.
        """
        record = other.as_json()
        if other.factors != self.factors or record.get("separator") != self._separator:
            raise DataError(
                f"tokens of {self.factors} factors separated by {self._separator!r} can be extended by their like "
                "alone; use the same units"
            )
        both = zip(self._values, record["factors"], strict=True)
        return FactoredTokenizer([[*dict.fromkeys([*own, *more])] for own, more in both], self._separator)

    def as_json(self) -> Table:
        return {"factors": self._values, "separator": self._separator}

    @classmethod
    def from_json(cls, record: Table) -> FactoredTokenizer:
        return cls(record["factors"], record["separator"])


def split(line: str, factors: int, separator: str) -> list[list[str]]:
    """The factors of each token of a line, in NFC.

    Raises LineError, which names the token, for another number of factors or an empty factor.
    """
    tokens = [token.split(separator) for token in normalize("NFC", line).split()]
    for number, token in enumerate(tokens, 1):
        if len(token) != factors or not all(token):
            raise LineError(
                line,
                f"has {separator.join(token)!r} for token {number}, expected {factors} factors separated by "
                f"{separator!r}, none of them empty; mend the line (within a word write | as &#124;), or set factors "
                "and separator of the unit",
            )
    return tokens


@dataclass(frozen=True)
class Factored:
    """A unit for tokens with factors, between white space. Each token has ``factors`` factors, counting the word:
    "dogs|dog|NOUN" has 3.

    ``separator`` stands between factors. Values of a factor that are rarer than ``minimum_count`` are unknown. ``size``
    is the largest number of values of each factor: the most frequent are kept. None keeps all. Lengths in the data's
    limits count ids, so a token counts ``factors`` times. Raises DataError for fewer than 2 factors, a separator that
    is empty or has white space, or a ``size`` below 1. Learning raises LineError for a token with another number of
    factors.
    """

    factors: int = 2
    separator: str = "|"
    minimum_count: int = 1
    size: int | None = None

    def __post_init__(self) -> None:
        if self.factors < 2:
            raise DataError(f"factors = {self.factors}: a word and a tag are 2; for words alone take the unit symbols")
        if not self.separator or self.separator.split() != [self.separator]:
            raise DataError(f"separator = {self.separator!r}: factors are separated by something other than spaces")
        if self.size is not None and self.size < 1:
            raise DataError(f"size = {self.size}: at least one value of each factor is kept")

    signal = False
    tokenizer = FactoredTokenizer

    def learn(self, texts: Iterable[str]) -> FactoredTokenizer:
        counts: list[Counter[str]] = [Counter() for _ in range(self.factors)]
        for line in texts:
            for token in split(line, self.factors, self.separator):
                for count, value in zip(counts, token, strict=True):
                    count[value] += 1
        return FactoredTokenizer([self._kept(count) for count in counts], self.separator)

    def _kept(self, count: Counter[str]) -> list[str]:
        """The values of one factor that are in the vocabulary, the most frequent first."""
        ranked = sorted(count, key=lambda value: (-count[value], value))
        return [value for value in ranked[: self.size] if count[value] >= self.minimum_count]
