"""A unit for source code and for text about code: identifiers, strings and operators, and rare ones by placeholders.

A rare token becomes a placeholder such as ``<string 17>``: its kind, and a hash of its spelling. The same token has
the same placeholder in every text, so a decoder that copies ids (``pointer``) can copy a token that it has never seen.
An output for a source then gets the source's own token in the place of each placeholder (``Sourced``).
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from transduce.core.config.errors import Table
from transduce.core.types import BOS, EOS, PAD, SPECIALS, UNK
from transduce.data.corpora import DataError
from transduce.data.tokenizers.base import Tokenizer, check_whole, checked
from transduce.data.tokenizers.json_records import Recorded
from transduce.wings.syntax import code_tokens
from transduce.wings.syntax.code_tokens import KINDS

_PLACEHOLDER: Final = re.compile(rf"<({'|'.join(KINDS)}) (\d+)>")


class CodeTokenizer(Recorded):
    """Converts code, or text about code, to ids and back. ``words`` are the tokens that have ids of their own.

    The ids after the special tokens are placeholders: ``placeholders`` of each of the four kinds name, string, number
    and other (``code_tokens.kind``). With ``placeholders`` = 0 a token outside the vocabulary is unknown.
    """

    kind = "code"
    numeric = False
    signal = False
    labels = 0
    factors = 1

    def __init__(self, words: Sequence[str], placeholders: int) -> None:
        self._words = tuple(words)
        self._count = placeholders
        marks = tuple(f"<{kind} {number}>" for kind in KINDS for number in range(placeholders))
        self._entries = (*SPECIALS, *marks, *self._words)
        first = len(self._entries) - len(self._words)
        self._ids = {word: first + index for index, word in enumerate(self._words)}

    def __len__(self) -> int:
        return len(self._entries)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, ending with EOS. Raises DataError for half of a surrogate pair."""
        for text in texts:
            check_whole(text)
        return [[*map(self._id, code_tokens.cut(text)), EOS] for text in texts]

    def _id(self, token: str) -> int:
        known = self._ids.get(token)
        if known is not None:
            return known
        if not self._count:
            return UNK
        number = zlib.crc32(token.encode()) % self._count
        return len(SPECIALS) + KINDS.index(code_tokens.kind(token)) * self._count + number

    def decode(self, ids: Sequence[int]) -> str:
        """The tokens of the ids with one space between them, without padding, BOS and EOS. Placeholders stay, such as
        ``<string 17>``. Raises DataError for an id outside the vocabulary.
        """
        return code_tokens.joined(self.tokens([i for i in ids if i not in (PAD, BOS, EOS)]))

    def with_source(self, text: str, source: str) -> str:
        """The text with a token of ``source`` in the place of each placeholder: the first token outside the vocabulary
        that has this placeholder. "<unk>" replaces a placeholder that no token of the source has.
        """
        tokens = {self._entries[self._id(token)]: token for token in reversed(code_tokens.cut(source))}
        written = code_tokens.cut(text)
        return code_tokens.joined(
            [tokens.get(token, SPECIALS[UNK]) if _PLACEHOLDER.fullmatch(token) else token for token in written]
        )

    def without_source(self, text: str, source: str) -> str:
        """The text itself: its rare tokens become placeholders by their spelling alone."""
        return text

    def placeholders(self) -> tuple[int, ...]:
        """None: no id stands for the next word of the source."""
        return ()

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._entries[i] for i in checked(ids, len(self))]

    def length(self, ids: Sequence[int]) -> int:
        """The number of ids without EOS."""
        return len(ids) - 1

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The span of each token in the text, and an empty span at the end for EOS."""
        return [*code_tokens.spans(text), (len(text), len(text))]

    def normalize(self, text: str) -> str:
        """The tokens of the text with one space between them; no space at the beginning of a line remains."""
        return code_tokens.joined(code_tokens.cut(text))

    @property
    def entries(self) -> tuple[str, ...]:
        return self._entries

    @property
    def pieces(self) -> tuple[str, ...]:
        return ("",) * UNK + tuple(f" {entry}" for entry in self._entries[UNK:])

    def extended(self, other: Tokenizer) -> CodeTokenizer:
        """Returns a new tokenizer: the ids of this one stay, and the words that only ``other`` has follow. Raises
        DataError if ``other`` is of another unit or has another number of placeholders.
        """
        if not isinstance(other, CodeTokenizer) or other._count != self._count:
            raise DataError(
                "a vocabulary of code can be extended by one with the same unit and as many placeholders alone"
            )
        return CodeTokenizer(tuple(dict.fromkeys((*self._words, *other._words))), self._count)

    def as_json(self) -> Table:
        return {"words": list(self._words), "placeholders": self._count}

    @classmethod
    def from_json(cls, record: Table) -> CodeTokenizer:
        return cls(record["words"], record["placeholders"])


@dataclass(frozen=True)
class Code:
    """A unit for source code and for descriptions of code: names, strings, numbers, operators of Python and single
    other characters. White space between tokens is not kept; decoding writes one space. A string literal is one token.

    Tokens rarer than ``minimum_count`` share ``slots`` ids for each kind of token (name, string, number, other).
    A hash of the token's spelling chooses the placeholder. As ``joint`` unit with the decoder ``pointer``, a
    model copies such tokens from the source into the output. With ``slots`` = 0 rare tokens are unknown. Raises
    DataError if ``minimum_count`` is below 1 or ``slots`` is not between 0 and 10,000.
    """

    minimum_count: int = 3
    slots: int = 100

    signal = False
    tokenizer = CodeTokenizer

    def __post_init__(self) -> None:
        if self.minimum_count < 1 or not 0 <= self.slots <= 10_000:
            raise DataError(
                f"minimum_count = {self.minimum_count}, slots = {self.slots}: expected at least 1, and 0 to 10000"
            )

    def learn(self, texts: Iterable[str]) -> CodeTokenizer:
        counts = Counter(token for text in texts for token in code_tokens.cut(text))
        kept = [token for token, count in counts.items() if count >= self.minimum_count]
        kept = [token for token in kept if token not in SPECIALS and not _PLACEHOLDER.fullmatch(token)]
        return CodeTokenizer(sorted(kept, key=lambda token: (-counts[token], token)), self.slots)
