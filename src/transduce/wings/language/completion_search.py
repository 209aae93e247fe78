"""The most probable next words after a prefix. B prefixes, K hypotheses of each, N = B * K rows, V vocabulary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, S
from transduce.core.types import EOS, SPECIALS, UNK, Padded
from transduce.search.front import begin, repeated
from transduce.search.largest import largest
from transduce.search.next_tokens import advance

NEVER = float("-inf")


class Word(NamedTuple):
    """A word and its probability."""

    text: str
    probability: float


class WordTokens:
    """Tells which tokens begin, continue and end words, from the ``pieces`` of text that the token ids add.

    Words are separated by spaces. If no token continues a word, each token is a word (``whole``), and the unknown token
    is a word, too. Otherwise the unknown token is a part of an unknown word. The search never writes a piece with a
    space behind a letter.

    ``in_bytes`` is for tokens that are the bytes of UTF-8. Then the piece of a byte that is not ASCII is its surrogate
    escape, so that a piece is one character (``byte_pieces``). Bytes that are no valid text are never a word.
    """

    def __init__(self, pieces: Sequence[str], in_bytes: bool = False) -> None:
        self.in_bytes = in_bytes
        self.texts = [piece.lstrip() if token >= len(SPECIALS) else "" for token, piece in enumerate(pieces)]
        spaced = np.array([piece[:1].isspace() for piece in pieces])
        spaced[: len(SPECIALS)] = False
        spelled = np.array([text != "" for text in self.texts])
        written = spaced | spelled
        written &= np.array([not any(character.isspace() for character in text) for text in self.texts])
        self.whole = not bool((written & ~spaced).any())
        ends = spaced.copy()
        ends[EOS], ends[UNK] = True, self.whole
        self.spelled_V = torch.from_numpy(spelled)
        self.written_V = torch.from_numpy(written)
        self.ends_V = torch.from_numpy(ends)
        self._array = np.array(self.texts)
        self.fitting = lru_cache(1024)(self._fitting)

    def coded(self, letters: str) -> str:
        """The letters in the spelling of the pieces."""
        return letters.encode().decode("ascii", "surrogateescape") if self.in_bytes else letters

    def word(self, text: str) -> str | None:
        """The word that pieces spell. None if their bytes are no valid text, or if it has a space of several bytes."""
        if not self.in_bytes:
            return text
        try:
            word = text.encode(errors="surrogateescape").decode()
        except UnicodeDecodeError:
            return None
        return None if any(character.isspace() for character in word) else word

    def _fitting(self, letters: str) -> Tensor:
        """A mask [V] of the tokens that may come next if the text must continue with ``letters``. All tokens if it is
        empty.
        """
        begun = np.char.startswith(self._array, letters) | np.isin(
            self._array, [letters[:length] for length in range(len(letters))]
        )
        return torch.from_numpy(begun)


@dataclass(frozen=True)
class NextWords:
    """Finds the ``k`` most probable next words.

    The probability of a word w is p(w | prefix, the last word of the prefix has ended). It is a sum over the ways to
    cut w into tokens that the search finds. The terms are p(these tokens) p(a space or the end of the text | these
    tokens). If the first letters of the word are known, the probability is not divided by the probability of these
    letters.

    A model of words needs one step, and its probabilities are exact. Otherwise a beam of ``size`` unfinished words is
    expanded token by token. It stops when no unfinished word is as probable as the k-th finished one, or after
    ``max_length`` tokens. So a probability can be too small, because the beam has pruned some of the cuts, and never
    too large. Unknown words are left out. Equally probable words are in the order of their characters.
    """

    k: int = 5
    size: int = 32
    max_length: int = 40

    def __post_init__(self) -> None:
        for name, value in (("k", self.k), ("size", self.size), ("max_length", self.max_length)):
            if value < 1:
                raise UserError(f"{name} = {value}: at least 1 was expected")

    @torch.inference_mode()
    def __call__(
        self,
        model: Autoregressive[S],
        source: Padded,
        tokens: WordTokens,
        prefix: Padded | None = None,
        begun: Sequence[str] = (),
    ) -> list[list[Word]]:
        """For each prefix, the next words, best first. The prefixes [B, T] all have the same length T; None is 0.

        ``begun`` has the letters that each word begins with.
        """
        B = tree.rows(source)
        place = 0 if prefix is None else prefix.values.shape[1]
        front, _ = begin(model, source, prefix, (), place + self.max_length + 2)
        following, front = advance(model, (), front, [place], unknown=True)
        found = _Found(tokens, [{} for _ in range(B)], [tokens.coded(each) for each in begun or [""] * B], self.k)
        scores_NV, masks = following.log_probs_NV, _Masks(tokens, following.log_probs_NV.device)
        if place:  # the last word has ended
            scores_NV = scores_NV.masked_fill(~masks.ends_V, NEVER)
            scores_NV = scores_NV - scores_NV.logsumexp(1, keepdim=True)
        K = 1
        texts, total_BK = [""] * B, torch.zeros(B, 1, dtype=torch.float64, device=scores_NV.device)
        for length in range(self.max_length + 1):
            if length:
                self._finish(found, texts, total_BK, scores_NV, masks)
                if found.settled(total_BK):
                    break
            allowed_NV = masks.allowed(texts, [found.begun[n // K] for n in range(B * K)])
            scores_NV = scores_NV.masked_fill(~allowed_NV, NEVER)
            every_BKV = total_BK[:, :, None] + scores_NV.view(B, K, -1)
            V = every_BKV.shape[2]
            total_BK, chosen_BK = largest(every_BKV.flatten(1), max(self.size, self.k) if tokens.whole else self.size)
            origin_BK, token_BK = chosen_BK // V, chosen_BK % V
            rows_N = (torch.arange(B, device=chosen_BK.device)[:, None] * K + origin_BK).flatten()
            texts = [
                texts[row] + tokens.texts[token]
                for row, token in zip(rows_N.tolist(), token_BK.flatten().tolist(), strict=True)
            ]
            if tokens.whole:  # the word has ended with its only token
                found.add(texts, total_BK.flatten().tolist())
                break
            if K == 1:
                front, rows_N = repeated(front, chosen_BK.shape[1]), torch.arange(rows_N.numel(), device=rows_N.device)
            K = chosen_BK.shape[1]
            front = tree.reorder(front, rows_N).write(token_BK.flatten()[:, None], ())
            following, front = advance(model, (), front, [place + length + 1], unknown=True)
            scores_NV = following.log_probs_NV
        return found.best()

    @staticmethod
    def _finish(found: _Found, texts: list[str], total_BK: Tensor, scores_NV: Tensor, masks: _Masks) -> None:
        end_N = scores_NV.masked_fill(~masks.ends_V, NEVER).double().logsumexp(1)
        found.add(texts, (total_BK.flatten() + end_N).tolist())


class _Masks:
    """The masks of ``WordTokens`` on the device."""

    def __init__(self, tokens: WordTokens, device: torch.device) -> None:
        self.tokens, self.device = tokens, device
        self.ends_V = tokens.ends_V.to(device)
        self.first_V = tokens.written_V.to(device)
        self.inside_V = (tokens.written_V & ~tokens.ends_V).to(device)

    def allowed(self, texts: Sequence[str], begun: Sequence[str]) -> Tensor:
        """A mask [N, V] of the tokens that may follow each unfinished word."""
        allowed_NV = torch.stack([self.inside_V if text else self.first_V for text in texts])
        missing = [letters[len(text) :] for text, letters in zip(texts, begun, strict=True)]
        if any(missing):
            allowed_NV &= torch.stack([self.tokens.fitting(letters) for letters in missing]).to(self.device)
        return allowed_NV


@dataclass(frozen=True)
class _Found:
    """The finished words of each prefix with their probabilities."""

    tokens: WordTokens
    words: list[dict[str, float]]
    begun: list[str]
    k: int

    def add(self, texts: Sequence[str], log_probs: Sequence[float]) -> None:
        each = len(texts) // len(self.words)
        for row, (text, log_prob) in enumerate(zip(texts, log_probs, strict=True)):
            words, letters = self.words[row // each], self.begun[row // each]
            if not text.startswith(letters) or not text or log_prob == NEVER:
                continue
            if (word := self.tokens.word(text)) is not None:
                words[word] = words.get(word, 0.0) + math.exp(log_prob)

    def settled(self, total_BK: Tensor) -> bool:
        """True if no unfinished word can be among the ``k`` best of its prefix."""
        return all(
            open_ == NEVER or (len(words) >= self.k and sorted(words.values())[-self.k] > math.exp(open_))
            for words, open_ in zip(self.words, total_BK.amax(1).tolist(), strict=True)
        )

    def best(self) -> list[list[Word]]:
        ranked = (sorted(words.items(), key=lambda item: (-item[1], item[0])) for words in self.words)
        return [[Word(*item) for item in words[: self.k]] for words in ranked]


def byte_pieces() -> list[str]:
    """The pieces of all 256 bytes, in order, for ``WordTokens``: the ASCII character, or the surrogate escape."""
    return [bytes([byte]).decode("ascii", "surrogateescape") for byte in range(256)]
