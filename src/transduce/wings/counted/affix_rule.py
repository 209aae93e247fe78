"""A rule that changes a word at its ends, and the contexts that speak for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Tokens = tuple[int, ...]


class AffixRule(NamedTuple):
    """Puts tokens ``before`` a word, takes ``taken`` tokens from its end, and puts tokens ``behind`` it."""

    before: Tokens
    taken: int
    behind: Tokens

    def __call__(self, word: Tokens) -> Tokens | None:
        """The changed word. None if the word has fewer tokens than the rule takes."""
        if self.taken > len(word):
            return None
        return self.before + word[: len(word) - self.taken] + self.behind


def rule_of(word: Tokens, form: Tokens) -> AffixRule:
    """The rule that makes ``form`` from ``word`` and keeps the most tokens. Tokens before the word count as one token
    that is lost, so that "go" to "ogre" is a new ending.
    """
    kept = [_common(word, form[place:]) - (place > 0) for place in range(len(form) + 1)]
    place = max(range(len(kept)), key=lambda at: (kept[at], -at))
    common = _common(word, form[place:])
    return AffixRule(form[:place], len(word) - common, form[place + common :])


def _common(one: Tokens, other: Tokens) -> int:
    """The number of tokens with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))


def parts(source: Sequence[int], copies: Sequence[int], unknown: int) -> tuple[Tokens, Tokens]:
    """The features and the word of a source without EOS. ``copies`` has the target token of each source token, or 0.
    The features are the tokens at the beginning that no target can have. Later ones become ``unknown``.
    """
    copied = [copies[token] for token in source]
    first = next((place for place, token in enumerate(copied) if token), len(copied))
    return tuple(source[:first]), tuple(token or unknown for token in copied[first:])


def contexts(source: Sequence[int], features: int, letters: int) -> Tokens:
    """What decides about the rule, the most important first: the features, and then the last ``letters`` tokens of the
    word from its end on. ``features`` is the number of features.
    """
    word = source[features:]
    return tuple(source[:features]) + tuple(reversed(word[max(0, len(word) - letters) :]))
