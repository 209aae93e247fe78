"""What every tokenizer answers, every unit that text can be cut into, and what they share."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from transduce.data.corpora import DataError
from transduce.types import EOS


class Tokenizer(Protocol):
    """Text to ids, each closed with EOS, and ids to text; ids 0 to 3 are ``types.SPECIALS``.

    The first ``labels`` ids of every line stand for what is said beside the text; of those behind them each token has
    ``factors``. ``entries`` are what the ids stand for, no two alike: equal ones in two vocabularies are one token.
    ``pieces`` are what each adds to a text, with the space before it that begins a word; nothing, where it is not of
    the text. ``spans`` say where in a text each of its ids stands, from the first character to behind the last; EOS,
    and what is said beside the text, have none of it.
    ``length`` is the number of tokens in a row of ids, EOS and labels not counted.
    ``extended`` is this vocabulary with what only another knows after it; it raises DataError where that cannot be.
    A line has at most so many ``columns``, tabs between them; in the last one a tab is text.
    The last ``words`` ids stand for whole words, which the others spell behind them.
    One that is ``numeric`` has numbers for ids, and as many entries as a step has numbers. One of a ``signal`` is
    numeric, too: its texts are paths of files, and a row is an array [S, factors] of float32, a step each, that nothing
    closes.
    """

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
    def columns(self) -> int: ...

    def __len__(self) -> int: ...

    def encode(self, texts: Sequence[str]) -> list[Any]: ...

    def decode(self, ids: Sequence[Any]) -> str: ...

    def tokens(self, ids: Sequence[Any]) -> list[str]: ...

    def length(self, ids: Sequence[Any]) -> int: ...

    def spans(self, text: str) -> list[tuple[int, int]]: ...

    def normalize(self, text: str) -> str: ...

    @property
    def entries(self) -> tuple[Hashable, ...]: ...

    @property
    def pieces(self) -> tuple[str, ...]: ...

    def extended(self, other: Tokenizer) -> Tokenizer: ...

    @property
    def fingerprint(self) -> str: ...

    def as_json(self) -> Any: ...

    def save(self, path: str | Path) -> None: ...


class Unit(Protocol):
    """What text is cut into; ``learn`` finds the vocabulary in one pass over the texts, the same on every run.

    One of a ``signal`` reads the files whose paths the texts are.
    """

    @property
    def signal(self) -> bool: ...

    def learn(self, texts: Iterable[str]) -> Tokenizer: ...


def checked(ids: Sequence[int], size: int) -> Sequence[int]:
    """The ids, all of which are in a vocabulary of ``size``; raises DataError where one is not."""
    wrong = [i for i in ids if not 0 <= i < size]
    if wrong:
        raise DataError(f"id {wrong[0]} is not in a vocabulary of {size}: another tokenizer made it")
    return ids


def divided(text: str, separator: str) -> list[tuple[int, int]]:
    """The spans of what white space and, within what that divides, a separator divide, and of the end."""
    found = []
    for token in re.finditer(r"\S+", text):
        start = token.start()
        for part in token[0].split(separator):
            found.append((start, start + len(part)))
            start += len(part) + len(separator)
    return [*found, (len(text), len(text))]


def shifted(spans: Iterable[tuple[int, int]], by: int) -> list[tuple[int, int]]:
    """The spans of a text, in a line where so many characters stand before it."""
    return [(start + by, end + by) for start, end in spans]


def cut(row: Any, limit: int, tokenizer: Tokenizer) -> Any:
    """The beginning of a row longer than ``limit``, closed anew with EOS where its tokenizer closes rows."""
    if len(row) <= limit:
        return row
    return row[:limit] if tokenizer.signal else [*row[: limit - 1], EOS]
