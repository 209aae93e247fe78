"""Base classes of tokenizers that are saved as a JSON record."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import cast

from transduce.core.config.errors import Table
from transduce.data.corpora import DataError
from transduce.data.tokenizers import storage
from transduce.data.tokenizers.base import Tokenizer


class Recorded(ABC):
    """The base class of tokenizers that are saved as their record. Equal records mean equal tokenizers."""

    @property
    def words(self) -> int:
        """The number of ids that stand for a whole word: 0, unless a subclass has such ids (``Tokenizer.words``)."""
        return 0

    @property
    def shapes(self) -> int:
        """0: no id stands for the shape of a word."""
        return 0

    @property
    def columns(self) -> int:
        """1: a tab is text."""
        return 1

    kind: str

    @abstractmethod
    def as_json(self) -> Table:
        """The record that ``from_json`` needs, without the kind."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the record: equal for equal tokenizers."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()

    def save(self, path: str | Path) -> None:
        storage.save(cast(Tokenizer, self), path)


class RecordedText(Recorded):
    """The base class of tokenizers that change a plain text before another tokenizer, ``text``, reads it. They have its
    vocabulary. Raises DataError if the rows of ``text`` are numbers, or have labels, factors or words of several
    pieces.
    """

    numeric = False
    signal = False
    labels = 0
    factors = 1

    def __init__(self, text: Tokenizer) -> None:
        if text.numeric or text.labels or text.factors > 1 or text.words or text.columns > 1:
            raise DataError(
                f"the unit {self.kind} changes plain texts: set its text to characters, words, symbols, bytes, bpe or "
                "unigram"
            )
        self.text = text

    def __len__(self) -> int:
        return len(self.text)

    def length(self, ids: Sequence[int]) -> int:
        """The number of ids without EOS."""
        return len(ids) - 1

    @property
    def entries(self) -> tuple[Hashable, ...]:
        return self.text.entries

    @property
    def pieces(self) -> tuple[str, ...]:
        return self.text.pieces
