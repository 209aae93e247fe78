"""What of some sources a model has met in training: how often their words, and which of them whole."""

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
    """Of the words asked for, how often each stands in the training sources; of the sources, which stand there."""

    words: Counter[str]
    seen: frozenset[str]


def frequencies(
    data: Data, cache: Path, sources: Collection[str], units: Callable[[str], Sequence[str]]
) -> Frequencies:
    """Read the training set through once, and count only what is asked: memory is that of ``sources``.

    Raises DataError where there is no training set any more: a run can be used without the data it comes from.
    """
    files = locate(data, cache).train
    if files is None:
        raise DataError("there is no training set to count words in: set data.train")
    asked, wanted = {word for source in sources for word in units(source)}, frozenset(sources)
    words: Counter[str] = Counter()
    seen = set()
    rows = usable(data.rows(files), Account(files, data.lines))
    for _, of_line in groupby(rows, key=lambda row: row.number):  # a line of several targets has one source
        source = next(of_line).source or ""
        words.update(word for word in units(source) if word in asked)
        if source in wanted:
            seen.add(source)
    return Frequencies(words, frozenset(seen))
