"""Sentence pairs with gold word alignments, from two public repositories or a local copy."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transduce.core.files import write_lines
from transduce.data.base import Split
from transduce.data.corpora import DataError, Files, Splits
from transduce.wings.recipes.origins import multi30k
from transduce.wings.recipes.origins.published import download, unpacked

AWESOME = "https://raw.githubusercontent.com/neulab/awesome-align/5f150d45bbe51e167daf0a84abebaeb07c3323d1/examples"
XL_WA = "https://raw.githubusercontent.com/SapienzaNLP/XL-WA/f5c9ea26daa4e53e5f3fa133a45e1bede1db816d/data"
SUMS = {
    "enfr.test.tsv": "8b2fb60621b478193ed9fceb5998023e066802d50766b2fe47aa4dca8ea239e7",
    "xlwa_en-es.test.tsv": "ed58830737e510299abc69df81fc922c4ae321a327f9eacd166f63bf995dba5e",
    "xlwa_en-es.train.tsv": "fa45c84995be20e4e892c2367c550d1cb00eb353ab4b60ef5ad559a4f7cd88bc",
    "xlwa_en-es.valid.tsv": "3002d91e64d9e51e757316270c57bfcb5466f0a168988f6b500232e24c94529f",
    "xlwa_en-et.test.tsv": "b276e932f0815a3aea6139446b67d5137237421cbdf5c82f8a13968e3ec9b446",
    "xlwa_en-et.train.tsv": "896e7be537cead3752ab21e8b2351fd9eb5cf6ccc79cddc2edda4101c45f5b5d",
    "xlwa_en-et.valid.tsv": "7e38e1a422d72156c8ab2e45303dcb04a42a1816055cd4f9e921df33d5567fea",
    "xlwa_en-it.test.tsv": "e253ae9a6e0b057883700903d912d7ddd0ff9445ff2394d5e6128fd75ca62f48",
    "xlwa_en-it.train.tsv": "6ca1d85e5e994aeed011c1a6d39bdd20b66b2a77e528418d000e31cd141612ad",
    "xlwa_en-it.valid.tsv": "11c390402648c2d3608d06f2b1fc4c749b0ce5b601e7749458202d19eb71e88d",
}
"""SHA-256 of each file as it is written here: source, target and links in three columns, words numbered from 0."""

CAPTION_TOKENS = re.compile(r"\w+'|\w+|[^\w\s]")
REMOTE = {"train": "train", "valid": "dev", "test": "test"}  # names of XL-WA's splits


@dataclass(frozen=True)
class WordAlignment:
    """English sentences with their translations and gold links, for word aligners that learn without links.

    ``pair`` en-fr has 447 sentences of the Canadian Hansards (Och and Ney 2000), with sure and possible links. The
    others are XL-WA (Martelli et al. 2023), with sure links. The files valid and test have the links in a third column,
    which is the gold of ``transduce align --gold``; en-fr has no valid. The file train has no links. It has the
    sentences of valid and test too, because a word aligner needs no links to learn from them. It also has the 29,000
    captions of ``Multi30k`` for en-fr, divided into words and punctuation marks, and the 1,002 further sentences of
    XL-WA for the others.

    ``folder`` holds a local copy that replaces the download: enfr.test.tsv, or xlwa_en-es.train.tsv.gz, .valid.tsv and
    .test.tsv, plain or gzipped, in three columns. ``captions`` is the folder of a local copy of Multi30k. The original
    files' own checksums are not known; the checksums of the converted text are checked. So a changed text
    or link is noticed; other white space in a download of en-fr is not.
    """

    pair: Literal["en-fr", "en-es", "en-it", "en-et"] = "en-fr"
    folder: str | None = None
    captions: str | None = None

    def prepare(self, folder: Path) -> Splits:
        paths = {split: folder / f"{split}.tsv" for split in self._gold}
        train = folder / "train.tsv"
        if not all(path.exists() for path in (train, *paths.values())):
            gold = {split: self._lines(split) for split in self._gold}
            for split, path in paths.items():
                write_lines(path, gold[split])
            unlinked = [line for lines in gold.values() for line in map(_without_links, lines)]
            write_lines(train, [*unlinked, *self._further()])
        valid = Files(path=str(paths["valid"])) if "valid" in paths else None
        return Splits(Files(path=str(train)), valid, Files(path=str(paths["test"])))

    @property
    def _gold(self) -> tuple[Split, ...]:
        return ("test",) if self.pair == "en-fr" else ("valid", "test")

    def _further(self) -> Iterable[str]:
        """Lines of pairs, source and target in two columns, to learn from beside the pairs of valid and test."""
        if self.pair != "en-fr":
            return map(_without_links, self._lines("train"))
        sides = [multi30k.published(f"train.{language}").lines(self.captions) for language in ("en", "fr")]
        return ("\t".join(map(_tokenised, pair)) for pair in zip(*sides, strict=True))

    def _lines(self, split: Split) -> list[str]:
        """The lines of a split's file with gold links, in three columns. Raises DataError if their checksum differs."""
        name = "enfr.test.tsv" if self.pair == "en-fr" else f"xlwa_{self.pair}.{split}.tsv"
        if self.folder is not None:
            lines, where = _copied(Path(self.folder).expanduser(), name)
        elif self.pair == "en-fr":
            lines, where = _hansards(), AWESOME
        else:
            where = f"{XL_WA}/{self.pair.removeprefix('en-')}/{REMOTE[split]}.tsv"
            lines = _text(download(where))
        found = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
        if found != SUMS[name]:
            raise DataError(f"{where} does not give {name}: its lines have SHA-256 {found}, not {SUMS[name]}")
        return lines


def _hansards() -> list[str]:
    """Downloads the Hansards sentences. Returns their lines in three columns, with links from 0. The original counts
    words from 1 and has links in any order.
    """
    pairs = _text(download(f"{AWESOME}/enfr.src-tgt"))
    gold = _text(download(f"{AWESOME}/enfr.gold"))
    if len(pairs) != len(gold):
        raise DataError(f"{AWESOME} has {len(pairs)} pairs and {len(gold)} lines of links: expected equally many")
    return [hansards_line(*each) for each in zip(pairs, gold, strict=True)]


def hansards_line(pair: str, links: str) -> str:
    """A line in three columns (source, target, links from 0), from "source ||| target" and links such as "2-2 1p1" that
    count from 1.

    Sure links ("-") come first; both kinds are sorted, and no link of a kind occurs twice.
    """
    source, _, target = pair.partition("|||")
    found = sorted((kind == "p", int(s) - 1, int(t) - 1) for s, kind, t in re.findall(r"(\d+)([-p])(\d+)", links))
    counted = " ".join(f"{s}{'p' if possible else '-'}{t}" for possible, s, t in dict.fromkeys(found))
    return "\t".join([" ".join(source.split()), " ".join(target.split()), counted])


def _copied(folder: Path, name: str) -> tuple[list[str], str]:
    for path in (folder / f"{name}.gz", folder / name):
        if path.exists():
            return _text(unpacked(path.read_bytes(), str(path))), str(path)
    raise DataError(f"{folder} has no {name}: give a folder with the files of word_alignment, or none to fetch them")


def _text(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").removesuffix("\n").split("\n")


def _without_links(line: str) -> str:
    return line.rpartition("\t")[0]


def _tokenised(caption: str) -> str:
    return " ".join(CAPTION_TOKENS.findall(caption))
