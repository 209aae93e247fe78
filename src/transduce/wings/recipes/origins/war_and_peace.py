"""The text of "War and Peace" for language models of characters, from a public repository or a local copy."""

from __future__ import annotations

import codecs
import hashlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from transduce.core.files import write_text
from transduce.data.base import SPLITS
from transduce.data.corpora import DataError, Files, Splits
from transduce.wings.recipes.origins.published import download, unpacked

NAME = "warpeace_input.txt"
URL = (
    "https://raw.githubusercontent.com/ZihanDai2005/PSTAT_160B_Final_Project/"
    f"d4c76b9190c3f9a187a4e961665c7fd8af2cadcc/data/{NAME}"
)
SUM = "de0e45ec3647f14a69a03890a7a7d1ec412a94c7748008ad29fb91f3f16a9826"
"""SHA-256 of the text without byte order marks and carriage returns."""
ENDS = (0.8, 0.9)  # shares of the characters before the ends of the training and the validation text


@dataclass(frozen=True)
class WarAndPeace:
    """Tolstoy's "War and Peace" in the translation by Louise and Aylmer Maude (Project Gutenberg, public domain): the
    file of Karpathy et al. 2016, with 3.2 million characters.

    The first 80 % of the characters are for training, the next 10 % for validation, the last 10 % are the test. Each
    split ends with a whole line. Lines keep their white space, and many are empty. ``folder`` holds a local copy that
    replaces the download: warpeace_input.txt, or the splits train.txt, valid.txt and test.txt, plain or gzipped.
    """

    folder: str | None = None

    def prepare(self, folder: Path) -> Splits:
        paths = [folder / f"{split}.txt" for split in SPLITS]
        if not all(path.exists() for path in paths):
            for path, text in zip(paths, divided(self._text()), strict=True):
                write_text(path, text)
        return Splits(*(Files(path=str(path)) for path in paths))

    def _text(self) -> str:
        """The whole text, checked. Raises DataError if it cannot be found or fetched, or if its checksum differs."""
        data, where = (download(URL), URL) if self.folder is None else _copy(Path(self.folder).expanduser())
        data = data.replace(codecs.BOM_UTF8, b"").replace(b"\r", b"")
        found = hashlib.sha256(data).hexdigest()
        if found != SUM:
            raise DataError(f"{where} is not the file {NAME}: its text has SHA-256 {found}, not {SUM}")
        return data.decode()


def divided(text: str) -> list[str]:
    """The texts for training, validation and the test. Each but the last ends with the line that passes its share."""
    bounds = [0, *(text.index("\n", round(share * len(text))) + 1 for share in ENDS), len(text)]
    return [text[first:last] for first, last in pairwise(bounds)]


def _copy(folder: Path) -> tuple[bytes, str]:
    """The bytes of a local copy, and its name for messages."""
    for names in ((NAME,), tuple(f"{split}.txt" for split in SPLITS)):
        found = [_first(folder / f"{name}.gz", folder / name) for name in names]
        if all(path.exists() for path in found):
            return b"".join(unpacked(path.read_bytes(), str(path)) for path in found), str(folder)
    raise DataError(f"{folder} has no {NAME}, and not train.txt, valid.txt and test.txt: give a folder with the text")


def _first(*paths: Path) -> Path:
    """The first of the paths that exists, otherwise the last."""
    return next((path for path in paths if path.exists()), paths[-1])
