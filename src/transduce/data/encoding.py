"""Encodes rows of text, or of paths, into ids, numbers or steps, in chunks, so that a corpus need not fit
into memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from transduce.data.cleaning import Account, fitting
from transduce.data.rows import CorpusRow
from transduce.data.signals.base import Signal, SignalError
from transduce.data.signals.tokenizer import channelled
from transduce.data.tokenizers.base import Tokenizer, encoded

LINES = 4096  # lines of text per chunk
CHARACTERS = 4_000_000  # most characters of these lines; a tokenizer needs about 400 bytes for each
SIGNALS = 16  # signals per chunk; each may have a million numbers


@dataclass(frozen=True)
class Chunk:
    """Some rows of a corpus with their encoded sides: ``rows[n]`` has the source ``sources[n]`` and the target
    ``targets[n]``. A side that the row does not have is encoded as an empty text.

    Rows with an unreadable signal are left out.
    """

    rows: list[CorpusRow]
    sources: list[Any]
    targets: list[Any]

    def fitting(self, tokenizers: tuple[Tokenizer, Tokenizer], account: Account) -> list[Any]:
        """The pairs (source, target) of this chunk that a model learns from. The policies for overlong and unequal
        lines decide (``cleaning.fitting``), and ``account`` counts the pairs and the problems. Raises DataError if a
        policy is "error".
        """
        return list(fitting(self.rows, zip(self.sources, self.targets, strict=True), tokenizers, account))


def chunks(rows: Iterable[CorpusRow], tokenizers: tuple[Tokenizer, Tokenizer], account: Account) -> Iterator[Chunk]:
    """Yields all rows in order, encoded, in chunks. A row with an unreadable signal is left out and noted in the
    account.

    Raises DataError for such a row if its policy is "error", and LineError for a text that its tokenizer cannot read.
    """
    source, target = tokenizers
    for chunk in _divided(rows, SIGNALS if source.signal else LINES):
        sources = _signals(chunk, source, account) if source.signal else _texts(chunk, source)
        kept = [row for row, each in zip(chunk, sources, strict=True) if each is not None]
        yield Chunk(
            kept,
            [each for each in sources if each is not None],
            encoded(target, [row.target or "" for row in kept], [row.source or "" for row in kept]),
        )


def _divided(rows: Iterable[CorpusRow], most: int) -> Iterator[list[CorpusRow]]:
    """Divides the rows into lists of at most ``most`` rows. A list ends early when its texts have ``CHARACTERS``
    characters or more.
    """
    chunk: list[CorpusRow] = []
    characters = 0
    for row in rows:
        chunk.append(row)
        characters += len(row.source or "") + len(row.target or "")
        if len(chunk) == most or characters >= CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def readable(rows: Iterable[CorpusRow], signal: Signal, account: Account) -> Iterator[CorpusRow]:
    """Yields the rows whose source is a signal that ``signal`` can read. Others are noted in the account, or raise
    DataError if their policy is "error".
    """
    for row in rows:
        try:
            channelled(signal, row.source or "")
        except SignalError as error:
            account.stays("unreadable", account.place("source", row), str(error), why=True)
        else:
            yield row


def _texts(rows: Sequence[CorpusRow], tokenizer: Tokenizer) -> list[Any]:
    return tokenizer.encode([row.source or "" for row in rows])


def _signals(rows: Sequence[CorpusRow], tokenizer: Tokenizer, account: Account) -> list[Any]:
    """The encoded signal of each row; None if it cannot be read. Such rows are noted in the account, or raise DataError
    if their policy is "error".
    """
    signals: list[Any] = []
    for row in rows:
        try:
            signals += tokenizer.encode([row.source or ""])
        except SignalError as error:
            account.stays("unreadable", account.place("source", row), str(error), why=True)
            signals.append(None)
    return signals
