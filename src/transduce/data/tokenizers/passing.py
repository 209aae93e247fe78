"""Text whose unknown numbers, addresses and names with punctuation inside are one token each: a model that passes
unknown tokens on then passes each of them on whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from transduce.core.types import UNK
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.text import TextTokenizer

Span = tuple[int, int]

_CHUNK = re.compile(r"\S+")
_WORD = re.compile(r"\w")
_WHOLE = re.compile(r"[@#=\\~]|://")  # signs of addresses and of code; a word around them is no word of a sentence


class PassingTokenizer(TextTokenizer):
    """A tokenizer that joins tokens which nobody would translate one by one to one unknown token.

    It joins the tokens of a piece of text between white space, from its first to its last letter or digit: `12.345,67`,
    `max.muster@x.de`, `Xyz-Abc`. One of them must be unknown. All of them with letters must be unknown too, unless the
    piece has a sign of addresses and of code. So a known word keeps its translation beside an unknown one.
    """

    def __init__(self, inner: TextTokenizer) -> None:
        super().__init__(inner._library)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._joined(text, row)[0] for text, row in zip(texts, super().encode(texts), strict=True)]

    def spans(self, text: str) -> list[Span]:
        return self._joined(text, super().encode([text])[0])[1]

    def _joined(self, text: str, row: list[int]) -> tuple[list[int], list[Span]]:
        """The ids and their spans, with joined tokens."""
        spans = super().spans(text)
        ids, kept = list[int](), list[Span]()
        at = 0
        for first, end in [*(self._core(text, row, spans) if UNK in row else ()), (len(row), len(row))]:
            ids += [*row[at:first], *([UNK] if first < end else ())]
            kept += [*spans[at:first], *([(spans[first][0], spans[end - 1][1])] if first < end else ())]
            at = end
        return ids, kept

    def _core(self, text: str, row: list[int], spans: list[Span]) -> list[tuple[int, int]]:
        """The ranges of tokens to join."""
        found, at = [], 0
        for chunk in _CHUNK.finditer(text):
            while spans[at][1] <= chunk.start() and at < len(row) - 1:
                at += 1
            first = at
            while at < len(row) - 1 and spans[at][0] < chunk.end():
                at += 1
            words = [place for place in range(first, at) if _WORD.search(text[slice(*spans[place])])]
            if not words or words[0] == words[-1]:
                continue
            core = range(words[0], words[-1] + 1)
            lettered = [place for place in words if not text[slice(*spans[place])].strip().isdecimal()]
            whole = _WHOLE.search(text, spans[core[0]][0], spans[core[-1]][1])
            unknown = [place for place in core if row[place] == UNK]
            if unknown and (whole or all(row[place] == UNK for place in lettered)):
                found.append((core[0], core[-1] + 1))
        return found


def passing(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with joined tokens; itself if its texts are no plain text."""
    return PassingTokenizer(tokenizer) if type(tokenizer) is TextTokenizer else tokenizer


def touches(first: str, second: str, before: str) -> bool:
    """True if the source text ``second`` follows ``first`` without white space, and can follow ``before`` in the same
    way: the output that was written in place of ``first``.

    A letter after a sign, as in "(Rome", does not continue a word that was written in place of the sign. Parts of one
    word do not touch: each of them stands for the whole word.
    """
    if not first or not second or not before or first[-1].isspace() or second[0].isspace():
        return False
    return first[-1].isalnum() == before[-1].isalnum() and not (first[-1].isalnum() and second[0].isalnum())
