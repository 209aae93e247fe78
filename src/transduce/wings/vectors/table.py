"""The table of word vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from transduce.core.errors import UserError
from transduce.core.registry import alternatives

Floats = NDArray[np.floating]
Subwords = Callable[[str], Floats]  # a word to its vector [D], from its character n-grams


@dataclass(frozen=True, eq=False)
class Vectors:
    """One vector for each of V different words: row i of ``matrix_VD`` is the vector of ``words[i]``.

    The order of the words is the file's order, usually the most frequent word first. ``subwords`` makes the vector of
    any other word; None if the file has only whole words. ``name`` is the file or run, for messages. Raises UserError
    if there are no words, if a word occurs twice, or if the numbers of words and of rows differ.
    """

    words: tuple[str, ...]
    matrix_VD: Floats
    subwords: Subwords | None = None
    name: str = "vectors"

    def __post_init__(self) -> None:
        if not self.words:
            raise UserError(f"{self.name} has no word vectors: at least one word was expected")
        if self.matrix_VD.ndim != 2 or len(self.matrix_VD) != len(self.words):
            raise UserError(
                f"{self.name}: {len(self.words)} words and a matrix {self.matrix_VD.shape}: one row for each word was "
                "expected"
            )
        if len(self.index) < len(self.words):  # the index has the last row of a word that occurs twice
            twice = next(word for place, word in enumerate(self.words) if self.index[word] != place)
            raise UserError(f"{self.name}: the word {twice!r} has two vectors; remove one of them")

    def __len__(self) -> int:
        return len(self.words)

    @property
    def width(self) -> int:
        """D, the number of features of a vector."""
        return int(self.matrix_VD.shape[1])

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each word."""
        return {word: place for place, word in enumerate(self.words)}

    @cached_property
    def folded(self) -> dict[str, int]:
        """The row of each word in upper case. If words differ only in case, it is the row of the first one."""
        return {word.upper(): place for place, word in reversed(list(enumerate(self.words)))}

    @cached_property
    def unit_VD(self) -> Floats:
        """The matrix with each row divided by its length; a row of zeros stays zero."""
        return normalised(self.matrix_VD)

    def place(self, word: str, ignore_case: bool | None = None) -> int | None:
        """The row of a word; None if it is not in the table.

        ``ignore_case`` True compares words in upper case, False exactly. None looks for the exact word first, and then
        ignores case.
        """
        if ignore_case:
            return self.folded.get(word.upper())
        found = self.index.get(word)
        return self.folded.get(word.upper()) if found is None and ignore_case is None else found

    def places(self, words: Iterable[str], ignore_case: bool | None = None) -> list[int]:
        """The rows of the words that are in the table, in the given order. Other words are left out."""
        found = (self.place(word, ignore_case) for word in words)
        return [place for place in found if place is not None]

    def vector(self, word: str, ignore_case: bool | None = None) -> Floats | None:
        """The vector [D] of a word: its row (``place``), or its vector from subwords if it has no row. None if the
        table has no subwords.
        """
        place = self.place(word, ignore_case)
        if place is not None:
            row: Floats = self.matrix_VD[place]
            return row
        return None if self.subwords is None else self.subwords(word)

    def known(self, words: Sequence[str]) -> Floats:
        """The vectors [N, D] of N words. Raises UserError at the first word that has none, and names similar words."""
        found = [self.vector(word) for word in words]
        for word, vector in zip(words, found, strict=True):
            if vector is None:
                shown = alternatives(word, self.words[:20_000]).partition(" Known:")[0]
                raise UserError(f"{self.name} has no vector for {word!r}{shown.removesuffix('.')}")
        return np.stack([vector for vector in found if vector is not None])

    def with_matrix(self, matrix_VD: Floats) -> Vectors:
        """The same words with other vectors. The result has no subwords, because these would give the old vectors."""
        return replace(self, matrix_VD=matrix_VD, subwords=None)


def normalised(matrix: Floats) -> Floats:
    """The vectors [..., D] divided by their lengths. A vector of zeros stays zero."""
    lengths = np.linalg.norm(matrix, axis=-1, keepdims=True)
    return matrix / np.where(lengths == 0, 1, lengths)
