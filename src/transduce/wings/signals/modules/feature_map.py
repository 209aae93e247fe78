"""An embedding of pictures by a residual network."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Positions
from transduce.core.types import Factory, Padded
from transduce.layers.modules.positions import NoPositions
from transduce.wings.signals.modules.grid import Grid, GridPositions, boxes, check_height, picture
from transduce.wings.signals.modules.grid_convolutions import GridConvolution, ResidualBlock, relu
from transduce.wings.signals.modules.norms import NORMS


class FeatureMapEmbedding(nn.Module):
    """An embedding of pictures by a residual network (He et al. 2016). Its feature map, row by row, gives one vector
    per cell.

    A caption's decoder attends to these cells (Xu et al. 2015, section 3.1.1). ``stages`` are the numbers of features
    of the stages, with ``blocks`` residual blocks each. Each stage but the first halves height and width, so with (32,
    64, 128) a cell covers 4 by 4 pixels. The first convolution has a stride of ``stem`` and 2 * stem + 1 pixels a side;
    the paper's has stride 2 and 7 pixels. A stem of 2 leaves the expensive first stage a quarter of the cells. Each
    final cell then covers twice as many pixels a side. The ``norm`` "cell" is a layer norm over the features of each
    cell. "picture" is an instance norm: each feature has one mean and one variance in the whole picture. Choose it for
    pictures with noise, and for stages of fewer than 16 features, where it is faster in bfloat16. It forgets how much
    of a feature a picture has. The paper uses batch norm. ``positions`` encode a cell's row and column. ``height`` and
    ``channels`` (1 grey, 3 colour) describe the picture. Sizes are rounded up. Raises UserError if height and channels
    do not fit the source.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        scaled: bool,
        height: int,
        channels: int = 1,
        stages: tuple[int, ...] = (32, 64, 128),
        blocks: int = 1,
        stem: int = 1,
        norm: Literal["cell", "picture"] = "cell",
        positions: Factory[Positions] = NoPositions,
    ) -> None:
        super().__init__()
        check_height(vocabulary, height, channels)
        if not stages or blocks < 1 or stem < 1:
            raise UserError(
                f"stages = {list(stages)}, blocks = {blocks}, stem = {stem}: at least one of each was expected"
            )
        self.height, self.cell = height, stem * 2 ** (len(stages) - 1)
        self.enter = GridConvolution(channels, stages[0], 2 * stem + 1, stem)
        shapes = [(stages[0], stages[0], 1), *((below, above, 2) for below, above in pairwise(stages))]
        self.blocks = nn.Sequential(*(block for shape in shapes for block in stage(*shape, blocks, NORMS[norm])))
        self.norm = NORMS[norm](stages[-1])
        self.out = GridConvolution(stages[-1], width, 1)
        self.positions = GridPositions(positions, width)

    def grid(self, source: Padded) -> Grid:
        x = self.enter(picture(source, self.height, self.enter.weight))
        placed: Grid = self.positions(self.out(relu(self.norm(self.blocks(x)))))
        return placed

    def embed(self, source: Padded) -> Padded:
        return self.grid(source).flat()

    def boxes(self, source: Padded) -> Tensor:
        return boxes((self.cell, self.cell), self.height, source.lengths, strided=True)


def stage(inputs: int, outputs: int, stride: int, blocks: int, norm: type[nn.Module]) -> list[ResidualBlock]:
    """The ``blocks`` new blocks of one stage. Only the first one changes the number of features (from ``inputs`` to
    ``outputs``) and the size (by ``stride``).
    """
    first = ResidualBlock(inputs, outputs, stride, norm)
    return [first, *(ResidualBlock(outputs, outputs, norm=norm) for _ in range(blocks - 1))]
