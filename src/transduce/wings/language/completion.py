"""Completions: from texts of prefixes to their most probable next words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

import torch

from transduce.answers.batches import windows
from transduce.answers.text_model import TextModel
from transduce.core.errors import RequestError
from transduce.core.types import SPECIALS
from transduce.data.tokenizers.text import byte_characters
from transduce.wings.language.completion_search import NextWords, Word, WordTokens, byte_pieces


class Completer:
    """Finds the most probable next words of prefixes with a language model.

    Make one for many requests: it keeps which tokens of the vocabulary begin and end words. ``with_sources`` is for a
    model that has sources: it completes outputs of given sources. Raises RequestError if the model has sources and
    ``with_sources`` is False, if it does not write token by token, or if its tokens do not spell words.
    """

    def __init__(self, text_model: TextModel, search: NextWords, with_sources: bool = False) -> None:
        if with_sources:
            text_model.check_stepwise()
        else:
            text_model.check_language_model()
        tokenizer = text_model.target_tokenizer
        if tokenizer.numeric or tokenizer.labels or tokenizer.words or tokenizer.shapes or tokenizer.factors > 1:
            raise RequestError(
                f"units {tokenizer.kind!r} do not spell words from left to right: give a language model of words, "
                "pieces, characters or bytes"
            )
        self.text_model, self.search = text_model, search

    @cached_property
    def _tokens(self) -> WordTokens:
        tokenizer = self.text_model.target_tokenizer
        in_bytes = tokenizer.entries[len(SPECIALS) :] == tuple(byte_characters())
        pieces = [*tokenizer.pieces[: len(SPECIALS)], *byte_pieces()] if in_bytes else tokenizer.pieces
        return WordTokens(pieces, in_bytes)

    def __call__(
        self, prefixes: Sequence[str], begun: str | Sequence[str] = "", sources: Sequence[str] | None = None
    ) -> list[list[Word]]:
        """For each prefix, the next words, best first. The last word of a prefix is whole; spaces after it mean
        nothing.

        ``begun`` are the letters that the next word begins with, one text for all prefixes or one for each.
        ``sources`` has the source of each prefix; None is for a language model, which has none. Raises RequestError if
        ``begun`` contains a space, or if there are not as many texts as prefixes.
        """
        sources = [""] * len(prefixes) if sources is None else sources
        if len(sources) != len(prefixes):
            raise RequestError(f"there are {len(sources)} sources for {len(prefixes)} prefixes: give one for each")
        letters = [begun] * len(prefixes) if isinstance(begun, str) else list(begun)
        if len(letters) != len(prefixes):
            raise RequestError(f"begun has {len(letters)} texts for {len(prefixes)} prefixes: give one for each")
        for number, (prefix, first) in enumerate(zip(prefixes, letters, strict=True), 1):
            if not isinstance(prefix, str):
                raise RequestError(f"input {number}: prefix = {prefix!r}: a text was expected")
            if any(character.isspace() for character in first):
                raise RequestError(
                    f"input {number}: begun = {first!r}: the first letters of one word were expected, without spaces; "
                    "whole words belong to the prefix"
                )
        by_length: defaultdict[int, list[int]] = defaultdict(list)
        ids = [
            row[:-1] for row in self.text_model.read_targets([prefix.rstrip() for prefix in prefixes], what="prefixes")
        ]
        for place, row in enumerate(ids):
            by_length[len(row)].append(place)
        found: list[list[Word]] = [[] for _ in prefixes]
        for places in by_length.values():
            some = [ids[place] for place in places]
            words = self._alike(some, [letters[place] for place in places], [sources[place] for place in places])
            for place, each in zip(places, words, strict=True):
                found[place] = each
        return found

    def _alike(self, ids: Sequence[Sequence[int]], begun: Sequence[str], sources: Sequence[str]) -> list[list[Word]]:
        """The next words of prefixes with equally many tokens, given their sources."""
        text_model = self.text_model
        source = text_model.padded([row.row for row in text_model.read(sources)])
        prefix = text_model.padded(ids, torch.long) if ids[0] else None
        with text_model.computing():
            return self.search(text_model.stepwise, source, self._tokens, prefix, begun)

    def in_batches(
        self, prefixes: Iterable[str], begun: str = "", batch_size: int = 64
    ) -> Iterable[tuple[str, list[Word]]]:
        """Yields each prefix with its next words, in order. Reads ``batch_size`` prefixes at a time."""
        for batch in windows(prefixes, batch_size):
            yield from zip(batch, self(batch, begun), strict=True)


def complete(model: TextModel, prefixes: Sequence[str], k: int, begun: str | Sequence[str]) -> list[list[Word]]:
    """The ``k`` most probable next words of each prefix, as ``Transducer.complete`` describes them."""
    return Completer(model, NextWords(k))(prefixes, begun)
