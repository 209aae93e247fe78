"""Text without its accents, and the text: "un ete a Besancon" -> "un été à Besançon"."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transduce.data.base import SPLITS, Split
from transduce.data.corpora import Splits
from transduce.data.origins import tsv_splits
from transduce.wings.recipes.origins.multi30k import published


@dataclass(frozen=True)
class Accents:
    """The captions of Multi30k in one language. The source is the caption without accents, the target is the caption.

    Both have equally many characters: letters are composed (Unicode NFC). Captions without accents stay. The splits,
    the download and ``folder`` are as for the origin "multi30k".
    """

    language: Literal["fr", "de", "en"] = "fr"
    folder: str | None = None

    def prepare(self, folder: Path) -> Splits:
        return tsv_splits(folder / self.language, lambda: {split: list(self._lines(split)) for split in SPLITS})

    def _lines(self, split: Split) -> Iterator[str]:
        name = "test_2016_flickr" if split == "test" else split
        for line in published(f"{name}.{self.language}").lines(self.folder):
            text = unicodedata.normalize("NFC", line)
            yield f"{without_accents(text)}\t{text}"


def without_accents(text: str) -> str:
    """The text (NFC) in which each letter with combining marks is replaced by its first letter: é -> e, ç -> c.

    The result has as many characters as ``text``. Letters that Unicode does not decompose, such as œ and ø, stay.
    """
    return "".join(unicodedata.normalize("NFD", character)[0] for character in text)
