"""How often words occur in the training sources, and which sources occur there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from transduce.data.cleaning import Account, usable
from transduce.data.corpora import DataError
from transduce.data.preparation import locate
from transduce.data.settings import Data


@dataclass(frozen=True)
class Frequencies:
    """How often words occur in the training sources. ``words`` counts each requested word (0 if it does not occur).
    ``seen`` has the requested sources that are, as a whole, a source of the training set.
    """

    words: Counter[str]
    seen: frozenset[str]


def frequencies(
    data: Data, cache: Path, sources: Collection[str], units: Callable[[str], Sequence[str]]
) -> Frequencies:
    """Counts the words of ``sources`` in the training sources, and finds which of ``sources`` occur there.

    ``units`` divides a source into words. A line with several targets counts once. Lines that the policies leave out as
    empty, undecodable or malformed do not count; overlong ones do. The training set is read once, and memory grows only
    with ``sources``. ``cache`` is where the data's origin keeps its files. Raises DataError if the settings name no
    training set.
    """
    files = locate(data, cache).train
    if files is None:
        raise DataError("there is no training set to count words in: set data.train")
    asked, wanted = {word for source in sources for word in units(source)}, frozenset(sources)
    words: Counter[str] = Counter()
    seen = set()
    rows = usable(data.rows(files), Account(files, data.lines))
    for _, of_line in groupby(rows, key=lambda row: row.line):  # a line with several targets counts once
        source = next(of_line).source or ""
        words.update(word for word in units(source) if word in asked)
        if source in wanted:
            seen.add(source)
    return Frequencies(words, frozenset(seen))
