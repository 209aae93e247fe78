"""The tokens of one side of an alignment, and the words that they belong to."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from transduce.answers.answer import Output
from transduce.core.types import EOS
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.text import SPACE

Span = tuple[int, int]


@dataclass(frozen=True)
class Side:
    """The source or the target of a TokenAlignment: its text, its tokens, and the word that each token belongs to.

    ``spans`` has for each token the index of its first character in ``text``, and one past its last. ``words`` has the
    index of each token's word, or None for a token outside words, such as EOS. If tokens are ``parts`` of words, white
    space separates the words. Otherwise every token with an index in ``words`` is a word.
    """

    text: str
    spans: Sequence[Span]
    words: Sequence[int | None]
    parts: bool

    @cached_property
    def texts(self) -> list[str]:
        """The words, in order. If tokens are parts of words, words without tokens are included."""
        if self.parts:
            return self.text.split()
        return [self.text[slice(*span)] for span, word in zip(self.spans, self.words, strict=True) if word is not None]

    @property
    def places(self) -> list[int]:
        """The indices of the tokens that belong to words."""
        return [place for place, word in enumerate(self.words) if word is not None]

    def spelling(self, place: int) -> str:
        """The token with index ``place`` as the text spells it, without white space around it. A part of a word is
        extended to the letters, marks, digits and underscores around it.
        """
        start, end = self.spans[place]
        start += len(self.text[start:end]) - len(self.text[start:end].lstrip())
        if self.parts and _in_word(self.text[start]):
            end = start + sum(1 for _ in takewhile(_in_word, self.text[start:]))
            start -= sum(1 for _ in takewhile(_in_word, reversed(self.text[:start])))
        return self.text[start:end].rstrip()


def read_side(tokenizer: Tokenizer, text: str, places: Sequence[int], length: int, parts: bool) -> Side:
    """A given text as a Side. The text has ``length`` ids. ``places`` are the indices of the ids with which its tokens
    begin.

    Labels and EOS are not words.
    """
    spans = [*tokenizer.spans(text)[: length - 1], (len(text), len(text))]
    chosen = [spans[place] for place in places]
    words = words_of(text, chosen) if parts else word_numbers(start < end for start, end in chosen)
    return Side(text, chosen, words, parts)


def written_side(tokenizer: Tokenizer, output: Output, parts: bool) -> Side:
    """An output of the model as a Side. ``parts``: whether tokens are parts of words."""
    ends = token_ends(tokenizer, output)
    spans = list(zip([0, *ends], ends, strict=False))
    return Side(
        output.text, spans, words_of(output.text, spans) if parts else word_numbers(i != EOS for i in output.ids), parts
    )


def token_ends(tokenizer: Tokenizer, output: Output) -> list[int]:
    """One past the last character of each token in the output's text. Decodes one more token at a time: that works for
    every tokenizer.
    """
    return [len(tokenizer.decode(output.ids[: place + 1])) for place in range(len(output.ids))]


def words_of(text: str, spans: Sequence[Span]) -> list[int | None]:
    """For each span, the index of the first word that shares a character with it, or None if there is none.

    Words are separated by white space. A span is the indices of its first character and one past its last.
    """
    number, numbers = -1, []
    for place, character in enumerate(text):
        number += not character.isspace() and (place == 0 or text[place - 1].isspace())
        numbers.append(None if character.isspace() else number)
    return [next((each for each in numbers[start:end] if each is not None), None) for start, end in spans]


def parts_of_words(tokenizer: Tokenizer) -> bool:
    """True if some entries of the vocabulary are longer than one character and begin with the mark of a word's
    beginning: then a word may have several tokens.
    """
    return any(isinstance(entry, str) and len(entry) > 1 and entry.startswith(SPACE) for entry in tokenizer.entries)


def word_numbers(real: Iterable[bool]) -> list[int | None]:
    """For each True its number among them, from 0; for each False, None."""
    number = itertools.count()
    return [next(number) if each else None for each in real]


def _in_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN" or character == "_"
