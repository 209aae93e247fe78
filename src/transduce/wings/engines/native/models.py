"""What the package's own models have as parts, if our library computes them.

The models themselves are those that take ready parts, such as ``AssembledEncoderDecoder``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from transduce.core import tree
from transduce.core.types import Memory, Padded
from transduce.layers.modules.pooling import pool
from transduce.layers.modules.positions import Sinusoidal
from transduce.models.autoregressive import AssembledEncoderDecoder
from transduce.models.mixtures import Fusion
from transduce.wings.ctc.prefixes import Prefixes
from transduce.wings.engines.native.parts import Encoded, Parts, whole


def no_source(source: Any) -> Memory:
    """The empty memory that a language model's decoder starts from, for each row of the source."""
    rows = tree.rows(source)
    states = Padded(torch.empty(rows, 0, 0), torch.zeros(rows, dtype=torch.long))
    return Memory(states, (torch.empty(rows, 0),), source)


class NativeFrames(nn.Module):
    """The readout of CTC, and a decoder by the sums over alignments of each prefix, which PyTorch computes
    (``decoders.ctc``). "frames.split" makes ``stretch`` vectors of each state. The bias of "frames" bars BOS and EOS.
    """

    def __init__(self, parts: Parts, notes: Mapping[str, Any], encoded: Encoded) -> None:
        super().__init__()
        self.stretch, width = whole(notes, "stretch", 1), encoded.width
        self.split = parts.matrix("frames.split", self.stretch * width, width) if self.stretch > 1 else None
        self.matrix = parts.readout("frames", None, width)

    def frames(self, memory: Memory) -> Padded:
        states = memory.states
        if self.split is not None:
            split_BSD = self.split.of_real(states)
            B, S, D = states.values.shape
            states = Padded(split_BSD.view(B, S * self.stretch, D), states.lengths * self.stretch)
        return Padded(self.matrix.of_real(states).log_softmax(-1), states.lengths)

    def start(self, memory: Memory) -> Prefixes:
        return Prefixes.start(self.frames(memory))

    def extend(self, tokens_NT: Tensor, state: Prefixes) -> tuple[Tensor, Prefixes]:
        return state.extend(tokens_NT)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone() if candidates is None else output.index_select(-1, candidates)


def joint(decoder: Any, frames: NativeFrames, weight: float) -> Fusion:
    """The mixture of a decoder and of frames over one memory, in which the frames have this weight."""
    of_memory = AssembledEncoderDecoder(lambda memory: memory, decoder)  # a mixture has modules
    return Fusion([of_memory, frames], [1 - weight, weight], renormalise=False)


class NativeLengths:
    """``models.instant.LengthClassifier``: the length of a source counts as a vector of ``width`` numbers."""

    def __init__(self, parts: Parts, width: int, encoded: Encoded) -> None:
        self.positions, self.matrix = Sinusoidal(width), parts.matrix("length", None, encoded.summary + width)

    def __call__(self, memory: Memory) -> Tensor:
        size_BD = self.positions(memory.states.lengths)
        return self.matrix(torch.cat([*tree.leaves(memory.summary), size_BD], -1)).log_softmax(-1)


def last_state(parts: Parts, memory: Memory) -> Tensor:
    return torch.cat(tree.leaves(memory.summary), -1)


def mean(parts: Parts, memory: Memory) -> Tensor:
    return parts.mean(Padded(memory.read_BSD.contiguous(), memory.states.lengths))


def largest(parts: Parts, memory: Memory) -> Tensor:
    return pool(Padded(memory.read_BSD, memory.states.lengths), "max")


POOLERS: dict[str, Callable[[Parts, Memory], Tensor]] = {"last": last_state, "max": largest, "mean": mean}
"""The poolers of ``modules.pooling`` that have no parameters, by their names in a configuration."""
