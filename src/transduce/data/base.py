"""The contracts of origins, which bring the files of a corpus, and of feeds, which divide a split into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Protocol

from transduce.core.types import Batch
from transduce.data.batching import Place
from transduce.data.corpora import Splits
from transduce.data.rows import CorpusRow

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")


class Origin(Protocol):
    """Brings the files of a corpus, for example by a download, from an installed package, or by making them."""

    def prepare(self, folder: Path) -> Splits:
        """Returns the files of each split; a split that the origin does not have is None. Writes into ``folder`` what
        is not there yet.
        """
        ...


Removed = Mapping[str, tuple[str, str]]
"""The key of each row that a filter leaves out, with the kind of problem and a description, which may be empty."""


class PairFilter(Protocol):
    """Decides which pairs of the training set to leave out. Its ``repr`` shows all that the decision depends on."""

    def removed(self, rows: Callable[[], Iterator[CorpusRow]]) -> Removed:
        """The rows to leave out. ``rows`` reads all usable rows of the training set, each time that it is called."""
        ...


class Feed(Protocol):
    """Divides the training set into batches: about ``per_epoch`` in each epoch.

    ``iterate`` yields the batches from ``place`` on, without end, each with the place after it. Equal places give equal
    batches.
    """

    @property
    def per_epoch(self) -> int: ...

    def iterate(self, place: Place) -> Iterator[tuple[Batch, Place]]: ...
