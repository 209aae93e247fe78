"""A Transformer's encoder and decoder that our library computes.

B sources, K places of hypotheses of a source, N rows, T tokens, S source positions, C capacity in target positions, W
width, L layers of the decoder, V vocabulary. kernels/transformer.h describes the functions and the memory.
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


class Step(Structure):
    _fields_ = (
        ("rows", c_int64),
        ("sources", c_int64),
        ("places", c_int64),
        ("capacity", c_int64),
        ("longest", c_int64),
        ("tokens", c_void_p),
        ("place", c_void_p),
        ("lengths", c_void_p),
        ("memory", c_void_p),
        ("past", c_void_p),
        ("outputs", c_void_p),
        ("origin", c_void_p),
    )


SIGNATURES: dict[str, list[Any]] = {
    "transformer_encode": [POINTER(Stack), c_void_p, c_void_p, c_int64, c_int64, c_void_p],
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


class NativeTransformerEncoder:
    """An encoder that reads ids. The summary of its memory is the mean of a row's states."""

    def __init__(self, parts: Parts, notes: Mapping[str, Any]) -> None:
        self.parts = parts
        self.table = stack(parts, "encoder", notes)
        self.width = self.table.embedding.width

    def __call__(self, source: Padded) -> Memory:
        ids_BS, lengths_B = source.values.contiguous(), source.lengths.contiguous()
        B, S = ids_BS.shape
        states_BSW = torch.empty(B, S, self.width)
        pointers = ids_BS.data_ptr(), lengths_B.data_ptr(), B, S, states_BSW.data_ptr()
        found = self.parts.functions.transduce_transformer_encode(byref(self.table), *pointers)
        check(found, self.table.embedding, S)
        states = Padded(states_BSW, lengths_B)
        return Memory(states, (self.parts.mean(states),), source)


@dataclass(frozen=True)
class NativeSource:
    """What the hypotheses of a source share: ``past_BKCF`` has the keys and values of their tokens, in K places,
    ``memory_BSF`` those of the source, of ``lengths_B`` tokens. F is L * 2 * W.
    """

    past_BKCF: Tensor
    memory_BSF: Tensor
    lengths_B: Tensor


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
    """A decoder over the memory of any encoder. The matrix "memory" maps its states to keys and values of all layers,
    and "readout" maps features to logits.
    """

    def __init__(self, parts: Parts, notes: Mapping[str, Any]) -> None:
        self.parts = parts
        self.table = stack(parts, "decoder", notes)
        self.width = self.table.embedding.width
        self.project, self.matrix = parts.matrix("memory"), parts.readout("readout")

    def start(self, memory: Memory) -> NativeState:
        memory_BSF = self.project.of_real(memory.states)
        if memory.values is not None:  # an encoder whose values are not its keys
            other_BSF = self.project.of_real(Padded(memory.values, memory.states.lengths))
            halves = *memory_BSF.shape[:2], self.table.count, 2, self.width
            memory_BSF.view(halves)[..., 1, :] = other_BSF.view(halves)[..., 1, :]
        B = len(memory_BSF)
        source = NativeSource(torch.empty(B, 1, 0, self.project.outputs), memory_BSF, memory.states.lengths)
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
            B,
            K,
            capacity,
            source.memory_BSF.shape[1],
            token_N.data_ptr(),
            state.place_N.data_ptr(),
            source.lengths_B.data_ptr(),
            source.memory_BSF.data_ptr(),
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
    """The state with this number of places, and this capacity in positions. What it has not read yet is not set."""
    source = state.source.value
    B, K, before, F = source.past_BKCF.shape
    past_BKCF = torch.empty(B, places, capacity, F)
    past_BKCF[:, :K, :before] = source.past_BKCF
    origin_NC = torch.zeros(len(state.origin_NC), capacity, dtype=torch.int32)
    origin_NC[:, :before] = state.origin_NC
    return NativeState(state.place_N, origin_NC, Shared(NativeSource(past_BKCF, source.memory_BSF, source.lengths_B)))
