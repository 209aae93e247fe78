"""A Transformer's encoder and decoders that our library computes.

B sources, K places of hypotheses of a source, N rows, T positions, S source positions, C capacity in target positions,
W width, L layers of the decoder, V vocabulary. kernels/transformer.h describes the functions and the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import POINTER, Structure, byref, c_float, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transduce.compute.library import NO_ROOM, declare
from transduce.core.tree import Shared
from transduce.core.types import Memory, Padded
from transduce.wings.engines.native.matrices import ACTIVATIONS
from transduce.wings.engines.native.parts import (
    NOTHING,
    Embedding,
    Encoded,
    MisfitError,
    Norm,
    Parts,
    check,
    choice,
    read_tokens,
    real,
    tables,
    whole,
)

FIRST_CAPACITY = 16  # positions; then twice as many each time
MATRICES = ("predict", "project", "out", "query", "read_out", "widen", "narrow")
NORMS = ("mixer_norm", "memory_norm", "feedforward_norm")
TABLES = ("turns", "bias", "keys", "values")  # of relative positions
NO_NORM = Norm()


class Relative(Structure):
    _fields_ = (("far", c_int32), ("ahead", c_int32), *((name, c_void_p) for name in TABLES))


class Layer(Structure):
    _fields_ = (
        *((name, Norm) for name in NORMS),
        ("relative", Relative),
        ("kernel", c_int32),
        ("weights", c_void_p),
        *((name, c_void_p) for name in MATRICES),
    )


class Stack(Structure):
    _fields_ = (
        ("embedding", Embedding),
        ("heads", c_int32),
        ("count", c_int32),
        ("pre_norm", c_int32),
        ("gated", c_int32),
        ("activation", c_int32),
        ("eps", c_float),
        ("final_norm", Norm),
        ("layers", POINTER(Layer)),
    )


class KeysAndValues(Structure):
    """``TransformerMemory``."""

    _fields_ = (("sources", c_int64), ("longest", c_int64), ("lengths", c_void_p), ("states", c_void_p))


class Step(Structure):
    _fields_ = (
        ("rows", c_int64),
        ("places", c_int64),
        ("capacity", c_int64),
        ("tokens", c_void_p),
        ("place", c_void_p),
        ("memory", KeysAndValues),
        ("past", c_void_p),
        ("outputs", c_void_p),
        ("origin", c_void_p),
    )


SIGNATURES: dict[str, list[Any]] = {
    "transformer_encode": [POINTER(Stack), c_void_p, c_void_p, c_int64, c_int64, POINTER(KeysAndValues), c_void_p],
    "transformer_step": [POINTER(Stack), POINTER(Step)],
}
STRUCTURES = {
    "Norm": Norm,
    "Embedding": Embedding,
    "Relative": Relative,
    "TransformerLayer": Layer,
    "TransformerStack": Stack,
    "TransformerMemory": KeysAndValues,
    "TransformerStep": Step,
}


def stack(parts: Parts, side: str, notes: Mapping[str, Any], reads: bool) -> Stack:
    """The structure of an encoder or a decoder, whose tensors begin with ``side``. ``notes`` describes it. If it
    ``reads`` a memory, its layers attend to it.
    """
    declare(parts.functions, SIGNATURES, structures=STRUCTURES)
    embedding, count = parts.embedding(notes), whole(notes, "layers", 1)
    heads, gated = whole(notes, "heads", 1), whole(notes, "gated", 0, 1) if "gated" in notes else 0
    if embedding.width % heads:
        raise MisfitError(f"heads = {heads}: a divisor of the width {embedding.width} was expected")
    mixers = tables(notes, "mixers", count) if "mixers" in notes else [{}] * count
    names = [f"{side}.{number}" for number in range(count)]
    layers = [
        _layer(parts, name, mixer, embedding, heads, gated, reads) for name, mixer in zip(names, mixers, strict=True)
    ]
    turning = [len(parts.tensors[f"{name}.turns"]) for name in names if f"{name}.turns" in parts.tensors]
    embedding.most_positions = min([embedding.most_positions, *turning])
    pre_norm, activation = whole(notes, "pre_norm", 0, 1), ACTIVATIONS[choice(notes, "activation", ACTIVATIONS)]
    last = parts.norm(f"{side}.norm", embedding.width) if pre_norm else NO_NORM
    numbers = heads, count, pre_norm, gated, activation, real(notes, "eps", 0)
    return Stack(embedding, *numbers, last, parts.array(Layer, layers))


def _layer(
    parts: Parts, name: str, mixer: Mapping[str, Any], embedding: Embedding, heads: int, gated: int, reads: bool
) -> Layer:
    """The layer whose tensors begin with ``name``. ``mixer`` describes how it mixes positions."""
    W = embedding.width
    kernel = whole(mixer, "kernel", 1) if "kernel" in mixer else 0
    predicts = kernel > 0 and f"{name}.predict.weight" in parts.tensors
    if kernel and not predicts:
        parts.tensor(f"{name}.weights", heads, kernel)
    widen = parts.matrix(f"{name}.widen", None, W)
    if gated and widen.outputs % 2:
        raise MisfitError(f"{name}.widen has {widen.outputs} outputs: two halves were expected")
    return Layer(
        parts.norm(f"{name}.mixer_norm", W),
        parts.norm(f"{name}.memory_norm", W) if reads else NO_NORM,
        parts.norm(f"{name}.feedforward_norm", W),
        Relative() if kernel else _relative(parts, name, mixer, heads, W // heads),
        kernel,
        parts.address(f"{name}.weights", heads, kernel) if kernel else None,
        parts.handle(f"{name}.predict", heads * kernel, W) if predicts else None,
        parts.handle(f"{name}.project", (2 if kernel else 3) * W, W),
        parts.handle(f"{name}.out", W, W),
        parts.handle(f"{name}.query", W, W) if reads else None,
        parts.handle(f"{name}.read_out", W, W) if reads else None,
        widen.handle,
        parts.handle(f"{name}.narrow", W, widen.outputs // (1 + gated)),
    )


def _relative(parts: Parts, name: str, mixer: Mapping[str, Any], heads: int, features: int) -> Relative:
    """The relative positions of self-attention: rotary, biases of T5 or ALiBi, vectors of Shaw, or none."""
    far, ahead = (whole(mixer, each) if each in mixer else 0 for each in ("far", "ahead"))
    distances = far + 1 + ahead
    if f"{name}.turns" in parts.tensors and features % 2:
        raise MisfitError(f"{name}.turns: heads of {features} numbers have no two halves to turn")
    if (f"{name}.keys" in parts.tensors) != (f"{name}.values" in parts.tensors):
        raise MisfitError(f"{name}.keys and {name}.values: both or neither were expected")
    return Relative(
        far,
        ahead,
        parts.address(f"{name}.turns", None, features),
        parts.address(f"{name}.bias", heads, distances),
        parts.address(f"{name}.keys", distances, features),
        parts.address(f"{name}.values", distances, features),
    )


def read_at_once(
    parts: Parts, table: Stack, ids_NT: Tensor, lengths_N: Tensor, memory: KeysAndValues | None = None
) -> Tensor:
    """The features [N, T, W] of all positions, zeros at padding. ``memory`` is what a decoder's layers read too."""
    N, T = ids_NT.shape
    states_NTW = torch.empty(N, T, table.embedding.width)
    pointers = ids_NT.data_ptr(), lengths_N.data_ptr(), N, T, memory, states_NTW.data_ptr()
    check(parts.functions.transduce_transformer_encode(byref(table), *pointers), table.embedding, T)
    return states_NTW


class NativeTransformerEncoder:
    """An encoder that reads ids. The summary of its memory is the mean of a row's states."""

    def __init__(self, parts: Parts, notes: Mapping[str, Any]) -> None:
        self.parts = parts
        self.table = stack(parts, "encoder", notes, reads=False)
        embedding = self.table.embedding
        self.encoded = Encoded(embedding.width, embedding.width, embedding.vocabulary)

    def __call__(self, source: Padded) -> Memory:
        ids_BS, lengths_B = source.values.contiguous(), source.lengths.contiguous()
        states = Padded(read_at_once(self.parts, self.table, ids_BS, lengths_B), lengths_B)
        return Memory(states, (self.parts.mean(states),), source)


class NativeReading:
    """How a decoder of ``layers`` layers reads the memory: the matrix "memory" maps its states to the keys and values
    of all layers. A language model has no such matrix.
    """

    def __init__(self, parts: Parts, layers: int, width: int, encoded: Encoded) -> None:
        self.matrix = None if encoded == NOTHING else parts.matrix("memory", layers * 2 * width, encoded.width)
        self.layers, self.width = layers, width

    def of(self, memory: Memory) -> Padded:
        """The keys and values [B, S, F] of a memory. F is L * 2 * W."""
        states, lengths_B = memory.states, memory.states.lengths.contiguous()
        if self.matrix is None:
            return Padded(torch.empty(len(lengths_B), 0, self.layers * 2 * self.width), lengths_B)
        read_BSF = self.matrix.of_real(states)
        if memory.values is not None:  # an encoder whose values are not its keys
            other_BSF = self.matrix.of_real(Padded(memory.values, lengths_B))
            halves = *read_BSF.shape[:2], self.layers, 2, self.width
            read_BSF.view(halves)[..., 1, :] = other_BSF.view(halves)[..., 1, :]
        return Padded(read_BSF, lengths_B)


def keys_and_values(memory: Padded) -> KeysAndValues:
    """What ``NativeReading`` made, for the library. The object does not keep the tensors."""
    B, S, _ = memory.values.shape
    return KeysAndValues(B, S, memory.lengths.data_ptr(), memory.values.data_ptr())


@dataclass(frozen=True)
class NativeSource:
    """The hypotheses of a source share this: the keys and values of their tokens in K places, ``past_BKCF``, and the
    keys and values of the source, ``memory`` [B, S, F].
    """

    past_BKCF: Tensor
    memory: Padded


@dataclass(frozen=True)
class NativeState:
    """The state of a search. kernels/transformer.h describes the memory.

    ``place_N`` is the number of tokens that each row has read. ``origin_NC`` says in which place of its source each
    position's keys and values are stored. So a beam that reorders its hypotheses moves only these numbers. This needs
    hypotheses of one source to have the same length. The state has no ``tree.Buffer``: it grows by itself.
    """

    place_N: Tensor
    origin_NC: Tensor
    source: Shared[NativeSource]


class NativeTransformerDecoder:
    """A decoder over the memory of any encoder. The matrix "readout" maps its features to logits."""

    def __init__(self, parts: Parts, notes: Mapping[str, Any], encoded: Encoded) -> None:
        self.parts = parts
        self.table = stack(parts, "decoder", notes, reads=encoded != NOTHING)
        self.width = self.table.embedding.width
        self.reading = NativeReading(parts, self.table.count, self.width, encoded)
        self.matrix = parts.readout("readout", self.table.embedding.vocabulary, self.width)

    def start(self, memory: Memory) -> NativeState:
        read = self.reading.of(memory)
        B, _, F = read.values.shape
        source = NativeSource(torch.empty(B, 1, 0, F), read)
        return NativeState(torch.zeros(B, dtype=torch.long), torch.empty(B, 0, dtype=torch.int32), Shared(source))

    def extend(self, tokens_NT: Tensor, state: NativeState) -> tuple[Tensor, NativeState]:
        return read_tokens(self._step, tokens_NT, state)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self.matrix.logits(output, candidates)

    def _step(self, token_N: Tensor, state: NativeState) -> tuple[Tensor, NativeState]:
        """Reads a token in each row, and writes into the state's memory. Returns the features [N, W]."""
        N, source = len(token_N), state.source.value
        B, K, capacity, _ = source.past_BKCF.shape
        if N > B * K:
            return self._step(token_N, _larger(state, N // B, capacity))
        output_NW = torch.empty(N, self.width)
        step = Step(
            N,
            K,
            capacity,
            token_N.data_ptr(),
            state.place_N.data_ptr(),
            keys_and_values(source.memory),
            source.past_BKCF.data_ptr(),
            output_NW.data_ptr(),
            state.origin_NC.data_ptr(),
        )
        found = self.parts.functions.transduce_transformer_step(byref(self.table), byref(step))
        most = self.table.embedding.most_positions
        if found == NO_ROOM and capacity < most:  # it has written nothing
            return self._step(token_N, _larger(state, K, max(FIRST_CAPACITY, 2 * capacity)))
        check(found, self.table.embedding, most + 1)
        return output_NW, NativeState(state.place_N + 1, state.origin_NC, state.source)


def _larger(state: NativeState, places: int, capacity: int) -> NativeState:
    """The state with this number of places, and this capacity in positions. Positions that no row has read yet are not
    set.
    """
    source = state.source.value
    B, K, before, F = source.past_BKCF.shape
    past_BKCF = torch.empty(B, places, capacity, F)
    past_BKCF[:, :K, :before] = source.past_BKCF
    origin_NC = torch.zeros(len(state.origin_NC), capacity, dtype=torch.int32)
    origin_NC[:, :before] = state.origin_NC
    return NativeState(state.place_N, origin_NC, Shared(NativeSource(past_BKCF, source.memory)))


class NativeInstantTransformer:
    """A decoder that writes all positions at once (``decoders.instant``). Its embedding has vectors of places: an "id"
    is the place from the end of its row, and the place from the start is the position.
    """

    def __init__(self, parts: Parts, notes: Mapping[str, Any], encoded: Encoded) -> None:
        self.parts = parts
        self.table = stack(parts, "decoder", notes, reads=True)
        self.max_length = self.table.embedding.vocabulary
        width = self.table.embedding.width
        self.reading = NativeReading(parts, self.table.count, width, encoded)
        self.matrix = parts.readout("readout", None, width)

    def start(self, memory: Memory) -> Shared[Padded]:
        return Shared(self.reading.of(memory))

    def __call__(self, state: Shared[Padded], lengths_N: Tensor, positions: int) -> Tensor:
        after_NT = (lengths_N[:, None] - 1 - torch.arange(positions)).clamp(min=0)
        return read_at_once(self.parts, self.table, after_NT, lengths_N.contiguous(), keys_and_values(state.value))

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self.matrix.logits(output, candidates)
