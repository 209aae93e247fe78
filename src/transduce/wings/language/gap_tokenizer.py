"""Texts with gaps, for masked language models: "The ___ barks". A gap is the id BOS, which no text has inside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transduce.core.config.errors import Table
from transduce.core.types import BOS, EOS
from transduce.data.corpora import DataError
from transduce.data.tokenizers.base import Tokenizer, Unit, shifted
from transduce.data.tokenizers.json_records import RecordedText
from transduce.data.tokenizers.storage import from_record, record_of

GAP = BOS


class GapTokenizer(RecordedText):
    """Converts texts with gaps to ids and back. ``text`` is the tokenizer of what stands between the gaps. The word
    ``mark`` is a gap.

    Raises DataError as ``RecordedText`` does, and if the mark is empty or has white space inside.
    """

    kind = "gaps"

    def __init__(self, text: Tokenizer, mark: str = "___") -> None:
        super().__init__(text)
        if not mark or mark.split() != [mark]:
            raise DataError(f"mark = {mark!r}: a word without white space was expected, such as ___")
        self.mark = mark
        self._gap = re.compile(rf"(?<!\S){re.escape(mark)}(?!\S)")

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text. The texts between gaps are converted without the white space around them."""
        split = [self._gap.split(text) for text in texts]
        rows = iter(self.text.encode([part.strip() if len(parts) > 1 else part for parts in split for part in parts]))
        return [[*_joined([next(rows)[:-1] for _ in parts]), EOS] for parts in split]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a row of ids, with the mark in the place of each gap."""
        parts: list[list[int]] = [[]]
        for token in ids:
            if token == GAP:
                parts.append([])
            else:
                parts[-1].append(token)
        if len(parts) == 1:
            return self.text.decode(ids)
        return f" {self.mark} ".join(self.text.decode(part) for part in parts).strip()

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces for people to read, one per id; a gap is its mark, and EOS is "</s>"."""
        return [self.mark if token == GAP else name for token, name in zip(ids, self.text.tokens(ids), strict=True)]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The start and the end of each id in the text; EOS has an empty span at the end."""
        found, begin = list[tuple[int, int]](), 0
        gaps = [gap.span() for gap in self._gap.finditer(text)]
        if not gaps:
            return self.text.spans(text)
        for start, end in [*gaps, (len(text), len(text))]:
            part = text[begin:start]
            indent = len(part) - len(part.lstrip())
            found += shifted(self.text.spans(part.strip())[:-1], begin + indent)
            found.append((start, end))
            begin = end
        return found

    def normalize(self, text: str) -> str:
        """The text after a round trip through ids, if no token is unknown."""
        parts = self._gap.split(text)
        if len(parts) == 1:
            return self.text.normalize(text)
        return f" {self.mark} ".join(self.text.normalize(part.strip()) for part in parts).strip()

    def extended(self, other: Tokenizer) -> GapTokenizer:
        """A new tokenizer that also has the entries of ``other``, with or without gaps. Raises DataError if the
        vocabulary cannot grow.
        """
        return GapTokenizer(self.text.extended(other.text if isinstance(other, GapTokenizer) else other), self.mark)

    def as_json(self) -> Table:
        return {"text": record_of(self.text), "mark": self.mark}

    @classmethod
    def from_json(cls, record: Table) -> GapTokenizer:
        return cls(from_record(record["text"]), record["mark"])


def _joined(rows: Sequence[Sequence[int]]) -> list[int]:
    first, *others = rows
    return [*first, *(token for row in others for token in (GAP, *row))]


@dataclass(frozen=True)
class Gaps:
    """A unit for texts that may have gaps, which a masked language model fills: "The ___ barks". ``text`` is the unit
    of what stands between the gaps, and ``mark`` a gap. A gap is one token; several marks are several tokens.
    """

    text: Unit
    mark: str = "___"

    signal = False
    tokenizer = GapTokenizer

    def learn(self, texts: Iterable[str]) -> GapTokenizer:
        return GapTokenizer(self.text.learn(texts), self.mark)
