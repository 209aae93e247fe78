"""The contract of origins, which bring the files of a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

from transduce.data.corpora import Splits

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")


class Origin(Protocol):
    """Brings the files of a corpus, for example by a download, from an installed package, or by making them."""

    def prepare(self, folder: Path) -> Splits:
        """Returns the files of each split; a split that the origin does not have is None. Writes into ``folder`` what
        is not there yet.
        """
        ...
