"""Encodes rows of text, or of paths, into ids, numbers or steps, in chunks, so that a corpus need not fit into memory.

Several processes may encode: this process reads the rows, and the others encode them, chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transduce.compute.cluster import AnyWorkers, ClusterWorkers, connect
from transduce.compute.workers import Workers
from transduce.core.registry import service
from transduce.data.cleaning import SIDES, Account, Tally, fitting
from transduce.data.corpora import Files
from transduce.data.pairs import Flat, RowType, flattened
from transduce.data.rows import CorpusRow
from transduce.data.settings import Lines
from transduce.data.tokenizers.base import Rows, Tokenizer, encoded
from transduce.data.tokenizers.signal_files import Signal, SignalError
from transduce.data.tokenizers.storage import load

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
    sources: Rows
    targets: Rows

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


@dataclass(frozen=True)
class Encoded:
    """Encoded pairs to learn from, and what was found while they were encoded."""

    sides: tuple[Flat, Flat]
    tally: Tally


def encode(
    rows: Iterable[CorpusRow], tokenizers: tuple[Tokenizer, Tokenizer], account: Account, workers: AnyWorkers | None
) -> Iterator[Encoded]:
    """Yields the pairs of all rows in order, in chunks, without those that the policies leave out. ``workers``, if
    given, encode several chunks at a time (``encoders``); the result is the same.

    The ``account`` is not changed. Raises what ``chunks`` and ``Chunk.fitting`` raise.
    """
    work = partial(_encode, account.files, account.lines)
    jobs = _divided(rows, SIGNALS if tokenizers[0].signal else LINES)
    yield from (work(tokenizers, job) for job in jobs) if workers is None else workers(work, jobs)


def encoders(folder: Path, count: int, cluster: str | None = None) -> AnyWorkers:
    """Processes that encode with the tokenizers source.json and target.json of ``folder``: ``count`` on this machine,
    or the workers of the Dask scheduler at the address ``cluster``.
    """
    if cluster is not None:
        return ClusterWorkers(partial(_loaded, folder.resolve()), connect(cluster))
    return Workers(partial(_loaded, folder), count)


def _loaded(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    return load(folder / "source.json"), load(folder / "target.json")


def _encode(files: Files, lines: Lines, tokenizers: tuple[Tokenizer, Tokenizer], rows: Sequence[CorpusRow]) -> Encoded:
    account = Account(files, lines)
    pairs = [pair for chunk in chunks(rows, tokenizers, account) for pair in chunk.fitting(tokenizers, account)]
    sides = [[pair[number] for pair in pairs] for number in range(len(SIDES))]
    source, target = (flattened(each, RowType.of(own)) for each, own in zip(sides, tokenizers, strict=True))
    return Encoded((source, target), account.tally)


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
    channelled = service("steps of a signal")
    for row in rows:
        try:
            channelled(signal, row.source or "")
        except SignalError as error:
            account.stays("unreadable", account.place("source", row), str(error), why=True)
        else:
            yield row


def _texts(rows: Sequence[CorpusRow], tokenizer: Tokenizer) -> Rows:
    return tokenizer.encode([row.source or "" for row in rows])


def _signals(rows: Sequence[CorpusRow], tokenizer: Tokenizer, account: Account) -> Rows:
    """The encoded signal of each row; None if it cannot be read. Such rows are noted in the account, or raise DataError
    if their policy is "error".
    """
    signals: Rows = []
    for row in rows:
        try:
            signals += tokenizer.encode([row.source or ""])
        except SignalError as error:
            account.stays("unreadable", account.place("source", row), str(error), why=True)
            signals.append(None)
    return signals
