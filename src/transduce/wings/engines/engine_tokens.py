"""The tokens of the file of an engine, which the engine itself makes: without the library ``tokenizers``."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from unicodedata import category, normalize

from transduce.core.config import TableView
from transduce.core.types import BOS, EOS, SPECIALS, UNK
from transduce.data.tokenizers.base import shifted

SPACE = "▁"  # in the name of a token
JOINERS = "\u200c\u200d"
SHAPES = ("x", "Xx", "XX", "9")  # of words
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

    def __init__(self, described: TableView, encode: Encode, decode: Decode) -> None:
        self.unit, self._encode, self._decode = str(described["unit"]), encode, decode
        self.labels, self.signal = int(self.unit == "labels"), self.unit == "signal"
        self.numeric = self.signal
        read = described["record"]["signal"] if self.signal else {}
        self.spectral, self.rate = read.get("type") == "sound", read.get("rate")
        self.inverted = bool(read.get("invert"))
        self.spelled, self.features = described.get("spelled"), described.get("features")
        self.columns, self.words = 1 if self.features is None else 2, 0
        self.shapes = len(SHAPES) if self.spelled is not None and self.spelled.get("shapes") else 0
        self.entries: tuple[Hashable, ...] = SPECIALS
        if self.labels:
            (column,) = described["record"]["labels"]
            self.entries += tuple((0, str(label)) for label in column)
        elif self.unit not in ("nothing", "signal"):
            vocabulary = described["record"]["model"]["vocab"]
            self.entries = tuple(sorted(vocabulary, key=vocabulary.__getitem__))
            self._pieces = len(self.entries)
        if self.features is not None:
            self.entries += tuple(("feature", str(name)) for name in self.features["names"])
        self.entries += tuple(("shape", name) for name in SHAPES[: self.shapes])
        if self.spelled is not None and "known" in self.spelled:
            known = self.spelled["known"]["record"]["model"]["vocab"]
            wholes = sorted(known, key=known.__getitem__)[len(SPECIALS) :]
            self.entries += tuple(("word", str(word)) for word in wholes)
            self.words = len(wholes)

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
        """The number of ids without EOS and without features; of words in pieces, the number of words."""
        if self.spelled is not None:
            return sum(i == BOS or i >= self._pieces + self.shapes for i in ids)
        return sum(i < self._pieces for i in ids) - 1 if self.features is not None else len(ids) - 1

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The span of each id in the text. Where a form joins characters, or for rare letters, a span may differ."""
        if self.unit not in PIECES:
            return [(0, 0), (len(text), len(text))]
        if self.features is not None:
            features, _, rest = text.partition("\t")
            count = sum(map(bool, features.split(self.features["separator"])))
            return [*[(0, 0)] * count, *shifted(self._spans_of_text(rest), len(text) - len(rest))]
        if self.spelled is not None:
            found = []
            for word in re.finditer(r"\S+", text):
                marks = [(word.start(),) * 2] * (2 if self.shapes else 1)
                found += [*marks, *shifted(self._spans_of_text(word.group())[:-1], word.start())]
            return [*found, (len(text), len(text))]
        return self._spans_of_text(text)

    def _spans_of_text(self, text: str) -> list[tuple[int, int]]:
        lettered = "".join("a" if category(c)[0] == "M" or c in JOINERS else c for c in text)  # as the library has it
        found = list(re.finditer(PIECES[self.unit], text if self.unit != "words" else lettered))
        end = (len(text), len(text))
        if self.unit == "words":  # a space comes before the first word: one more token if there is one already
            return [*[(0, 0)] * text.startswith((" ", SPACE)), *(piece.span() for piece in found), end]
        before = "" if self.features is None else "\t"
        above = 0 if self.spelled is None else 2 if self.shapes else 1
        counts = [len(row) - 1 - above for row in self._encode([before + piece.group() for piece in found])]
        return [*(piece.span() for piece, count in zip(found, counts, strict=True) for _ in range(count)), end]
