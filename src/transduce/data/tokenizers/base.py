"""The protocols of tokenizers and of units, and functions that several of them share."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from transduce.core.config.errors import Table
from transduce.core.types import EOS, Hypothesis
from transduce.data.corpora import DataError

Rows = list[Any]
"""What a tokenizer makes of texts: lists of ids or of numbers, or arrays of steps [S, factors]."""


class Tokenizer(Protocol):
    """Converts each text to a row of ids that ends with EOS, and a row back to text. Ids 0 to 3 are ``types.SPECIALS``.

    A row begins with ``labels`` ids that are not text. After them, each token has ``factors`` ids. ``tokens`` has a
    name for each id of a row, for people. ``normalize`` is the text after a round trip through ids, if no token is
    unknown. ``spans`` has the start and end of each id in a text, in characters; EOS and ids that are not text have
    empty spans. ``length`` is the number of tokens in a row of ids, without EOS and labels (of labels, if a row has no
    other tokens).

    ``entries`` and ``pieces`` have an item for each id of the vocabulary. ``entries`` are what the ids stand for, all
    different: an equal entry in two vocabularies is the same token. ``pieces`` are the texts that the ids add to an
    output, with the space that begins a word; empty for ids that are not text. ``extended`` is a vocabulary with the
    entries of both tokenizers; ids may change. It raises DataError if the vocabulary cannot grow. The last ``words``
    ids of the vocabulary stand for whole words; in a row the word's spelling follows such an id. The ``shapes`` ids
    before them stand for shapes of words; in a row one of them follows the id that begins a word.

    A line has at most ``columns`` columns, separated by tabs; in the last one a tab is text. The rows of a ``numeric``
    tokenizer are numbers, and it has one entry for each number of a step. A tokenizer of a ``signal`` is numeric too:
    its texts are paths of files, and a row is an array [S, factors] of float32 without EOS. Such a row has no text, so
    ``decode`` and ``spans`` raise DataError. ``kind`` names the class in a saved file, and ``from_json`` reads what
    ``as_json`` returns (``storage.py``). Equal tokenizers have equal ``fingerprint``.
    """

    @property
    def kind(self) -> str: ...

    @property
    def numeric(self) -> bool: ...

    @property
    def signal(self) -> bool: ...

    @property
    def labels(self) -> int: ...

    @property
    def factors(self) -> int: ...

    @property
    def words(self) -> int: ...

    @property
    def shapes(self) -> int: ...

    @property
    def columns(self) -> int: ...

    def __len__(self) -> int: ...

    def encode(self, texts: Sequence[str]) -> Rows: ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def tokens(self, ids: Sequence[int]) -> list[str]: ...

    def length(self, ids: Sequence[int]) -> int: ...

    def spans(self, text: str) -> list[tuple[int, int]]: ...

    def normalize(self, text: str) -> str: ...

    @property
    def entries(self) -> tuple[Hashable, ...]: ...

    @property
    def pieces(self) -> tuple[str, ...]: ...

    def extended(self, other: Tokenizer) -> Tokenizer: ...

    @property
    def fingerprint(self) -> str: ...

    def as_json(self) -> Table: ...

    @classmethod
    def from_json(cls, record: Table) -> Tokenizer: ...

    def save(self, path: str | Path) -> None: ...


@runtime_checkable
class Scaled(Protocol):
    """A tokenizer whose rows are scaled numbers, ``factors`` of them in each step.

    ``in_units`` returns a hypothesis with its deviations and log-densities in the units of the texts.
    """

    @property
    def factors(self) -> int: ...

    def in_units(self, hypothesis: Hypothesis) -> Hypothesis: ...


@runtime_checkable
class Sourced(Protocol):
    """A tokenizer whose texts have parts that the tokens leave out and the source has, such as the words of a tree.

    ``with_source`` returns a decoded text with these parts of the source. ``without_source`` returns the text that
    ``encode`` expects for an output. ``placeholders`` are the ids that each stand for the next word of the source.
    """

    def placeholders(self) -> tuple[int, ...]: ...

    def with_source(self, text: str, source: str) -> str: ...

    def without_source(self, text: str, source: str) -> str: ...


class Unit(Protocol):
    """A way to turn the texts of one side into tokens, numbers or steps. ``learn`` makes the tokenizer, and reads the
    texts at most once.

    The same texts always give the same vocabulary. For a unit of a ``signal``, the texts are the paths of the files
    that it reads. ``tokenizer`` is the class of what ``learn`` returns, which a saved run is loaded with.
    """

    @property
    def tokenizer(self) -> type[Tokenizer]: ...

    @property
    def signal(self) -> bool: ...

    def learn(self, texts: Iterable[str]) -> Tokenizer: ...


def encoded(tokenizer: Tokenizer, texts: Sequence[str], sources: Sequence[str]) -> Rows:
    """The ids of outputs. ``sources`` are their sources, which only a tokenizer that is ``Sourced`` reads."""
    if isinstance(tokenizer, Sourced):
        texts = [tokenizer.without_source(text, source) for text, source in zip(texts, sources, strict=True)]
    return tokenizer.encode(texts)


def check_whole(text: str) -> None:
    """Raises DataError for half of a surrogate pair, which JSON can contain and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = ascii(text[error.start])
        raise DataError(f"{text!a}: {half} is half of a surrogate pair; write both halves, or leave it out") from None


def checked(ids: Sequence[int], size: int) -> Sequence[int]:
    """Returns the ids unchanged. Raises DataError if one of them is not in a vocabulary of ``size``."""
    wrong = [i for i in ids if not 0 <= i < size]
    if wrong:
        raise DataError(f"id {wrong[0]} is not in a vocabulary of {size}: another tokenizer made it")
    return ids


def divided(text: str, separator: str) -> list[tuple[int, int]]:
    """The spans (start, end) of the parts of a text between white space or ``separator``, in characters. At the end is
    one empty span, for EOS.
    """
    found = []
    for token in re.finditer(r"\S+", text):
        start = token.start()
        for part in token[0].split(separator):
            found.append((start, start + len(part)))
            start += len(part) + len(separator)
    return [*found, (len(text), len(text))]


def shifted(spans: Iterable[tuple[int, int]], by: int) -> list[tuple[int, int]]:
    """The same spans, each moved ``by`` characters towards the end."""
    return [(start + by, end + by) for start, end in spans]


def cut(row: Any, limit: int, tokenizer: Tokenizer) -> Any:
    """Shortens a row to ``limit`` items, of ids, numbers or steps. A row that is not longer stays unchanged.

    If rows of the tokenizer end with EOS, so does the result: then ``limit - 1`` items of the row remain, and EOS
    follows.
    """
    if len(row) <= limit:
        return row
    return row[:limit] if tokenizer.signal else [*row[: limit - 1], EOS]
