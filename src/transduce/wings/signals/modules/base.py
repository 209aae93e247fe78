"""The contracts of embeddings of signals."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from transduce.core.protocols import Embedding
from transduce.core.types import Padded
from transduce.wings.signals.modules.grid import Grid


class Gridded(Embedding, Protocol):
    """An embedding of pictures whose vectors lie on a grid. ``grid`` returns the grid; ``embed`` returns its cells row
    by row.
    """

    def grid(self, source: Padded) -> Grid: ...


class Placed(Embedding, Protocol):
    """An embedding that tells which region of the signal each of its vectors stands for.

    ``boxes`` [B, S', 4] has left, top, right and bottom of the region around the centre of each of the S' vectors. They
    are fractions (0 to 1) of the source's own width and height. For sound, width is time and height is frequency. Boxes
    past a row's last vector are zeros.
    """

    def boxes(self, source: Padded) -> Tensor: ...
