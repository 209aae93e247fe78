"""Sampled pieces: other cuts of the same words into pieces of the vocabulary."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import ClassVar, Literal

import tokenizers
from numpy.random import Generator

from transduce.core.config import Table
from transduce.core.errors import UserError
from transduce.core.types import EOS, UNK
from transduce.data.tokenizers.base import Tokenizer
from transduce.training.augmentation import check_share
from transduce.wings.robustness.base import TextPair

Cut = Callable[[str, Generator], list[int]]


@dataclass(frozen=True)
class SampledPieces:
    """Cuts the words of a ``share`` of the pairs into other pieces than usual, anew in each epoch. So a model knows a
    word by its parts.

    For ``bpe`` it is BPE-dropout (Provilkov et al. 2020): each merge of two pieces is left out with the probability
    ``rate``. For ``unigram`` it is subword regularisation (Kudo 2018): a cut is drawn in proportion to its probability
    to the power of 1 - ``rate``. So 0 draws by the model's probability, and 1 draws all cuts alike. ``side`` is the
    source, the target or both. Raises UserError if a number is not from 0 to 1, and for a vocabulary without pieces.
    """

    share: float = 1.0
    rate: float = 0.1
    side: Literal["source", "target", "both"] = "both"
    for_text: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_share("sampled-pieces.share", self.share)
        check_share("sampled-pieces.rate", self.rate)

    def __call__(self, pairs: Sequence[TextPair], chances: Sequence[Generator]) -> list[TextPair]:
        """The texts do not change, only their cuts (``encode``)."""
        return list(pairs)

    def cuts(self, side: str, tokenizer: Tokenizer) -> bool:
        """True if it cuts texts of this side. Raises UserError if the side's vocabulary has no pieces."""
        if self.side not in (side, "both"):
            return False
        if model(tokenizer).get("type") not in ("BPE", "Unigram"):
            raise UserError(
                f"training.augmentation: sampled-pieces cuts words into other pieces, and the {side} has no pieces: "
                f'leave it out, set its side, or set data.units.{side} to "bpe" or "unigram"'
            )
        return True

    def cutter(self, tokenizer: Tokenizer) -> Cut:
        """A function that cuts a text into ids, with EOS."""
        record = tokenizer.as_json()
        library = tokenizers.Tokenizer.from_str(json.dumps(record))
        model = record["model"]
        word = _merging(model, self.rate) if model["type"] == "BPE" else _lattice(model, 1 - self.rate)

        def cut(text: str, chance: Generator) -> list[int]:
            normal = library.normalizer.normalize_str(text) if library.normalizer else text
            words = library.pre_tokenizer.pre_tokenize_str(normal) if library.pre_tokenizer else [(normal, None)]
            draw = Random(int(chance.integers(2**32)))
            return [*(number for each, _ in words for number in word(each, draw)), EOS]

        return cut


def model(tokenizer: Tokenizer) -> Table:
    """The library's model in a tokenizer's record; empty for another tokenizer than one of plain text."""
    record = tokenizer.as_json()
    found = record.get("model") if isinstance(record, dict) else None
    return found if isinstance(found, dict) else {}


def _merging(model: Table, rate: float) -> Callable[[str, Random], list[int]]:
    """Cuts a word by byte-pair encoding, and leaves each merge out with the probability ``rate``. The merges of a word
    follow their rank, and a merge that was left out is drawn again once another one was made.
    """
    ids: dict[str, int] = model["vocab"]
    merges = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
    ranks = {merge: rank for rank, merge in enumerate(merges)}

    def cut(word: str, draw: Random) -> list[int]:
        parts = list(word)
        while True:
            found = [
                (ranks[pair], place)
                for place, pair in enumerate(itertools.pairwise(parts))
                if pair in ranks and draw.random() >= rate
            ]
            if not found:
                return [ids.get(part, UNK) for part in parts]
            _, place = min(found)
            parts[place : place + 2] = [parts[place] + parts[place + 1]]

    return cut


def _lattice(model: Table, power: float) -> Callable[[str, Random], list[int]]:
    """Draws a cut of a word in proportion to its probability to a ``power``: sums forward, draws backward. A word that
    is always one piece, whose score is 0, stays whole.
    """
    pieces = {piece: (number, score * power) for number, (piece, score) in enumerate(model["vocab"])}
    longest = max(map(len, pieces))
    whole = {piece: [number] for number, (piece, score) in enumerate(model["vocab"]) if score == 0}

    @lru_cache(100_000)
    def lattice(word: str) -> list[tuple[list[tuple[int, int]], list[float]]]:
        """For each end in the word: the begin and the id of each piece that ends there, and their probabilities."""
        found: list[tuple[list[tuple[int, int]], list[float]]] = [([], [])]
        sums = [0.0]
        for end in range(1, len(word) + 1):
            at = [
                ((begin, each[0]), sums[begin] + each[1])
                for begin in range(max(0, end - longest), end)
                if (each := pieces.get(word[begin:end])) is not None
            ] or [((end - 1, UNK), sums[end - 1])]
            highest = max(total for _, total in at)
            shares = [math.exp(total - highest) for _, total in at]
            sums.append(highest + math.log(sum(shares)))
            found.append(([piece for piece, _ in at], shares))
        return found

    def cut(word: str, draw: Random) -> list[int]:
        if word in whole:
            return whole[word]
        ids, end, ends = [], len(word), lattice(word)
        while end:
            ((end, number),) = draw.choices(*ends[end])
            ids.append(number)
        return ids[::-1]

    return cut
