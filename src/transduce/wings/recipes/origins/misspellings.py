"""Misspellings of English words, made by an error model or collected from people."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from transduce.core.files import name_from
from transduce.data.base import SPLITS, Split
from transduce.data.corpora import DataError, Files, Splits
from transduce.data.origins import package, tsv_splits
from transduce.data.rows import read
from transduce.wings.recipes.origins.chance import hashed_split
from transduce.wings.recipes.origins.spelling_errors import misspelling

Pair = tuple[str, str]


@dataclass(frozen=True)
class Misspellings:
    """Misspellings and their words. The model of ``recipes.origins.spelling_errors`` draws ``each`` misspellings per
    word.

    Equal misspellings of a word count once, and a misspelling that is empty or itself one of the words is dropped. The
    words are the ``words`` most frequent ones in the data file of the PyPI package ``pyspellchecker``, or the first
    ones of the file ``lexicon`` with one word per line. None of the package's code is run. A hash of the misspelling
    decides the split: 90 % train, 5 % valid, 5 % test. So nearly all words are targets in training, also the words of
    valid and test. ``collected`` is a .tsv file of real misspellings and their words. These pairs go into the training
    set, and their misspellings are in no other split. The same ``seed`` gives the same misspellings.
    """

    words: int = 30_000
    each: int = 10
    lexicon: str | None = None
    collected: str | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        if self.words < 1 or self.each < 1:
            raise DataError(f"words = {self.words}, each = {self.each}: at least one word and one misspelling of it")

    def prepare(self, folder: Path) -> Splits:
        words, collected = self._words(), self._collected()
        return tsv_splits(folder / name_from((words, collected)), lambda: self._lines(words, collected))

    def _lines(self, words: list[str], collected: list[Pair]) -> dict[Split, list[str]]:
        lines: dict[Split, list[str]] = {split: [] for split in SPLITS}
        lines["train"] += [f"{wrong}\t{word}" for wrong, word in collected]
        kept_for_training = {wrong for wrong, _ in collected}
        for wrong, word in self._made(words):
            split = "train" if wrong in kept_for_training else hashed_split(wrong)
            lines[split].append(f"{wrong}\t{word}")
        return lines

    def _made(self, words: list[str]) -> Iterator[Pair]:
        known = set(words)
        for word in words:
            # Seeded by the word and a number, so that a word's misspellings are the same in any list.
            drawn = (misspelling(word, random.Random(f"{self.seed} {word} {number}")) for number in range(self.each))
            yield from ((wrong, word) for wrong in dict.fromkeys(drawn) if wrong.strip() and wrong not in known)

    def _words(self) -> list[str]:
        if self.lexicon is None:
            return frequent()[: self.words]
        words = [row.source for row in read(Files(source=self.lexicon)) if row.source and row.source.strip()]
        if not words:
            raise DataError(f"{self.lexicon} has no words: expected a word a line")
        return list(dict.fromkeys(words))[: self.words]

    def _collected(self) -> list[Pair]:
        if self.collected is None:
            return []
        return [(row.source or "", row.target or "") for row in read(Files(path=self.collected)) if row.problem is None]


def frequent() -> list[str]:
    """The words of ``english_counts``, the most frequent first. Words of equal frequency are in Unicode order."""
    counts = english_counts()
    return sorted(counts, key=lambda word: (-counts[word], word))


def english_counts() -> dict[str, int]:
    """The English words of the installed package ``pyspellchecker`` and how often each occurs. Raises DataError if the
    package is not installed.
    """
    path = Path(str(package("pyspellchecker").locate_file("spellchecker/resources/en.json.gz")))
    counts: dict[str, int] = json.loads(gzip.decompress(path.read_bytes()))
    return counts
