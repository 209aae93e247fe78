"""Pronouncing dictionaries in the form of CMUdict (.dict): a word, white space, its pronunciation.

A number in parentheses after a word marks a further pronunciation of it: "read(2)". Lines that begin with ";;;" or "# "
are comments, and so is what follows " #" in a line. In lines with tabs, each column after the word is a pronunciation,
and may contain "#".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from transduce.data.notices import VARIANT

MARK = re.compile(VARIANT.pattern.encode())


def entries(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes, list[bytes]]]:
    """Yields (number of the line from 1, word, pronunciations) for each line that is no comment and not empty. The
    symbols of a pronunciation have one space between them. A line without a pronunciation has an empty list.
    """
    for number, line in enumerate(lines, 1):
        if line.startswith((b";;;", b"# ")):
            continue
        if b"\t" in line:
            word, *given = line.split(b"\t")
        else:
            word, *given = line.partition(b" #")[0].split(None, 1) or [b""]
        if word.strip() or given:
            yield number, MARK.sub(b"", word.strip()), [b" ".join(each.split()) for each in given if each.strip()]
