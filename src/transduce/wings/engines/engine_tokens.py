"""The tokens of the file of an engine, which the engine itself makes: without the library ``tokenizers``."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from unicodedata import category, normalize

from transduce.core.config import TableView
from transduce.core.types import EOS, SPECIALS, UNK

SPACE = "▁"  # in the name of a token
JOINERS = "\u200c\u200d"
PIECES = {
    "characters": r"[\s\S]",
    "bytes": r"[\s\S]",
    "symbols": r"[\S\x1c-\x1f]+",  # the library takes these four for letters
    "words": r"[ ▁]?(?:\w+|[^\w ▁])|[ ▁]",
}
"""What a unit may take for one token, or for several of one character, as a regular expression."""

Encode = Callable[[Sequence[str]], Sequence[Sequence[int]]]
Decode = Callable[[Sequence[int]], str]


class EngineTokens:
    """One side of a file's model: as much of a ``Tokenizer`` as reading sources and writing answers need.

    ``described`` is the side's note in the file, whose vocabulary the engine has checked. ``encode`` and ``decode`` are
    the engine's. Raises KeyError, TypeError or ValueError for a wrong note.
    """

    factors = 1
    words = 0
    shapes = 0
    columns = 1

    def __init__(self, described: TableView, encode: Encode, decode: Decode) -> None:
        self.unit, self._encode, self._decode = str(described["unit"]), encode, decode
        self.labels, self.signal = int(self.unit == "labels"), self.unit == "signal"
        self.numeric = self.signal
        self.entries: tuple[Hashable, ...] = SPECIALS
        if self.labels:
            (column,) = described["record"]["labels"]
            self.entries += tuple((0, str(label)) for label in column)
        elif self.unit not in ("nothing", "signal"):
            vocabulary = described["record"]["model"]["vocab"]
            self.entries = tuple(sorted(vocabulary, key=vocabulary.__getitem__))

    def __len__(self) -> int:
        return len(self.entries)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, ending with EOS."""
        if not self.labels:
            return [list(row) for row in self._encode(texts)]
        ids = {entry: i for i, entry in enumerate(self.entries)}
        return [[ids.get((0, normalize("NFC", text)), UNK), EOS] for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids. Padding, BOS and EOS add nothing."""
        return self._decode(ids)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces for people to read, one per id. Spaces are shown as "▁", and a label is "<label>"."""
        names = (self.entries[i] for i in ids)
        return [(f"<{name[1]}>" if isinstance(name, tuple) else str(name)).replace(" ", SPACE) for name in names]

    def length(self, ids: Sequence[int]) -> int:
        """The number of ids without EOS."""
        return len(ids) - 1

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The span of each id in the text. Where a form joins characters, or for rare letters, a span may differ."""
        if self.unit not in PIECES:
            return [(0, 0), (len(text), len(text))]
        lettered = "".join("a" if category(c)[0] == "M" or c in JOINERS else c for c in text)  # as the library has it
        found = list(re.finditer(PIECES[self.unit], text if self.unit != "words" else lettered))
        end = (len(text), len(text))
        if self.unit == "words":  # a space comes before the first word: one more token if there is one already
            return [*[(0, 0)] * text.startswith((" ", SPACE)), *(piece.span() for piece in found), end]
        counts = [len(row) - 1 for row in self._encode([piece.group() for piece in found])]
        return [*(piece.span() for piece, count in zip(found, counts, strict=True) for _ in range(count)), end]
