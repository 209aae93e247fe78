"""Pictures as maps of features."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from transduce.errors import UserError
from transduce.modules.positions import NoPositions, Positions
from transduce.modules.signals.grid import Grid, GridPositions, boxes, check_height, picture
from transduce.modules.signals.layers import ChannelNorm, GridConvolution, ResidualBlock, relu
from transduce.types import Factory, Padded


class FeatureMapEmbedding(nn.Module):
    """A residual network over a picture (He et al. 2016), and its map of features row by row, one vector a cell: what a
    caption attends to (Xu et al. 2015, section 3.1.1).

    ``stages`` are the features of its stages, of ``blocks`` residual blocks each; every stage but the first halves
    height and width, so that with (32, 64, 128) a cell stands for 4 by 4 pixels. What enters is a convolution in steps
    of ``stem`` pixels and of 2 * stem + 1 pixels a side: with 2 the first stage, the dear one, has a quarter of the
    cells, and a cell in the end twice as many pixels a side (theirs: steps of 2, 7 a side). Layer norm over the
    features of each cell, where the paper has batch norm. ``positions`` tell cells their row and column; ``height``
    and ``channels`` (1 grey, 3 colour) are the picture's.
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
        self.blocks = nn.Sequential(*(block for shape in shapes for block in stage(*shape, blocks)))
        self.norm = ChannelNorm(stages[-1])
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


def stage(inputs: int, outputs: int, stride: int, blocks: int) -> list[ResidualBlock]:
    """So many blocks, the first of which changes features and size."""
    return [ResidualBlock(inputs, outputs, stride), *(ResidualBlock(outputs, outputs) for _ in range(blocks - 1))]
