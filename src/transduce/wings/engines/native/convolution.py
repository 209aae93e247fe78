"""The encoder and the decoder of ConvS2S that our library computes.

B sources, N rows, T tokens, S source positions, E width of embeddings and of the memory, D width of the layers, P the
last inputs of a kernel, L layers of the decoder, V vocabulary. kernels/convolution.h describes the functions and the
memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import POINTER, Structure, byref, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transduce.compute.library import declare
from transduce.core.tree import Shared
from transduce.core.types import Memory, Padded
from transduce.wings.engines.native.parts import (
    NOTHING,
    Embedding,
    Encoded,
    MisfitError,
    Parts,
    check,
    read_tokens,
    whole,
)

MATRICES = ("convolution", "query", "out")


class Layer(Structure):
    _fields_ = tuple((name, c_void_p) for name in MATRICES)


class Stack(Structure):
    _fields_ = (
        ("width", c_int32),
        ("kernel", c_int32),
        ("count", c_int32),
        ("embedding", Embedding),
        ("widen", c_void_p),
        ("narrow", c_void_p),
        ("layers", POINTER(Layer)),
    )


class Step(Structure):
    _fields_ = (
        ("rows", c_int64),
        ("sources", c_int64),
        ("longest", c_int64),
        ("tokens", c_void_p),
        ("place", c_void_p),
        ("lengths", c_void_p),
        ("keys", c_void_p),
        ("values", c_void_p),
        ("past", c_void_p),
        ("next", c_void_p),
        ("outputs", c_void_p),
    )


SIGNATURES: dict[str, list[Any]] = {
    "convolution_encode": [POINTER(Stack), c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p],
    "convolution_step": [POINTER(Stack), POINTER(Step)],
}
STRUCTURES = {"Embedding": Embedding, "ConvolutionLayer": Layer, "ConvolutionStack": Stack, "ConvolutionStep": Step}


def stack(parts: Parts, side: str, notes: Mapping[str, Any], reads: bool) -> Stack:
    """The structure of an encoder or a decoder, whose tensors begin with ``side``. ``notes`` describes it. If it
    ``reads`` a memory, its layers attend to it.
    """
    declare(parts.functions, SIGNATURES, structures=STRUCTURES)
    embedding = parts.embedding(notes)
    E, D, kernel = embedding.width, whole(notes, "width", 1), whole(notes, "kernel", 1)

    def layer(name: str) -> Layer:
        query, out = (parts.handle(f"{name}.query", E, D), parts.handle(f"{name}.out", D, E)) if reads else (None, None)
        return Layer(parts.handle(f"{name}.convolution", 2 * D, kernel * D), query, out)

    layers = [layer(f"{side}.{number}") for number in range(whole(notes, "layers", 1))]
    widen, narrow = parts.handle(f"{side}.widen", D, E), parts.handle(f"{side}.narrow", E, D)
    return Stack(D, kernel, len(layers), embedding, widen, narrow, parts.array(Layer, layers))


class NativeConvolutionEncoder:
    """An encoder that reads ids. Returns the memory that ``ConvS2SEncoder`` describes."""

    def __init__(self, parts: Parts, notes: Mapping[str, Any]) -> None:
        self.parts = parts
        self.table = stack(parts, "encoder", notes, reads=False)
        self.width = self.table.embedding.width
        self.encoded = Encoded(self.width, self.width, self.table.embedding.vocabulary)

    def __call__(self, source: Padded) -> Memory:
        ids_BS, lengths_B = source.values.contiguous(), source.lengths.contiguous()
        B, S = ids_BS.shape
        states_BSE, values_BSE = torch.empty(2, B, S, self.width).unbind()
        pointers = ids_BS.data_ptr(), lengths_B.data_ptr(), B, S, states_BSE.data_ptr(), values_BSE.data_ptr()
        found = self.parts.functions.transduce_convolution_encode(byref(self.table), *pointers)
        check(found, self.table.embedding, S)
        summary = (self.parts.mean(Padded(values_BSE, lengths_B)),)
        return Memory(Padded(states_BSE, lengths_B), summary, source, values_BSE)


@dataclass(frozen=True)
class NativeKeys:
    """The keys and the values of a source of ``lengths_B`` tokens, which its hypotheses share."""

    keys_BSE: Tensor
    values_BSE: Tensor
    lengths_B: Tensor


@dataclass(frozen=True)
class NativeConvolutionState:
    """The state of a search. ``place_N`` is the number of tokens that each row has read, and ``past_NLPD`` has the last
    inputs of each layer's kernel.
    """

    place_N: Tensor
    past_NLPD: Tensor
    source: Shared[NativeKeys]


class NativeConvolutionDecoder:
    """A decoder over the memory of any encoder. The matrix "readout" maps features [E] to logits."""

    def __init__(self, parts: Parts, notes: Mapping[str, Any], encoded: Encoded) -> None:
        self.parts = parts
        self.table = stack(parts, "decoder", notes, reads=encoded != NOTHING)
        embedding = self.table.embedding
        if encoded.width not in (0, embedding.width):
            raise MisfitError(f"the encoder's states have {encoded.width} numbers: {embedding.width} were expected")
        self.matrix = parts.readout("readout", embedding.vocabulary, embedding.width)

    def start(self, memory: Memory) -> NativeConvolutionState:
        lengths_B = memory.states.lengths.contiguous()
        values_BSE = memory.read_BSD.float() * lengths_B[:, None, None].sqrt()
        source = NativeKeys(memory.states.values.float().contiguous(), values_BSE, lengths_B)
        sizes = self.table.count, self.table.kernel - 1, self.table.width
        past_NLPD = torch.zeros(len(lengths_B), *sizes)
        return NativeConvolutionState(torch.zeros(len(lengths_B), dtype=torch.long), past_NLPD, Shared(source))

    def extend(self, tokens_NT: Tensor, state: NativeConvolutionState) -> tuple[Tensor, NativeConvolutionState]:
        return read_tokens(self._step, tokens_NT, state)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self.matrix.logits(output, candidates)

    def _step(self, token_N: Tensor, state: NativeConvolutionState) -> tuple[Tensor, NativeConvolutionState]:
        """Reads a token in each row. Returns the features [N, E]."""
        N, source = len(token_N), state.source.value
        next_NLPD, output_NE = torch.empty_like(state.past_NLPD), torch.empty(N, self.table.embedding.width)
        step = Step(
            N,
            *source.keys_BSE.shape[:2],
            token_N.data_ptr(),
            state.place_N.data_ptr(),
            source.lengths_B.data_ptr(),
            source.keys_BSE.data_ptr(),
            source.values_BSE.data_ptr(),
            state.past_NLPD.data_ptr(),
            next_NLPD.data_ptr(),
            output_NE.data_ptr(),
        )
        found = self.parts.functions.transduce_convolution_step(byref(self.table), byref(step))
        check(found, self.table.embedding, self.table.embedding.most_positions + 1)
        return output_NE, NativeConvolutionState(state.place_N + 1, next_NLPD, state.source)
