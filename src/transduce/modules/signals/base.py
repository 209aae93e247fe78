"""The contracts of embeddings of signals."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from transduce.modules.signals.grid import Grid
from transduce.protocols import Embedding
from transduce.types import Padded


class Gridded(Embedding, Protocol):
    """An embedding whose vectors lie on a grid. ``embed`` returns its cells row by row."""

    def grid(self, source: Padded) -> Grid: ...


class Placed(Embedding, Protocol):
    """An embedding whose vectors have a place in the signal.

    ``boxes`` [B, S', 4] are left, top, right and bottom of the region around each vector's centre. They are fractions
    (0 to 1) of the source's own width and height. For sound, width is time and height is frequency.
    """

    def boxes(self, source: Padded) -> Tensor: ...
