"""Features before a text: a list of any length, a tab, and the text, as in "V;PST;3<TAB>sing".

Each feature becomes one symbol in front of the text's (as characters of a word: Kann and Schütze 2016). Features have
one vocabulary, apart from the text's, so a "V" among the letters is no feature; their ids follow those of the text.
They are compared as they are written, in Unicode NFC, and one that was not met in training is unknown. In the text,
which is all that follows the first tab, a tab is text.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import normalize

from transduce.data.corpora import DataError, LineError
from transduce.data.tokenizers.base import Tokenizer, Unit, checked, shifted
from transduce.data.tokenizers.labels import check_text
from transduce.data.tokenizers.recorded import Recorded
from transduce.data.tokenizers.registry import from_record, record_of
from transduce.data.tokenizers.text import SPACE
from transduce.types import BOS, EOS, PAD, UNK


class FeaturesTokenizer(Recorded):
    """Lines of features and a text to ids and back: an id for each feature, then the text's ids.

    ``features`` are all there are, in the order of their ids. No position belongs to one of them, so as with text
    alone there are no ``labels``.
    """

    kind = "features"
    numeric = False
    signal = False
    labels = 0
    factors = 1

    def __init__(self, features: Sequence[str], separator: str, text: Tokenizer) -> None:
        self._features = tuple(features)
        self._separator = separator
        self._text = check_text(text)
        self._ids = {feature: len(text) + index for index, feature in enumerate(self._features)}

    @property
    def columns(self) -> int:
        """That of the features, and the text's."""
        return 2

    def __len__(self) -> int:
        return len(self._text) + len(self._features)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each line, with its closing EOS; raises LineError where there is no tab."""
        lines = [split(line, self._separator) for line in texts]
        spoken = self._text.encode([text for _, text in lines])
        return [
            [*(self._ids.get(feature, UNK) for feature in features), *rest]
            for (features, _), rest in zip(lines, spoken, strict=True)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """The line of ids: whatever stands before the last feature is one, "<unk>" where it is unknown."""
        spoken = [i for i in checked(ids, len(self)) if i not in (PAD, BOS, EOS)]
        behind = max((place + 1 for place, i in enumerate(spoken) if i >= len(self._text)), default=0)
        features = self._separator.join(self._spelling(i) for i in spoken[:behind])
        return f"{features}\t{self._text.decode(spoken[behind:])}"

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces, one per id, to be read by people; a feature as "<feature>"."""
        return [
            self._spelling(i) if i < len(self._text) else f"<{self._spelling(i)}>".replace(" ", SPACE)
            for i in checked(ids, len(self))
        ]

    def length(self, ids: Sequence[int]) -> int:
        return sum(i < len(self._text) for i in ids) - 1

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Where each id stands in the line, of which only the text is told apart."""
        features, text = split(line, self._separator)
        return [*((0, 0) for _ in features), *shifted(self._text.spans(text), len(line) - len(text))]

    def normalize(self, text: str) -> str:
        """The line as a round trip returns it, given that all of it is known."""
        features, rest = split(text, self._separator)
        return f"{self._separator.join(features)}\t{self._text.normalize(rest)}"

    @property
    def entries(self) -> tuple[Hashable, ...]:
        """Those of the text, and each feature, told from a piece of text that is spelled like it."""
        return (*self._text.entries, *(("feature", feature) for feature in self._features))

    @property
    def pieces(self) -> tuple[str, ...]:
        return (*self._text.pieces, *("" for _ in self._features))

    def extended(self, other: Tokenizer) -> FeaturesTokenizer:
        """Text and features grow each at its end, so that features, which follow the text, get other ids."""
        if not isinstance(other, FeaturesTokenizer) or other._separator != self._separator:
            raise DataError(
                f"features separated by {self._separator!r} and a text can be extended by their like alone; use the "
                "same units"
            )
        features = [*dict.fromkeys([*self._features, *other._features])]
        return FeaturesTokenizer(features, self._separator, self._text.extended(other._text))

    def as_json(self) -> Any:
        return {"features": self._features, "separator": self._separator, "text": record_of(self._text)}

    @classmethod
    def from_json(cls, record: Any) -> FeaturesTokenizer:
        return cls(record["features"], record["separator"], from_record(record["text"]))

    def _spelling(self, i: int) -> str:
        return self._features[i - len(self._text)] if i >= len(self._text) else self._text.tokens([i])[0]


def split(line: str, separator: str) -> tuple[list[str], str]:
    """The features of a line, and its text; raises LineError, quoting the line, where no tab divides them."""
    features, tab, text = line.partition("\t")
    if not tab:
        raise LineError(
            line,
            "has no tab: expected features, a tab and the text; mend the line, or name the column of features in "
            "data.columns.labels",
        )
    return [normalize("NFC", feature) for feature in features.split(separator) if feature], text


@dataclass(frozen=True)
class Features:
    """Features, a tab, and a text in units of its own; each feature is a symbol in front of the text.

    A ``separator`` stands between features. One rarer than ``minimum_count`` is unknown.
    """

    text: Unit
    separator: str = ";"
    minimum_count: int = 1

    def __post_init__(self) -> None:
        if not self.separator or "\t" in self.separator:
            raise DataError(f"separator = {self.separator!r}: features are separated by something other than a tab")

    signal = False
    tokenizer = FeaturesTokenizer

    def learn(self, texts: Iterable[str]) -> FeaturesTokenizer:
        counts: Counter[str] = Counter()
        spoken = self._counting(texts, counts)
        text = self.text.learn(spoken)
        deque(spoken, maxlen=0)  # bytes learn nothing, so they do not ask
        ranked = sorted(counts, key=lambda feature: (-counts[feature], feature))
        return FeaturesTokenizer(
            [feature for feature in ranked if counts[feature] >= self.minimum_count], self.separator, text
        )

    def _counting(self, lines: Iterable[str], counts: Counter[str]) -> Iterator[str]:
        """The texts of the lines, whose features are counted on the way."""
        for line in lines:
            features, text = split(line, self.separator)
            counts.update(features)
            yield text
