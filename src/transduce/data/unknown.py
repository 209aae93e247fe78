"""Counts the tokens of texts that a vocabulary does not have. Commands, answers and training use this one count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transduce.core.types import BOS, EOS, UNK
from transduce.data.tokenizers.base import Sourced, Tokenizer, encoded

FEW = 5  # how many different unknown tokens are remembered


@dataclass
class Unknown:
    """The number of unknown tokens among all ``tokens`` of some lines (EOS and the marks of words do not count), and
    the number of lines that have one. ``first`` are the spellings of the first few different ones, as in the text.
    """

    count: int = 0
    tokens: int = 0
    lines: int = 0
    affected: int = 0
    first: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """True if there is an unknown token."""
        return self.count > 0

    @property
    def share(self) -> float:
        """The share of unknown tokens, 0 to 1; 0 without tokens."""
        return self.count / max(1, self.tokens)

    def __str__(self) -> str:
        """The sentence without its subject's name: "3 of 5 tokens (60 %) in 2 of 2 lines are unknown to the model"."""
        more = " …" if self.count > len(self.first) and len(self.first) == FEW else ""
        return (
            f"{self.count:,} of {self.tokens:,} tokens ({percentage(self.count, self.tokens)}) in {self.affected:,} of "
            f"{self.lines:,} lines are unknown to the model: {' '.join(map(_shown, self.first))}{more}"
        )

    def read(self, tokenizer: Tokenizer, row: Sequence[int], text: str, source: str = "") -> None:
        """Counts one line: its ``row`` of ids, perhaps cut, and its text. ``source`` is the source of a target."""
        self.lines += 1
        if tokenizer.numeric:
            return
        self.tokens += len(row) - row.count(EOS) - row.count(BOS)
        count = row.count(UNK)
        if count:
            self.count += count
            self.affected += 1
            if len(self.first) < FEW:
                self._remember(spellings(tokenizer, row, text, source))

    def encode(self, tokenizer: Tokenizer, text: str, source: str = "") -> None:
        """Counts one text that has no row of ids yet. Raises what ``tokenizer.encode`` raises."""
        if not tokenizer.numeric:
            (row,) = encoded(tokenizer, [text], [source])
            self.read(tokenizer, row, text, source)

    def add(self, other: Unknown) -> None:
        """Adds the count of later lines, in place."""
        self.count += other.count
        self.tokens += other.tokens
        self.lines += other.lines
        self.affected += other.affected
        self._remember(other.first)

    def _remember(self, spelled: Iterable[str]) -> None:
        self.first = tuple(dict.fromkeys((*self.first, *spelled)))[:FEW]


def unknown_in(tokenizer: Tokenizer, row: Sequence[int], text: str, source: str = "") -> Unknown:
    """The count of one line."""
    found = Unknown()
    found.read(tokenizer, row, text, source)
    return found


def spellings(tokenizer: Tokenizer, row: Sequence[int], text: str, source: str = "") -> list[str]:
    """The text of each unknown id of a row. A label or a feature is named by its field of the line."""
    if isinstance(tokenizer, Sourced):
        text = tokenizer.without_source(text, source)
    found = []
    for place, (i, (start, end)) in enumerate(zip(row, tokenizer.spans(text), strict=False)):
        if i == UNK:
            fields = text.split("\t")
            found.append(text[start:end] if start < end else fields[place if place < tokenizer.labels else 0])
    return found


def percentage(count: int, total: int) -> str:
    """The share as text: whole percents, with more digits below 1 %."""
    share = 100 * count / max(1, total)
    return f"{share:.0f} %" if share >= 1 or not count else f"{share:.2g} %"


def share_text(count: int, total: int) -> str:
    """A count with its share, such as "3 of 200 (2 %)"."""
    return f"{count:,} of {total:,} ({percentage(count, total)})"


def _shown(spelled: str) -> str:
    stripped = spelled.strip()
    return stripped if stripped and not any(map(str.isspace, stripped)) else repr(spelled)
