"""Tokens in the order of a page, for readers of lines of print in any script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal, get_args

from transduce.core.config.errors import Table
from transduce.data.corpora import DataError
from transduce.data.tokenizers.base import Tokenizer, Unit
from transduce.data.tokenizers.json_records import RecordedText
from transduce.data.tokenizers.storage import from_record, record_of
from transduce.wings.pages.direction import from_right
from transduce.wings.signals.page_order import Direction, as_read, on_page, page_cells

LOOKED_AT = 1000  # texts from which the direction of a page is told


class PageOrderTokenizer(RecordedText):
    """Converts a text to the ids of its characters from the left edge of a page to the right one, and back to a text in
    the order of reading. ``text`` is the tokenizer of a line in the order of the page.

    Raises DataError as ``RecordedText`` does.
    """

    kind = "page-order"

    def __init__(self, text: Tokenizer, direction: Direction) -> None:
        super().__init__(text)
        self.direction = direction

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self.text.encode([on_page(text, self.direction) for text in texts])

    def decode(self, ids: Sequence[int]) -> str:
        """The text in the order of reading. Raises DataError for an id outside the vocabulary."""
        return as_read(self.text.decode(ids), self.direction)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces for people to read, one per id, in the order of the page."""
        return self.text.tokens(ids)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The start and the end of each id in the text, in the order of the page; EOS has an empty span at the end. An
        id of characters that are apart in the text has the span from the first to the last.
        """
        cells = [cell for cell in page_cells(text, self.direction) for _ in cell.drawn]
        parts = [cells[start:end] for start, end in self.text.spans(on_page(text, self.direction))[:-1]]
        found = [
            (min(cell.start for cell in part), max(cell.end for cell in part)) if part else (0, 0) for part in parts
        ]
        return [*found, (len(text), len(text))]

    def normalize(self, text: str) -> str:
        """The text after a round trip through ids, if no token is unknown."""
        return as_read(self.text.normalize(on_page(text, self.direction)), self.direction)

    def extended(self, other: Tokenizer) -> PageOrderTokenizer:
        """A new tokenizer that also has the entries of ``other``, in any order. The direction stays. Raises DataError
        if the vocabulary cannot grow.
        """
        inner = other.text if isinstance(other, PageOrderTokenizer) else other
        return PageOrderTokenizer(self.text.extended(inner), self.direction)

    def as_json(self) -> Table:
        return {"text": record_of(self.text), "direction": self.direction}

    @classmethod
    def from_json(cls, record: Table) -> PageOrderTokenizer:
        return cls(from_record(record["text"]), record["direction"])


@dataclass(frozen=True)
class PageOrder:
    """A unit for the text of a picture of a line: ``text`` is the unit of the characters from left to right.

    A model with CTC reads a page from its left edge. Hebrew and Arabic letters run from right to left, and numbers and
    Latin words from left to right. So tokens have the order of the page, and outputs have the order of reading
    (Unicode's bidirectional algorithm). For text without such letters nothing changes. ``direction`` is the direction
    of the pages, "ltr" or "rtl"; "auto" takes the direction of most letters in the first 1,000 texts. Raises DataError
    for another direction.
    """

    text: Unit
    direction: Literal["auto", "rtl", "ltr"] = "auto"

    signal = False
    tokenizer = PageOrderTokenizer

    def __post_init__(self) -> None:
        if self.direction not in ("auto", *get_args(Direction)):
            raise DataError(f"direction = {self.direction!r}: expected auto, rtl or ltr")

    def learn(self, texts: Iterable[str]) -> PageOrderTokenizer:
        rest = iter(texts)
        first = [*islice(rest, LOOKED_AT)]
        direction: Direction = "rtl" if from_right(first) else "ltr"
        if self.direction != "auto":
            direction = self.direction
        return PageOrderTokenizer(self.text.learn(on_page(text, direction) for text in chain(first, rest)), direction)
