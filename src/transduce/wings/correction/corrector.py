"""Correction of running text by a noisy channel for words and a language model for their order.

K hypotheses, C candidates of a word.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import torch
from torch import Tensor

from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.protocols import Stepping
from transduce.core.types import EOS, UNK, Padded
from transduce.wings.counted.models.noisy_channel import NoisyChannel

TOKEN = re.compile(r"\w+|[^\w\s]")
LETTERS = re.compile(r"[^\W\d_]{2,}")  # the tokens that may be wrong

Candidate = tuple[str, float, float]
"""A word in small letters, log p(the text's word | the word was meant), and log of its share of the list."""


@dataclass(frozen=True)
class Hypothesis:
    """The beginning of a text: the words so far in small letters, their score, and the language model's state."""

    words: tuple[str, ...]
    score: float
    state: Tensor


@dataclass(frozen=True)
class Corrector:
    """Corrects a text word by word, each in the context of the words before it: the y with the highest

    prod_i p(y_i | y_1 ... y_i-1) c(x_i | y_i), where c is 1 - ``errors`` for y_i = x_i, and otherwise ``errors`` times
    the channel's p(x_i | y_i) (Kernighan, Church and Gale 1990; Mays, Damerau and Mercer 1991).

    ``speller`` is a run of the recipe "spelling-channel", and ``language`` a run of n-grams of words in small letters.
    A word that the language model does not know has the probability of an unknown word times its share of the
    speller's list; a word that the list lacks too has the share ``unlisted``. Each word of two letters or more has up
    to ``candidates`` other words. Beam search keeps ``beam`` beginnings. The result has the spaces, signs and numbers
    of the text. A changed word gets the capitals of the old one. Raises UserError for runs of other models, and for
    ``errors`` or ``unlisted`` outside of 0 to 1.
    """

    speller: Transducer
    language: Transducer
    errors: float = 0.01
    unlisted: float = 1e-9
    candidates: int = 10
    beam: int = 5

    def __post_init__(self) -> None:
        for name, value in (("errors", self.errors), ("unlisted", self.unlisted)):
            if not 0 < value < 1:
                raise UserError(f"{name} = {value}: a probability of more than 0 and less than 1 was expected")
        for name, count in (("candidates", self.candidates), ("beam", self.beam)):
            if count < 1:
                raise UserError(f"{name} = {count}: at least 1 was expected")
        for run, kind, recipe in (
            (self.speller, "noisy-channel", "spelling-channel"),
            (self.language, "ngram", "ptb-ngram"),
        ):
            own = run.settings["model"].get("type")
            if own != kind:
                raise UserError(
                    f"a run of model.type = {own!r}: for the correction of texts {kind!r} was expected here "
                    f"(`transduce train {recipe}`)"
                )

    def __call__(self, text: str) -> str:
        tokens = list(TOKEN.finditer(text))
        words = self._best([token.group() for token in tokens])
        parts, end = [], 0
        for token, word in zip(tokens, words, strict=True):
            old = token.group()
            parts += [text[end : token.start()], old if word == old.lower() else with_capitals(word, old)]
            end = token.end()
        return "".join([*parts, text[end:]])

    @torch.inference_mode()
    def _best(self, tokens: Sequence[str]) -> tuple[str, ...]:
        model = cast(Stepping, self.language.model)
        beam = [Hypothesis((), 0.0, model.start(Padded.of([[EOS]])))]
        for token in tokens:
            word = token.lower()
            options = [(word, math.log1p(-self.errors), self._share(word))]
            if LETTERS.fullmatch(token):
                options += [(y, math.log(self.errors) + c, p) for y, c, p in self._candidates(word) if y != word]
            beam = self._continued(beam, options)
        return max(beam, key=lambda hypothesis: hypothesis.score).words

    def _continued(self, beam: Sequence[Hypothesis], options: Sequence[Candidate]) -> list[Hypothesis]:
        """The best continuations of the beginnings by the options."""
        model = cast(Stepping, self.language.model)
        ids = [self._id(word) for word, _, _ in options]
        states = torch.cat([each.state for each in beam]).repeat_interleave(len(options))
        log_prob_N, after = model.step(states, torch.tensor(ids * len(beam)))
        log_probs, found = log_prob_N.tolist(), []
        for row, hypothesis in enumerate(beam):
            for place, (word, channel, share) in enumerate(options):
                at = row * len(options) + place
                own = log_probs[at] + (share if ids[place] == UNK else 0.0)
                found.append((hypothesis.score + channel + own, at, (*hypothesis.words, word)))
        best = sorted(found, key=lambda each: -each[0])[: self.beam]
        return [Hypothesis(words, score, after[at : at + 1]) for score, at, words in best]

    def _id(self, word: str) -> int:
        if word not in self._ids:
            row = [each for each in self.language.target_tokenizer.encode([f"a {word}"])[0] if each != EOS]
            self._ids[word] = int(row[1]) if len(row) == 2 else UNK
        return self._ids[word]

    def _share(self, word: str) -> float:
        return self.listed.get(word, math.log(self.unlisted))

    def retuned(self, errors: float, unlisted: float) -> Corrector:
        """The same runs with other probabilities. What is known about words is kept."""
        other = replace(self, errors=errors, unlisted=unlisted)
        vars(other).update(_ids=self._ids, _known=self._known, listed=self.listed)
        return other

    def _candidates(self, word: str) -> list[Candidate]:
        if word not in self._known:
            row = self.speller.source_tokenizer.encode([word])[0]
            ids, entries = torch.tensor([each for each in row if each != EOS]), self._entries
            model = cast(NoisyChannel, self.speller.model)
            words = [] if UNK in row else model.words_for(ids, self.candidates)
            self._known[word] = [("".join(entries[token] for token in y), c, p) for y, c, p in words]
        return self._known[word]

    @cached_property
    def _entries(self) -> Sequence[str]:
        """The letters of the speller's words, by their ids."""
        return [str(entry) for entry in self.speller.target_tokenizer.entries]

    @cached_property
    def listed(self) -> dict[str, float]:
        """The words of the speller's list, and the logarithm of the share of each."""
        model = cast(NoisyChannel, self.speller.model)
        entries = self._entries
        return {"".join(entries[token] for token in word): share for word, share in model.listed()}

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {}

    @cached_property
    def _known(self) -> dict[str, list[Candidate]]:
        return {}


def with_capitals(word: str, like: str) -> str:
    """``word`` in capitals if ``like`` has only capitals, with a first capital if ``like`` has one, or as it is."""
    if like.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if like[:1].isupper() else word
