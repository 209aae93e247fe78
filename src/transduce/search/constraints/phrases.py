"""Phrases that outputs must contain, or must not contain. This file works without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.core.errors import UserError
from transduce_engine import EngineError
from transduce_engine.phrases import Lexicon, Pattern


@dataclass(frozen=True)
class Constraints:
    """The phrases that the outputs of a source must contain, and the phrases that they must not contain, as text.

    Each of the ``required`` is a phrase, or a list of alternatives such as inflected forms. One of the alternatives is
    enough. No output contains a ``forbidden`` phrase. Raises UserError for a phrase without text, or if a list is a
    single string.
    """

    required: Sequence[str | Sequence[str]] = ()
    forbidden: Sequence[str] = ()

    def __post_init__(self) -> None:
        _check("required", [self.required, *(each for each in self.required if not isinstance(each, str))])
        _check("forbidden", [self.forbidden])
        for phrase in [*self.forbidden, *(phrase for some in self.alternatives for phrase in some)]:
            if not isinstance(phrase, str) or not phrase.strip():
                raise UserError(f"a phrase is {phrase!r}: some text was expected")

    def __bool__(self) -> bool:
        return bool(self.required or self.forbidden)

    @property
    def alternatives(self) -> list[tuple[str, ...]]:
        """The alternatives of each required phrase. A phrase given as text is its only alternative."""
        return [(each,) if isinstance(each, str) else tuple(each) for each in self.required]

    def missing(self, lexicon: Lexicon, ids: Sequence[int]) -> tuple[tuple[str, ...], ...]:
        """The required phrases that the output ``ids`` does not contain, each as the tuple of its alternatives."""
        return tuple(some for some in self.alternatives if not any(lexicon.written(phrase, ids) for phrase in some))

    def unwanted(self, lexicon: Lexicon, ids: Sequence[int]) -> tuple[str, ...]:
        """The forbidden phrases that the output ``ids`` contains."""
        return tuple(phrase for phrase in self.forbidden if lexicon.written(phrase, ids))

    def tokenized(self, lexicon: Lexicon) -> Tokenized:
        """The constraints in the tokens of a vocabulary (``Lexicon.spelled``). Raises UserError if a required phrase
        has no alternative left, and for a phrase in which the tokenizer finds no text.
        """
        try:
            return Tokenized(*lexicon.spelled(self.alternatives, self.forbidden))
        except EngineError as error:
            raise UserError(str(error)) from error


@dataclass(frozen=True)
class Tokenized:
    """The constraints of a source in the tokens of a vocabulary. A required phrase is the tuple of its alternatives."""

    required: tuple[tuple[Pattern, ...], ...] = ()
    forbidden: tuple[Pattern, ...] = ()


def _check(name: str, lists: Sequence[object]) -> None:
    for given in lists:
        if isinstance(given, str) or not isinstance(given, Sequence) or not (given or given is lists[0]):
            raise UserError(f"{name} = {given!r}: a list of phrases was expected")
