"""Features before a text: a list of any length, a tab, and the text, as in "V;PST;3<TAB>sing".

Each feature becomes one symbol before the symbols of the text (as for the characters of a word: Kann and Schütze 2016).
Features have their own vocabulary, so a letter "V" is never mistaken for a feature. Their ids follow the ids of the
text. Features are compared in Unicode NFC. A feature that did not occur in training is unknown. The text is everything
after the first tab; further tabs are text.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from unicodedata import normalize

from transduce.core.config.errors import Table
from transduce.core.types import BOS, EOS, PAD, UNK
from transduce.data.corpora import DataError, LineError
from transduce.data.tokenizers.base import Tokenizer, Unit, checked, shifted
from transduce.data.tokenizers.json_records import Recorded
from transduce.data.tokenizers.storage import from_record, record_of
from transduce.data.tokenizers.text import SPACE
from transduce.wings.labels.tokenizer import check_text


class FeaturesTokenizer(Recorded):
    """Converts lines of features and a text to ids and back: one id per feature, then the ids of the text.

    ``features`` are all known features in the order of their ids. Features have no fixed positions, so ``labels`` is 0.
    Raises DataError if the tokenizer ``text`` is numeric or has ids of whole words.
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
        """One column for the features and one for the text."""
        return 2

    def __len__(self) -> int:
        return len(self._text) + len(self._features)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each line: its features, then its text, then EOS.

        Raises LineError if a line has no tab between features and text.
        """
        lines = [split(line, self._separator) for line in texts]
        spoken = self._text.encode([text for _, text in lines])
        return [
            [*(self._ids.get(feature, UNK) for feature in features), *rest]
            for (features, _), rest in zip(lines, spoken, strict=True)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """The line of the ids: features, a tab, the text. Ids up to the last known feature are features; an unknown one
        among them is "<unk>". Raises DataError for an id outside the vocabulary.
        """
        spoken = [i for i in checked(ids, len(self)) if i not in (PAD, BOS, EOS)]
        behind = max((place + 1 for place, i in enumerate(spoken) if i >= len(self._text)), default=0)
        features = self._separator.join(self._spelling(i) for i in spoken[:behind])
        return f"{features}\t{self._text.decode(spoken[behind:])}"

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces for people to read, one per id. A known feature is "<feature>", with spaces shown as "▁"; an
        unknown one is "<unk>".
        """
        return [
            self._spelling(i) if i < len(self._text) else f"<{self._spelling(i)}>".replace(" ", SPACE)
            for i in checked(ids, len(self))
        ]

    def length(self, ids: Sequence[int]) -> int:
        """The number of ids that are not known features, without EOS. An unknown feature counts as an id of
        the text.
        """
        return sum(i < len(self._text) for i in ids) - 1

    def spans(self, line: str) -> list[tuple[int, int]]:
        """The span of each id in the line. Each feature has an empty span at the beginning of the line."""
        features, text = split(line, self._separator)
        return [*((0, 0) for _ in features), *shifted(self._text.spans(text), len(line) - len(text))]

    def normalize(self, text: str) -> str:
        """Returns ``decode(encode(text))``, assuming that the line ``text`` has no unknown tokens."""
        features, rest = split(text, self._separator)
        return f"{self._separator.join(features)}\t{self._text.normalize(rest)}"

    @property
    def entries(self) -> tuple[Hashable, ...]:
        """The entries of the text, and each feature in a form that no piece of text has."""
        return (*self._text.entries, *(("feature", feature) for feature in self._features))

    @property
    def pieces(self) -> tuple[str, ...]:
        return (*self._text.pieces, *("" for _ in self._features))

    def extended(self, other: Tokenizer) -> FeaturesTokenizer:
        """Returns a new tokenizer that also has the pieces and features of ``other``. The features' ids may change,
        because they follow the text's ids.

        Raises DataError if ``other`` has no features or another separator, or if the text's vocabulary cannot grow.
        """
        if not isinstance(other, FeaturesTokenizer) or other._separator != self._separator:
            raise DataError(
                f"features separated by {self._separator!r} and a text can be extended by their like alone; use the "
                "same units"
            )
        features = [*dict.fromkeys([*self._features, *other._features])]
        return FeaturesTokenizer(features, self._separator, self._text.extended(other._text))

    def as_json(self) -> Table:
        return {"features": self._features, "separator": self._separator, "text": record_of(self._text)}

    @classmethod
    def from_json(cls, record: Table) -> FeaturesTokenizer:
        return cls(record["features"], record["separator"], from_record(record["text"]))

    def _spelling(self, i: int) -> str:
        return self._features[i - len(self._text)] if i >= len(self._text) else self._text.tokens([i])[0]


def split(line: str, separator: str) -> tuple[list[str], str]:
    """The features of a line in NFC, without empty ones, and its text. Raises LineError, which quotes the line, if it
    has no tab.
    """
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
    """A unit for features before a text: a list of features, a tab, and a text with a unit of its own. Each feature is
    one symbol before the text.

    ``separator`` stands between features. A feature rarer than ``minimum_count`` is unknown. Raises DataError if the
    separator is empty or has a tab.
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
        deque(spoken, maxlen=0)  # Bytes have nothing to learn, so they do not read the texts
        ranked = sorted(counts, key=lambda feature: (-counts[feature], feature))
        return FeaturesTokenizer(
            [feature for feature in ranked if counts[feature] >= self.minimum_count], self.separator, text
        )

    def _counting(self, lines: Iterable[str], counts: Counter[str]) -> Iterator[str]:
        """Yields the text of each line and, at that moment, adds the line's features to ``counts``."""
        for line in lines:
            features, text = split(line, self.separator)
            counts.update(features)
            yield text
