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

from transduce import tree
from transduce.compute.library import declare
from transduce.engines.native.parts import Embedding, Parts, check, read_tokens
from transduce.tree import Shared
from transduce.types import Memory, Padded

CELLS = {"lstm": 0, "gru": 1, "elman-tanh": 2, "elman-sigmoid": 3, "ssru": 4}
LEAVES = {"lstm": 2}  # vectors in a cell's state; the others have one
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


def read_cell(parts: Parts, name: str, kind: str, width: int) -> Cell:
    """The cell whose tensors begin with ``name``; an empty one if the export has none."""
    tensors = parts.handle(f"{name}.input"), parts.handle(f"{name}.recurrent"), parts.address(f"{name}.peepholes")
    return Cell(CELLS[kind], width, *tensors)


class NativeRecurrentEncoder:
    """An encoder that reads ids. The summary of its memory is one tensor [B, F]: the leaves of the package's summary
    side by side.
    """

    def __init__(self, parts: Parts, notes: Mapping[str, Any]) -> None:
        declare(parts.functions, SIGNATURES)
        self.parts = parts
        ways = notes["ways"]
        count, kind, width = notes["layers"], notes["cell"], notes["width"]
        names = [f"encoder.{layer}.{way}" for layer in range(count) for way in ("forward", "backward")]
        cells = parts.array(Cell, [read_cell(parts, name, kind, width) for name in names])
        self.table = Encoder(parts.embedding(notes), count, notes["residual"], cells)
        self.width = ways * width
        self.summary_width = count * self.width * LEAVES.get(kind, 1)

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


class NativeRecurrentDecoder:
    """A decoder over the memory of any encoder, or of none (in a language model).

    The matrix "bridge" maps the memory's summary to the cells' first state; without it, the summary is this state, or
    the state is zero. "keys" maps the encoder's states to keys; without it, they are the states.
    """

    def __init__(self, parts: Parts, notes: Mapping[str, Any]) -> None:
        declare(parts.functions, SIGNATURES)
        self.parts = parts
        count, kind, width = notes["layers"], notes["cell"], notes["width"]
        cells = parts.array(Cell, [read_cell(parts, f"decoder.{number}", kind, width) for number in range(count)])
        self.attends, self.bridge = notes["wiring"] != "plain", notes["bridge"]
        self.keys = parts.matrix("keys") if "keys.weight" in parts.tensors else None
        self.project = parts.matrix("bridge") if self.bridge == "linear" else None
        self.matrix = parts.readout("readout")
        self.table = Decoder(
            parts.embedding(notes),
            count,
            notes["residual"],
            WIRINGS[notes["wiring"]],
            notes["key_width"],
            notes["value_width"],
            notes["scale"],
            parts.address("score"),
            *(parts.handle(name) for name in ("second", "mix", "query")),
            cells,
        )
        self.width, self.cells_width = width, count * width * LEAVES.get(kind, 1)
        self.feed = width if notes["fed"] else 0

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

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self.matrix.logits(output, candidates)

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
