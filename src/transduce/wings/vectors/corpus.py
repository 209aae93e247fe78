"""A corpus of text for training word vectors: its words, line by line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.core.errors import UserError
from transduce.data import corpora

WORD = re.compile(r"\w+(?:['’]\w+)*")
UNKNOWN = "<unk>"  # replaces rare words in published corpora, such as the Penn Treebank
LONGEST = 1000  # words; gensim ignores what follows the 10,000th word of a line


@dataclass(frozen=True)
class Corpus:
    """The lines of text ``files``, as lists of words. It can be read several times; a .gz file is decompressed.

    A word is a run of letters, digits and underscores, with apostrophes inside it. Punctuation is left out. If
    ``whole`` is True, white space separates words instead, for text that is already tokenised. "<unk>" is never a word.
    If ``lowercase`` is True, words become lower case. A line of more than 1,000 words is divided.
    """

    files: Sequence[Path]
    lowercase: bool = True
    whole: bool = False

    def __iter__(self) -> Iterator[list[str]]:
        for path in self.files:
            for line in corpora.text_lines(path):
                words = split(line.lower() if self.lowercase else line, self.whole)
                for start in range(0, len(words), LONGEST):
                    yield words[start : start + LONGEST]

    def counts(self) -> Counter[str]:
        """The number of occurrences of each word. Raises UserError if the files have no words."""
        found: Counter[str] = Counter()
        for words in self:
            found.update(words)
        if not found:
            raise UserError(f"{', '.join(map(str, self.files))}: the corpus is empty; give files with text")
        return found


def counted(lines: Iterable[str]) -> Counter[str]:
    """The number of occurrences of each word in the lines. ``split`` finds the words, which keep their case."""
    return Counter(word for line in lines for word in split(line))


def split(line: str, whole: bool = False) -> list[str]:
    """The words of a line, as ``Corpus`` describes them."""
    line = line.replace(UNKNOWN, " ")
    return line.split() if whole else WORD.findall(line)
