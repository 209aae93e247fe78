"""Pairs made of the sentences of a text: a sentence with noise and without, or a sentence and its neighbours."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transduce.core.files import name_from
from transduce.data.base import SPLITS, Split
from transduce.data.corpora import DataError, Splits, identity, text_lines
from transduce.data.origins import tsv_splits
from transduce.wings.recipes.origins.chance import Chance, chance_of, hashed_split
from transduce.wings.recipes.origins.spelling_errors import misspelling

BEFORE, SAME, AFTER = "«", "=", "»"
END = re.compile(r"([.!?][\"'’”)]*)\s+(?=[\"'‘“(]*[A-Z])")


@dataclass(frozen=True)
class Sentences:
    """Pairs of sentences from the lines of ``text``, plain or gzipped.

    ``target`` = "same": the source is a sentence with noise, and the target is the sentence without it (a denoising
    autoencoder, Hill et al. 2016). Each word is removed with probability ``remove``; one word at least stays.
    Then neighbouring words are swapped with probability ``swap``. A word is swapped once at most. At last, a word is
    misspelled with probability ``misspell`` (``misspelling``, English).
    ``target`` = "next": the target is the sentence after the source, without noise. ``target`` = "neighbours": a
    sentence has two pairs, one with the sentence before and one with the sentence after (skip-thought, Kiros et al.
    2015). The target begins with "«" or "»", which tells the decoder what it writes, and not the encoder.
    ``target`` = "all": these, and the sentence with noise and without, after "=". So one encoder learns for several
    tasks (as in Cer et al. 2018).

    A line is one sentence. With ``divide`` it is a paragraph, which is divided before a capital letter that follows
    ".", "!" or "?". Quotation marks and brackets may stand between them. The first sentence of a line follows the last
    one of the line before, unless an empty line stands between. Sentences of more than ``words`` words are left out.
    The hash of the source decides its split (``hashed_split``), so 90 % of the sources are for training. Raises
    DataError if ``remove``, ``swap`` or ``misspell`` is not from 0 to less than 1, or if ``words`` is below 1;
    ``prepare`` raises it for a missing file.
    """

    text: str
    target: Literal["same", "next", "neighbours", "all"] = "same"
    divide: bool = False
    remove: float = 0.1
    swap: float = 0.1
    misspell: float = 0.0
    words: int = 50
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("remove", "swap", "misspell"):
            if not 0 <= getattr(self, name) < 1:
                raise DataError(f"{name} = {getattr(self, name)}: a probability from 0 to less than 1 was expected")
        if self.words < 1:
            raise DataError(f"words = {self.words}: at least 1 was expected")

    def prepare(self, folder: Path) -> Splits:
        path = Path(self.text).expanduser()
        return tsv_splits(folder / name_from(identity(path)), lambda: self._splits(path))

    def _splits(self, path: Path) -> dict[Split, list[str]]:
        found: dict[Split, list[str]] = {split: [] for split in SPLITS}
        for sentence, source, target in self._pairs(path):
            found[hashed_split(sentence)].append(f"{source}\t{target}")
        for split, content in found.items():
            if not content:
                raise DataError(f"{path} has too few sentences: none is left for the {split} split; give more text")
        return found

    def _pairs(self, path: Path) -> Iterator[tuple[str, str, str]]:
        """Yields the sentence that decides the split, the source and the target of each pair."""
        marked = self.target in ("neighbours", "all")
        before = ""
        for number, sentence in enumerate(self._sentences(path)):
            if sentence and self.target in ("same", "all"):
                source = self._noisy(sentence, chance_of(self.seed, "noise", number))
                yield sentence, source, f"{SAME} {sentence}" if marked else sentence
            if before and sentence and self.target != "same":
                yield before, before, f"{AFTER} {sentence}" if marked else sentence
                if marked:
                    yield sentence, sentence, f"{BEFORE} {before}"
            before = sentence

    def _noisy(self, sentence: str, chance: Chance) -> str:
        words = noisy(sentence.split(), self.remove, self.swap, chance)
        if self.misspell:
            wrong = chance.random(len(words)) < self.misspell
            draw = random.Random(int(chance.integers(2**32)))
            words = [
                (misspelling(word, draw) or word) if each else word for word, each in zip(words, wrong, strict=True)
            ]
        return " ".join(words)

    def _sentences(self, path: Path) -> Iterator[str]:
        """Yields the sentences with single spaces; an empty one for an empty line, and for one that is left out."""
        for text in text_lines(path):
            line = " ".join(text.split())
            for sentence in END.sub(r"\1\n", line).split("\n") if self.divide else [line]:
                yield sentence if len(sentence.split()) <= self.words else ""


def noisy(words: Sequence[str], remove: float, swap: float, chance: Chance) -> list[str]:
    """The words after noise, as ``Sentences`` describes it."""
    stays = chance.random(len(words)) >= remove
    stays[int(chance.integers(len(words)))] = True
    left = [word for word, stay in zip(words, stays, strict=True) if stay]
    place = 0
    for swapped in chance.random(max(0, len(left) - 1)) < swap:
        if swapped and place + 1 < len(left):
            left[place], left[place + 1] = left[place + 1], left[place]
            place += 1
        place += 1
    return left
