"""The unit of outputs that are parts of their source: one mark for each word or sentence says whether it is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transduce.core.config.errors import Table
from transduce.core.types import BOS, EOS, PAD, SPECIALS, UNK
from transduce.data.corpora import DataError
from transduce.data.tokenizers.base import Tokenizer, checked
from transduce.data.tokenizers.json_records import Recorded
from transduce.wings.labels import spans as selection
from transduce.wings.labels.questions import answer_marks
from transduce.wings.labels.spans import MARKS, Kind


class SelectionTokenizer(Recorded):
    """Converts marks to ids and back: a text such as "0 1 1" has one mark for each part of its source, "1" if the part
    is kept and "0" if not.

    ``without_source`` turns an output into marks, and ``with_source`` marks into an output (``Sourced``). ``kind_of``
    is the kind of part, words or sentences, or "answer": the words of one place. ``without_source`` marks at most
    ``most`` sentences of a source; ``most`` changes nothing for words.
    """

    kind = "selection"
    numeric = False
    signal = False
    labels = 0
    factors = 1

    def __init__(self, kind_of: Kind, most: int) -> None:
        self._kind_of: Kind = kind_of
        self._most = most

    def __len__(self) -> int:
        return len(self.entries)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text of marks, ending with EOS. Anything that is not a mark is unknown."""
        ids = {mark: len(SPECIALS) + place for place, mark in enumerate(MARKS)}
        return [[*(ids.get(mark, UNK) for mark in text.split()), EOS] for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """The marks of the ids. Raises DataError for an id outside the vocabulary."""
        return " ".join(self.tokens([i for i in checked(ids, len(self)) if i not in (PAD, BOS, EOS)]))

    def with_source(self, text: str, source: str) -> str:
        """The parts of ``source`` that the marks ``text`` keep, with one space between them."""
        return selection.kept(selection.parts(source, self._kind_of), text.split())

    def without_source(self, text: str, source: str) -> str:
        """The marks of the parts of ``source`` that are nearest to the output ``text``. No marks for an output of white
        space alone, and for an answer that its passage does not have.
        """
        if not text.strip():
            return ""
        if self._kind_of == "answer":
            return " ".join(answer_marks(source, text))
        parts = selection.parts(source, self._kind_of)
        if self._kind_of == "words":
            return " ".join(selection.word_marks(parts, text.split()))
        return " ".join(selection.sentence_marks(parts, text, self._most))

    def placeholders(self) -> tuple[int, ...]:
        """None: a mark is no word."""
        return ()

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self.entries[i] for i in checked(ids, len(self))]

    def length(self, ids: Sequence[int]) -> int:
        """The number of ids without EOS."""
        return len(ids) - 1

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The span of each mark, and an empty span at the end for EOS."""
        return [*selection.word_spans(text), (len(text), len(text))]

    def normalize(self, text: str) -> str:
        """The marks with one space between them."""
        return " ".join(text.split())

    @property
    def entries(self) -> tuple[str, ...]:
        return (*SPECIALS, *MARKS)

    @property
    def pieces(self) -> tuple[str, ...]:
        """The marks, each after a space: a text of marks is made of them."""
        return (*("" for _ in SPECIALS), *(f" {mark}" for mark in MARKS))

    def extended(self, other: Tokenizer) -> SelectionTokenizer:
        """Returns this tokenizer: all selections have the same marks. Raises DataError if ``other`` is of another
        kind.
        """
        if not isinstance(other, SelectionTokenizer):
            raise DataError("marks of kept parts can be extended by their like alone; use the same units")
        return self

    def as_json(self) -> Table:
        return {"parts": self._kind_of, "most": self._most}

    @classmethod
    def from_json(cls, record: Table) -> SelectionTokenizer:
        return cls(record["parts"], record["most"])


@dataclass(frozen=True)
class Selection:
    """A unit for outputs that are parts of their source. It has one mark for each part, so that a tagger chooses them:
    compression by deletion if ``parts`` is "words", extractive summaries if it is "sentences", and answers to questions
    about a passage if it is "answer".

    The data have outputs as texts. The unit finds the marks. Words are kept that are in the longest common subsequence
    of source and output. Sentences are kept that are nearest to the output (F1 of words), at most ``most``. So an
    output of the data may also have words that its source does not have; a prediction never has. An answer stands in
    its passage, which follows the question and a tab: its first place there is kept. Otherwise it has no marks, so that
    ``data.lines.unequal`` decides about the pair. For words and answers the unit of the source is "spelled", for
    "sentences" it is "sentences". ``most`` changes nothing for words. Raises DataError if ``most`` is below 1.
    """

    parts: Kind = "words"
    most: int = 1

    signal = False
    tokenizer = SelectionTokenizer

    def __post_init__(self) -> None:
        if self.most < 1:
            raise DataError(f"most = {self.most}: at least one sentence was expected")

    def learn(self, texts: Iterable[str]) -> SelectionTokenizer:
        return SelectionTokenizer(self.parts, self.most)
