"""A multi-layer perceptron that turns a whole signal into one vector. B rows, S steps, D numbers a step."""

from __future__ import annotations

from itertools import zip_longest

import torch
from torch import nn

from transduce.core.errors import UserError
from transduce.core.protocols import Mixer
from transduce.core.types import Factory, Memory, Padded
from transduce.layers.modules import module_list
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.linear import projection
from transduce.wings.signals.modules.grid import steps


class PerceptronEncoder(nn.Module):
    """A multi-layer perceptron over the concatenated numbers of at most ``steps`` steps, for example the pixels of a
    picture.

    There is one layer x <- mix(relu(W x + b)) for each of ``widths``, with dropout before mix; without a ``mixer``, mix
    does nothing. Shorter sources are padded with zeros at the end. Raises UserError for longer ones, and if ``steps``
    is less than 1 or ``widths`` is empty.

    The memory is one state [B, 1, width], the last layer's output, which is also the summary [B, width]. If ``mixer``
    is "attention", self-attention over this one position follows each layer. Its softmax has one entry and is always 1,
    so it is linear: the projection to the value, then the output projection. The lecture on attention and vision calls
    this the "MNIST transformer". Use ``patches`` to give attention several positions.
    """

    def __init__(
        self,
        source_vocabulary: int,
        steps: int,
        widths: tuple[int, ...] = (128, 64),
        mixer: Factory[Mixer] | None = None,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if steps < 1 or not widths:
            raise UserError(f"steps = {steps}, widths = {list(widths)}: at least one of each was expected")
        self.steps = steps
        self.width = widths[-1]
        self.summary_widths = (self.width,)
        inputs = (steps * source_vocabulary, *widths[:-1])
        self.layers = module_list(projection(below, above) for below, above in zip(inputs, widths, strict=True))
        self.mixers = module_list(mixer(width=width, heads=1, dropout=dropout) for width in widths if mixer)
        self.dropout = Dropout(dropout)

    def forward(self, source: Padded) -> Memory:
        longest = int(source.lengths.max())
        if longest > self.steps:
            raise UserError(
                f"a source of {longest} steps: this encoder reads at most model.encoder.steps = {self.steps}; make its "
                "pictures of one width, or train with more"
            )
        real_BSD = steps(source).masked_fill(~source.mask[..., None], 0.0)[:, : self.steps]
        whole_BSD = nn.functional.pad(real_BSD, (0, 0, 0, self.steps - real_BSD.shape[1]))
        x_B1D = whole_BSD.to(self.layers[0].weight.dtype).flatten(1)[:, None]
        one_B = torch.ones_like(source.lengths)
        for layer, mixer in zip_longest(self.layers, self.mixers):
            x_B1D = self.dropout(layer(x_B1D).relu())
            x_B1D = mixer(Padded(x_B1D, one_B)) if mixer else x_B1D
        return Memory(Padded(x_B1D, one_B), (x_B1D[:, 0],), source)
