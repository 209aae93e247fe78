"""An embedding of pictures of text lines, column by column."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.layers.modules import module_list
from transduce.layers.modules.linear import projection
from transduce.wings.signals.modules.grid import Grid, boxes, check_height, picture, shortened
from transduce.wings.signals.modules.grid_convolutions import GridConvolution, relu
from transduce.wings.signals.modules.norms import PictureNorm


class Stage(nn.Module):
    """One stage of ``ColumnEmbedding``: norm(relu(pool(conv(x)))), with maximum pooling over 2 rows and ``wide``
    columns. Sizes are rounded up.
    """

    def __init__(self, inputs: int, outputs: int, wide: int) -> None:
        super().__init__()
        self.convolution = GridConvolution(inputs, outputs)
        self.norm = PictureNorm(outputs)
        self.wide = wide

    def forward(self, x: Grid) -> Grid:
        # Zeros past a source's end may win a maximum of negative values, but then the rectifier makes both zero.
        pooled_BDHW = nn.functional.max_pool2d(self.convolution(x).real(), (2, self.wide), ceil_mode=True)
        pooled: Grid = self.norm(relu(Grid(pooled_BDHW, shortened(x.widths, self.wide))))
        return pooled


class ColumnEmbedding(nn.Module):
    """An embedding of pictures of text lines: a convolutional network that gives one vector for every ``shrink``
    columns.

    The width stays as time and the height disappears (CRNN: Shi et al. 2015, section 2.1). Use it before a recurrent
    encoder and CTC. ``stages`` are the numbers of features of the 3 by 3 convolutions. After each the height is halved;
    after the first ones the width is halved too, until ``shrink`` is reached. Halves are rounded up. A linear layer
    reads the remaining height. ``height`` and ``channels`` (1 grey, 3 colour) describe the picture. Raises UserError if
    they do not fit the source, or if there are too few stages for ``shrink``.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        scaled: bool,
        height: int,
        channels: int = 1,
        stages: tuple[int, ...] = (32, 64, 128),
        shrink: Literal[1, 2, 4] = 4,
    ) -> None:
        super().__init__()
        check_height(vocabulary, height, channels)
        if not stages or 2 ** len(stages) < shrink:
            raise UserError(
                f"stages = {list(stages)}, shrink = {shrink}: at least one stage was expected, and one for each time "
                "that the width is halved"
            )
        self.height, self.shrink = height, shrink
        widths = [2 if 2**number < shrink else 1 for number in range(len(stages))]
        self.stages = module_list(
            Stage(inputs, outputs, wide)
            for (inputs, outputs), wide in zip(pairwise((channels, *stages)), widths, strict=True)
        )
        self.out = projection(stages[-1] * (-(-height // 2 ** len(stages))), width)

    def embed(self, source: Padded) -> Padded:
        x = picture(source, self.height, self.out.weight)
        for stage in self.stages:
            x = stage(x)
        return Padded(self.out(x.values.flatten(1, 2).transpose(1, 2)), x.widths)

    def boxes(self, source: Padded) -> Tensor:
        return boxes((self.height, self.shrink), self.height, source.lengths)
