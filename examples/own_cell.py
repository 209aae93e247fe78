"""A cell of one's own: the minimal gated unit (Zhou et al. 2016), which transduce does not have.

    python examples/own_cell.py
    transduce train reverse --plugin examples/own_cell.py --set model.encoder.cell=mgu --set model.decoder.cell=mgu

All encoders, decoders, wirings and searches can use it, because it fulfils the protocol ``Cell``
(src/transduce/core/protocols/parts.py). B rows, G projected inputs, H width.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import Tensor

import transduce
from transduce.layers.modules.cells.looped import HiddenCell, recurrence


class MGU(HiddenCell):
    """f = sigmoid(W x + U h + b); n = tanh(W x + U (f h) + b); h' = (1 - f) h + f n."""

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width, parts=2)  # W x + b for f and for n, for all positions in one product
        self.gate, self.new = recurrence(width), recurrence(width)

    def advance(self, projected_BG: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        projected_f, projected_n = projected_BG.chunk(2, 1)
        f = torch.sigmoid(projected_f + self.gate(h))  # [B, H]
        n = torch.tanh(projected_n + self.new(f * h))
        h = h + f * (n - h)
        return h, h  # the output and the next state


transduce.register("Cell", "mgu", MGU)  # now a configuration can say cell = "mgu"


def main() -> float:
    """Trains the recipe ``reverse`` with the new cell. Returns the percentage of strings that it reverses rightly."""
    settings = {"model.encoder.cell": "mgu", "model.decoder.cell": "mgu", "training.steps": 250}
    with tempfile.TemporaryDirectory() as folder:
        model = transduce.train("reverse", Path(folder) / "run", settings, device="cpu", progress=False)
    words = ["transduce", "sequence", "attention", "hypothesis", "cell"]
    outputs = model(words)
    for word, output in zip(words, outputs, strict=True):
        print(f"{word} -> {output}")
    return 100 * sum(output == word[::-1] for word, output in zip(words, outputs, strict=True)) / len(words)


if __name__ == "__main__":
    main()
