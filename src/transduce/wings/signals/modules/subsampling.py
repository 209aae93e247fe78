"""An embedding of sound with a quarter of its frames."""

from __future__ import annotations

from torch import Tensor, nn

from transduce.core.types import Padded
from transduce.layers.modules.linear import projection
from transduce.wings.signals.modules.grid import boxes, picture
from transduce.wings.signals.modules.grid_convolutions import GridConvolution, relu


class SubsamplingEmbedding(nn.Module):
    """An embedding of sound that leaves a quarter of the frames: two 3 by 3 convolutions with stride 2 over time and
    frequency, each with a relu, then a linear layer over the remaining frequencies.

    It gives one vector for four frames (Dong et al. 2018, section 3.2; before the Conformer of Gulati et al. 2020).
    ``channels`` is the number of features of the convolutions. Zeros around the sound keep the last frames of any
    length: S frames become ceil(ceil(S / 2) / 2) vectors. Other implementations drop up to six frames.
    """

    def __init__(self, vocabulary: int, width: int, scaled: bool, channels: int = 64) -> None:
        super().__init__()
        self.first = GridConvolution(1, channels, stride=2)
        self.second = GridConvolution(channels, channels, stride=2)
        self.frequencies = vocabulary
        self.out = projection(channels * (-(-vocabulary // 4)), width)

    def embed(self, source: Padded) -> Padded:
        sound = picture(source, self.frequencies, self.first.weight)
        left = relu(self.second(relu(self.first(sound))))
        return Padded(self.out(left.values.flatten(1, 2).transpose(1, 2)), left.widths)

    def boxes(self, source: Padded) -> Tensor:
        return boxes((1, 4), 1, source.lengths, strided=True)
