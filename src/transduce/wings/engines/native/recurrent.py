"""Recurrent encoders and decoders that our library computes.

B sources, N rows, T tokens, S source positions, E width of the encoder's states, F width of all states of a stack, K
width of a key, W width of a cell. kernels/recurrent.h describes the functions and the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import POINTER, Structure, byref, c_float, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transduce.compute.library import declare
from transduce.core import tree
from transduce.core.tree import Shared
from transduce.core.types import Memory, Padded
from transduce.wings.engines.native.parts import (
    NOTHING,
    Embedding,
    Encoded,
    MisfitError,
    Parts,
    check,
    choice,
    read_tokens,
    real,
    whole,
)

CELLS = {"lstm": 0, "gru": 1, "elman-tanh": 2, "elman-sigmoid": 3, "ssru": 4}
LEAVES = {"lstm": 2}  # vectors in a cell's state; the others have one
GATES = {"lstm": 4, "gru": 3, "ssru": 2}  # vectors that a cell computes; the others have one
BRIDGES = ("linear", "copy", "zero")
WIRINGS = {"plain": 0, "bahdanau": 1, "luong": 2}


class Cell(Structure):
    _fields_ = (
        ("kind", c_int32),
        ("width", c_int32),
        ("input", c_void_p),
        ("recurrent", c_void_p),
        ("peepholes", c_void_p),
    )


class Encoder(Structure):
    _fields_ = (("embedding", Embedding), ("count", c_int32), ("residual", c_int32), ("cells", POINTER(Cell)))


class Decoder(Structure):
    _fields_ = (
        ("embedding", Embedding),
        ("count", c_int32),
        ("residual", c_int32),
        ("wiring", c_int32),
        ("key_width", c_int32),
        ("value_width", c_int32),
        ("scale", c_float),
        ("score", c_void_p),
        ("second", c_void_p),
        ("mix", c_void_p),
        ("query", c_void_p),
        ("cells", POINTER(Cell)),
    )


class Step(Structure):
    _fields_ = (
        ("rows", c_int64),
        ("sources", c_int64),
        ("longest", c_int64),
        ("state_width", c_int64),
        ("tokens", c_void_p),
        ("lengths", c_void_p),
        ("keys", c_void_p),
        ("values", c_void_p),
        ("state", c_void_p),
        ("next", c_void_p),
        ("outputs", c_void_p),
    )


SIGNATURES: dict[str, list[Any]] = {
    "recurrent_encode": [POINTER(Encoder), c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p],
    "recurrent_step": [POINTER(Decoder), POINTER(Step)],
}
STRUCTURES = {
    "Embedding": Embedding,
    "RecurrentCell": Cell,
    "RecurrentEncoder": Encoder,
    "RecurrentDecoder": Decoder,
    "RecurrentStep": Step,
}


def read_cell(parts: Parts, name: str, kind: str, width: int, inputs: int) -> Cell:
    """The cell whose tensors begin with ``name``."""
    gates = GATES.get(kind, 1) * width
    recurrent = None if kind == "ssru" else parts.handle(f"{name}.recurrent", gates, width)
    peepholes = parts.address(f"{name}.peepholes", 3, width) if kind == "lstm" else None
    return Cell(CELLS[kind], width, parts.handle(f"{name}.input", gates, inputs), recurrent, peepholes)


class NativeRecurrentEncoder:
    """An encoder that reads ids. The summary of its memory is one tensor [B, F]: the leaves of the package's summary
    side by side.
    """

    def __init__(self, parts: Parts, notes: Mapping[str, Any]) -> None:
        declare(parts.functions, SIGNATURES, structures=STRUCTURES)
        self.parts = parts
        embedding, kind, width = parts.embedding(notes), choice(notes, "cell", CELLS), whole(notes, "width", 1)
        count, residual = whole(notes, "layers", 1), whole(notes, "residual", 0, 1)
        self.width = whole(notes, "ways", 1, 2) * width
        cells = []
        for layer in range(count):
            names = [f"encoder.{layer}.{way}" for way in ("forward", "backward")]
            there = [f"{name}.input.weight" in parts.tensors for name in names]
            if sum(there) * width != self.width:
                raise MisfitError(f"encoder.{layer} has {sum(there)} cells: {notes['ways']} were expected")
            inputs = self.width if layer else embedding.width
            both = zip(names, there, strict=True)
            cells += [read_cell(parts, name, kind, width, inputs) if cell else Cell() for name, cell in both]
        self.table = Encoder(embedding, count, residual, parts.array(Cell, cells))
        self.summary_width = count * self.width * LEAVES.get(kind, 1)
        self.encoded = Encoded(self.width, self.summary_width, embedding.vocabulary)

    def __call__(self, source: Padded) -> Memory:
        ids_BS, lengths_B = source.values.contiguous(), source.lengths.contiguous()
        B, S = ids_BS.shape
        states_BSE, summary_BF = torch.empty(B, S, self.width), torch.empty(B, self.summary_width)
        pointers = ids_BS.data_ptr(), lengths_B.data_ptr(), B, S, states_BSE.data_ptr(), summary_BF.data_ptr()
        found = self.parts.functions.transduce_recurrent_encode(byref(self.table), *pointers)
        check(found, self.table.embedding, S)
        return Memory(Padded(states_BSE, lengths_B), (summary_BF,), source)


@dataclass(frozen=True)
class RecurrentSource:
    """The part of a state that all hypotheses of a source share: keys and values of its positions, and its length. The
    keys and values are empty without attention.
    """

    keys_BSK: Tensor
    values_BSE: Tensor
    lengths_B: Tensor


@dataclass(frozen=True)
class RecurrentState:
    """The state of a search. ``cells_NF`` has the states of all cells, and the last features if they are fed. A step
    makes a new one, so a search may select its rows.
    """

    cells_NF: Tensor
    source: Shared[RecurrentSource]


class RecurrentCells:
    """The cells of a decoder over the memory of any encoder, or of none (in a language model).

    The matrix "bridge" maps the memory's summary to the cells' first state; without it, the summary is this state, or
    the state is zero. "keys" maps the encoder's states to keys; without it, they are the states.
    """

    def __init__(self, parts: Parts, notes: Mapping[str, Any], encoded: Encoded) -> None:
        declare(parts.functions, SIGNATURES, structures=STRUCTURES)
        self.parts = parts
        embedding, kind, width = parts.embedding(notes), choice(notes, "cell", CELLS), whole(notes, "width", 1)
        count, wiring = whole(notes, "layers", 1), choice(notes, "wiring", WIRINGS)
        self.width, self.cells_width = width, count * width * LEAVES.get(kind, 1)
        self.attends, fed = wiring != "plain", whole(notes, "fed", 0, 1)
        self.feed = width if fed else 0
        self.bridge = choice(notes, "bridge", BRIDGES)
        linear = self.bridge == "linear"
        self.project = parts.matrix("bridge", self.cells_width, encoded.summary) if linear else None
        if self.bridge == "copy" and encoded.summary != self.cells_width:
            raise MisfitError(f"the encoder's summary has {encoded.summary} numbers: {self.cells_width} were expected")
        if (self.attends and encoded == NOTHING) or (fed and wiring != "luong"):
            raise MisfitError(f"wiring = {wiring!r}, fed = {fed}: this model cannot have them")
        lowest = {"plain": 0, "bahdanau": encoded.width, "luong": width * fed}[wiring]
        joined = {"plain": 0, "bahdanau": width + encoded.width + embedding.width, "luong": encoded.width + width}[
            wiring
        ]
        gates = GATES.get(kind, 1) * width
        cells = [
            read_cell(parts, f"decoder.{number}", kind, width, width if number else embedding.width)
            for number in range(count)
        ]
        self.table = Decoder(
            embedding,
            count,
            whole(notes, "residual", 0, 1),
            WIRINGS[wiring],
            *self._attention(parts, notes, encoded),
            parts.handle("second", gates, lowest) if lowest else None,
            parts.handle("mix", width, joined) if joined else None,
            parts.handle("query", notes["key_width"], width)
            if self.attends and "query.weight" in parts.tensors
            else None,
            parts.array(Cell, cells),
        )

    def _attention(self, parts: Parts, notes: Mapping[str, Any], encoded: Encoded) -> tuple[int, int, float, Any]:
        """The widths of keys and values, the scale, and the address of the vector that additive attention has."""
        self.keys = None
        if not self.attends:
            return 0, 0, 1.0, None
        key_width, mapped = whole(notes, "key_width", 1), "keys.weight" in parts.tensors
        self.keys = parts.matrix("keys", key_width, encoded.width) if mapped else None
        queries_fit = "query.weight" in parts.tensors or self.width == key_width
        if not queries_fit or not (mapped or encoded.width == key_width):
            raise MisfitError(
                f"key_width = {key_width}: queries of {self.width} and keys of {encoded.width} numbers need matrices"
            )
        value_width = whole(notes, "value_width", encoded.width, encoded.width)
        return key_width, value_width, real(notes, "scale"), parts.address("score", key_width)

    def start(self, memory: Memory) -> RecurrentState:
        states = memory.states
        if not self.attends:
            nothing_B00 = torch.empty(len(states.lengths), 0, 0)
            source = RecurrentSource(nothing_B00, nothing_B00, states.lengths)
        else:
            keys_BSK = states.values if self.keys is None else self.keys.of_real(states)
            source = RecurrentSource(keys_BSK, memory.read_BSD, states.lengths)
        return RecurrentState(self._first(memory), Shared(source))

    def _first(self, memory: Memory) -> Tensor:
        """The first state [B, F]."""
        B = len(memory.states.lengths)
        if self.bridge == "zero":
            return torch.zeros(B, self.cells_width + self.feed)
        summary_BF = torch.cat(tree.leaves(memory.summary), -1)
        cells_BF = summary_BF if self.project is None else self.project(summary_BF, "tanh")
        return torch.cat([cells_BF, torch.zeros(B, self.feed)], 1) if self.feed else cells_BF

    def extend(self, tokens_NT: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        return read_tokens(self._step, tokens_NT, state)

    def _step(self, token_N: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Reads a token in each row. Returns the features [N, W]."""
        (N, F), source = state.cells_NF.shape, state.source.value
        output_NW, next_NF = torch.empty(N, self.width), torch.empty(N, F)
        keys_BSK = source.keys_BSK
        step = Step(
            N,
            keys_BSK.shape[0],
            keys_BSK.shape[1],
            F,
            token_N.data_ptr(),
            source.lengths_B.data_ptr(),
            keys_BSK.data_ptr(),
            source.values_BSE.data_ptr(),
            state.cells_NF.data_ptr(),
            next_NF.data_ptr(),
            output_NW.data_ptr(),
        )
        found = self.parts.functions.transduce_recurrent_step(byref(self.table), byref(step))
        check(found, self.table.embedding, 0)
        return output_NW, RecurrentState(next_NF, state.source)


class NativeRecurrentDecoder(RecurrentCells):
    """Cells with a matrix "readout", which maps their features to logits."""

    def __init__(self, parts: Parts, notes: Mapping[str, Any], encoded: Encoded) -> None:
        super().__init__(parts, notes, encoded)
        self.matrix = parts.readout("readout", self.table.embedding.vocabulary, self.width)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self.matrix.logits(output, candidates)
