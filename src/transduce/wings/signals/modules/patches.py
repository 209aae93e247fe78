"""An embedding of pictures by patches."""

from __future__ import annotations

from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Positions
from transduce.core.types import Factory, Padded
from transduce.layers.modules.positions import Learned
from transduce.wings.signals.modules.grid import Grid, GridPositions, boxes, check_height, picture, shortened


class PatchEmbedding(nn.Module):
    """An embedding of pictures by patches of ``patch`` (rows, columns) pixels. Each patch becomes a vector W x + b, row
    by row.

    This is the vision Transformer's embedding (Dosovitskiy et al. 2021, section 3.1), for a Transformer without
    ``positions`` of its own. Here ``positions`` encode a patch's row in one half of the features and its column in the
    other. Pictures may have any width; zeros fill the last patch of each row. ``height`` and ``channels`` (1 grey, 3
    colour) describe the pictures. Raises UserError if they do not fit the source, or if the rows of ``patch`` do not
    divide ``height``.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        scaled: bool,
        height: int,
        channels: int = 1,
        patch: tuple[int, int] = (4, 4),
        positions: Factory[Positions] = Learned,
    ) -> None:
        super().__init__()
        check_height(vocabulary, height, channels)
        if min(patch) < 1 or height % patch[0]:
            raise UserError(
                f"patch = {list(patch)}: a picture of height {height} does not divide into patches of {patch[0]} rows"
            )
        self.height, self.patch = height, patch
        self.project = nn.Conv2d(channels, width, patch, stride=patch)
        nn.init.normal_(self.project.weight, std=(channels * patch[0] * patch[1]) ** -0.5)
        nn.init.zeros_(self.project.bias)  # type: ignore[arg-type]
        self.positions = GridPositions(positions, width)

    def grid(self, source: Padded) -> Grid:
        x = picture(source, self.height, self.project.weight)
        whole_BCHW = nn.functional.pad(x.real(), (0, -x.values.shape[3] % self.patch[1]))
        placed: Grid = self.positions(Grid(self.project(whole_BCHW), shortened(x.widths, self.patch[1])))
        return placed

    def embed(self, source: Padded) -> Padded:
        return self.grid(source).flat()

    def boxes(self, source: Padded) -> Tensor:
        return boxes(self.patch, self.height, source.lengths)
