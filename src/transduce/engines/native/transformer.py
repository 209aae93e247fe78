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
from transduce.engines.native.matrices import ACTIVATIONS
from transduce.engines.native.parts import Embedding, Norm, Parts, check, read_tokens
from transduce.tree import Shared
from transduce.types import Memory, Padded

FIRST_CAPACITY = 16  # positions; then twice as many each time
MATRICES = ("predict", "project", "out", "query", "read_out", "widen", "narrow")
NORMS = ("mixer_norm", "memory_norm", "feedforward_norm")
TABLES = ("turns", "bias", "keys", "values")  # of relative positions


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


def stack(parts: Parts, side: str, notes: Mapping[str, Any]) -> Stack:
    """The structure of an encoder or a decoder, whose tensors begin with ``side``. ``notes`` describes it."""
    declare(parts.functions, SIGNATURES)

    def layer(name: str, mixer: Mapping[str, int]) -> Layer:
        norms = (parts.norm(f"{name}.{each}") for each in NORMS)
        tables = (parts.address(f"{name}.{each}") for each in TABLES)
        relative = Relative(mixer.get("far", 0), mixer.get("ahead", 0), *tables)
        matrices = (parts.handle(f"{name}.{each}") for each in MATRICES)
        return Layer(*norms, relative, mixer.get("kernel", 0), parts.address(f"{name}.weights"), *matrices)

    count, activation = notes["layers"], ACTIVATIONS[notes["activation"]]
    mixers = notes.get("mixers", [{}] * count)
    layers = parts.array(Layer, [layer(f"{side}.{number}", mixer) for number, mixer in enumerate(mixers)])
    numbers = notes["heads"], count, notes["pre_norm"], notes.get("gated", 0), activation, notes["eps"]
    return Stack(parts.embedding(notes), *numbers, parts.norm(f"{side}.norm"), layers)


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
        self.table = stack(parts, "encoder", notes)

    def __call__(self, source: Padded) -> Memory:
        ids_BS, lengths_B = source.values.contiguous(), source.lengths.contiguous()
        states = Padded(read_at_once(self.parts, self.table, ids_BS, lengths_B), lengths_B)
        return Memory(states, (self.parts.mean(states),), source)


class NativeReading:
    """How a decoder of ``layers`` layers reads the memory: the matrix "memory" maps its states to the keys and values
    of all layers. A language model has no such matrix.
    """

    def __init__(self, parts: Parts, layers: int, width: int) -> None:
        self.matrix = parts.matrix("memory") if "memory.weight" in parts.tensors else None
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

    def __init__(self, parts: Parts, notes: Mapping[str, Any]) -> None:
        self.parts = parts
        self.table = stack(parts, "decoder", notes)
        self.width = self.table.embedding.width
        self.reading, self.matrix = NativeReading(parts, self.table.count, self.width), parts.readout("readout")

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

    def __init__(self, parts: Parts, notes: Mapping[str, Any]) -> None:
        self.parts = parts
        self.table = stack(parts, "decoder", notes)
        self.max_length = self.table.embedding.vocabulary
        self.reading = NativeReading(parts, self.table.count, self.table.embedding.width)
        self.matrix = parts.readout("readout")

    def start(self, memory: Memory) -> Shared[Padded]:
        return Shared(self.reading.of(memory))

    def __call__(self, state: Shared[Padded], lengths_N: Tensor, positions: int) -> Tensor:
        after_NT = (lengths_N[:, None] - 1 - torch.arange(positions)).clamp(min=0)
        return read_at_once(self.parts, self.table, after_NT, lengths_N.contiguous(), keys_and_values(state.value))

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self.matrix.logits(output, candidates)
