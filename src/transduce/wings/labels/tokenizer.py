"""Labels before a text (a topic, a rating, a persona, a language): tab-separated fields, the text last.

"4<TAB>great film" is one label and a text. Each label becomes one symbol. Each column of labels has its own vocabulary,
apart from the text's, so the same spelling in another column or in the text is another symbol. Label ids follow the ids
of the text. Labels are compared in Unicode NFC. A label that did not occur in training is unknown. The text is the last
field; a tab in it is text.
"""

from __future__ import annotations

import itertools
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
from transduce.data.tokenizers.text import SPACE, Symbols


class LabelledTokenizer(Recorded):
    """Converts lines of labels, and a text if ``with_text``, to ids and back: one id per label, then the text's ids.

    The argument ``labels`` has the labels of each column in the order of their ids; the property ``labels`` is the
    number of columns. Raises DataError if the tokenizer ``text`` is numeric or has ids of whole words.
    """

    kind = "labelled"
    numeric = False
    signal = False
    factors = 1

    def __init__(self, labels: Sequence[Sequence[str]], text: Tokenizer, with_text: bool = True) -> None:
        self._labels = tuple(tuple(column) for column in labels)
        self._text = check_text(text)
        self._with_text = with_text
        self._values = [label for column in self._labels for label in column]
        following = itertools.count(len(text))
        self._ids = [{label: next(following) for label in column} for column in self._labels]

    @property
    def labels(self) -> int:
        """The number of columns of labels."""
        return len(self._labels)

    @property
    def columns(self) -> int:
        """One column per label, and one for the text."""
        return self.labels + self._with_text

    def __len__(self) -> int:
        return len(self._text) + len(self._values)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each line, ending with EOS. Raises LineError if a line has too few fields, or extra ones without a
        text.
        """
        lines = [self._split(line) for line in texts]
        spoken = self._text.encode([text for _, text in lines])
        return [
            [*(ids.get(label, UNK) for ids, label in zip(self._ids, labels, strict=True)), *rest]
            for (labels, _), rest in zip(lines, spoken, strict=True)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """The line of a row of ids: labels and text, separated by tabs. An unknown label or token is "<unk>". The id of
        a label among the text's ids is left out. Raises DataError for an id outside the vocabulary.
        """
        spoken = [i for i in checked(ids, len(self)) if i not in (PAD, BOS, EOS)]
        labels = [self._spelling(i) for i in spoken[: self.labels]]
        return self._join(labels, self._text.decode([i for i in spoken[self.labels :] if i < len(self._text)]))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces for people to read, one per id. A known label is "<label>", with spaces shown as "▁"."""
        return [
            self._text.tokens([i])[0] if i < len(self._text) else f"<{self._spelling(i)}>".replace(" ", SPACE)
            for i in checked(ids, len(self))
        ]

    def length(self, ids: Sequence[int]) -> int:
        """The number of tokens of the text; without a text, the number of columns of labels."""
        return self._text.length(ids[self.labels :]) if self._with_text else self.labels

    def spans(self, line: str) -> list[tuple[int, int]]:
        """The span of each id in the line. Each label has an empty span at the beginning of the line."""
        labels, text = self._split(line)
        return [*((0, 0) for _ in labels), *shifted(self._text.spans(text), len(line) - len(text))]

    def normalize(self, text: str) -> str:
        """Returns ``decode(encode(text))``, assuming that the line ``text`` has no unknown tokens."""
        labels, rest = self._split(text)
        return self._join(labels, self._text.normalize(rest))

    @property
    def entries(self) -> tuple[Hashable, ...]:
        """The entries of the text, and then each label with the number of its column, from 0."""
        return (*self._text.entries, *((column, label) for column, ids in enumerate(self._ids) for label in ids))

    @property
    def pieces(self) -> tuple[str, ...]:
        return (*self._text.pieces, *("" for _ in self._values))

    def extended(self, other: Tokenizer) -> LabelledTokenizer:
        """Returns a new tokenizer that also has the pieces and labels of ``other``. The labels' ids may change, because
        they follow the text's ids.

        Raises DataError if ``other`` has another number of columns of labels, if only one of the two has a text, or if
        the text's vocabulary cannot grow.
        """
        if not isinstance(other, LabelledTokenizer) or (other.labels, other._with_text) != (
            self.labels,
            self._with_text,
        ):
            raise DataError(
                f"{self.labels} columns of labels cannot be extended by {other.labels}, nor labels alone by labels "
                "and a text; use the same units"
            )
        text = self._text.extended(other._text) if self._with_text else self._text
        labels = [[*dict.fromkeys([*own, *more])] for own, more in zip(self._labels, other._labels, strict=True)]
        return LabelledTokenizer(labels, text, self._with_text)

    def as_json(self) -> Table:
        return {"labels": self._labels, "with_text": self._with_text, "text": record_of(self._text)}

    @classmethod
    def from_json(cls, record: Table) -> LabelledTokenizer:
        return cls(record["labels"], from_record(record["text"]), record["with_text"])

    def _split(self, line: str) -> tuple[list[str], str]:
        return split(line, self.labels, self._with_text)

    def _join(self, labels: list[str], text: str) -> str:
        return "\t".join([*labels, text] if self._with_text else labels)

    def _spelling(self, i: int) -> str:
        return self._values[i - len(self._text)] if i >= len(self._text) else self._text.tokens([i])[0]


def check_text(text: Tokenizer) -> Tokenizer:
    """Returns the tokenizer of a text unchanged. Raises DataError if it cannot stand after labels: if it is numeric, or
    if its last ids are whole words.
    """
    if text.numeric:
        raise DataError("what stands before a text is told by ids, and these are numbers: choose another unit for text")
    if text.words:
        raise DataError("what stands before a text has the last ids, as whole words have: leave words out of the unit")
    return text


def split(line: str, labels: int, with_text: bool) -> tuple[list[str], str]:
    """The labels of a line, in NFC, and its text, which is empty without ``with_text``. ``labels`` is the number of
    columns of labels.

    Raises LineError, which quotes the line, if it has too few fields, or extra ones without a text.
    """
    fields = line.split("\t", labels)
    if len(fields) != labels + with_text:
        wanted = f"{labels} {'label' if labels == 1 else 'labels'}{' and the text' if with_text else ' alone'}"
        raise LineError(
            line,
            f"has {len(fields)} tab-separated {'field' if len(fields) == 1 else 'fields'}, expected {wanted}; "
            "mend the line, name the columns of labels in data.columns.labels, or set labels of the unit",
        )
    return [normalize("NFC", label) for label in fields[:labels]], "".join(fields[labels:])


# --------------------------------------------------------------------- units


@dataclass(frozen=True)
class Labelled:
    """A unit for labels before a text: ``labels`` columns of labels, separated by tabs, then a text with a unit of its
    own. The text may be empty.

    A label rarer than ``minimum_count`` is unknown, so that a model learns what to do without a label. Raises DataError
    if ``labels`` is below 1.
    """

    text: Unit
    labels: int = 1
    minimum_count: int = 1

    def __post_init__(self) -> None:
        _check(self.labels)

    signal = False
    tokenizer = LabelledTokenizer

    def learn(self, texts: Iterable[str]) -> LabelledTokenizer:
        counts: list[Counter[str]] = [Counter() for _ in range(self.labels)]
        spoken = _counting(texts, counts, with_text=True)
        text = self.text.learn(spoken)
        deque(spoken, maxlen=0)  # Bytes have nothing to learn, so they do not read the texts
        return LabelledTokenizer(_kept(counts, self.minimum_count), text)


@dataclass(frozen=True)
class Labels:
    """A unit for lines of labels without a text: ``labels`` columns, separated by tabs. A label rarer than
    ``minimum_count`` is unknown. Raises DataError if ``labels`` is below 1.
    """

    labels: int = 1
    minimum_count: int = 1

    def __post_init__(self) -> None:
        _check(self.labels)

    signal = False
    tokenizer = LabelledTokenizer

    def learn(self, texts: Iterable[str]) -> LabelledTokenizer:
        counts: list[Counter[str]] = [Counter() for _ in range(self.labels)]
        nothing = Symbols().learn(_counting(texts, counts, with_text=False))
        return LabelledTokenizer(_kept(counts, self.minimum_count), nothing, with_text=False)


def _counting(lines: Iterable[str], counts: Sequence[Counter[str]], with_text: bool) -> Iterator[str]:
    """Yields the text of each line and, at that moment, adds each of the line's labels to the count of its column."""
    for line in lines:
        labels, text = split(line, len(counts), with_text)
        for count, label in zip(counts, labels, strict=True):
            count[label] += 1
        yield text


def _kept(counts: Sequence[Counter[str]], minimum_count: int) -> list[list[str]]:
    """The labels of each column that occur ``minimum_count`` times or more, the most frequent first."""
    ranked = [sorted(count.items(), key=lambda entry: (-entry[1], entry[0])) for count in counts]
    return [[label for label, times in column if times >= minimum_count] for column in ranked]


def _check(labels: int) -> None:
    if labels < 1:
        raise DataError(f"labels = {labels}: at least one column; for text without labels take the unit of the text")
