"""Converts a recurrent encoder or decoder for our own engine, or edits, from its settings and parameters.

The engine has cells that are elementwise after the products with the input and with the state. A gate that a cell does
not have gets a bias that opens it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transduce.core.config import TableView
from transduce.layers.decoders.edits import EditDecoder
from transduce.layers.decoders.recurrent import RecurrentDecoder
from transduce.layers.encoders.recurrent import RecurrentEncoder
from transduce.layers.modules.attention.one_head import GlobalAttention
from transduce.layers.modules.cells.elman import Elman
from transduce.layers.modules.cells.gru import GRU
from transduce.layers.modules.cells.lstm import LSTM, LSTMWithout, PeepholeLSTM
from transduce.layers.modules.cells.ssru import SSRU
from transduce.layers.modules.recurrent import Stack
from transduce.wings.engines.native.conversion.signals import add_front, check_front
from transduce.wings.engines.native.conversion.weights import Notes, Weights
from transduce.wings.engines.transformers import check_value, inner, kind

OPEN = 1e4  # a bias: the sigmoid of the gate is exactly 1
BRIDGES, WIRINGS = ("linear", "copy", "zero"), ("plain", "bahdanau", "luong")
ENERGIES = ("dot", "general", "additive", "scaled-dot")
GATES = ("input", "forget", "output")  # of an LSTM; the new value stands between the last two


def check_encoder(settings: TableView, side: str, engine: str) -> None:
    check_front(settings, side, engine, check_encoder)
    check_value(f"{side}.cell", kind(settings[side]["cell"]), tuple(CELLS), engine)


def check_decoder(settings: TableView, side: str, engine: str) -> None:
    table = settings[side]
    check_cells(settings, side, engine)
    check_value(f"{side}.wiring", kind(table["wiring"]), WIRINGS, engine)
    if kind(table["wiring"]) != "plain":
        attention = table["wiring"]["attention"]
        check_value(f"{side}.wiring.attention", kind(attention), ("global",), engine)
        check_value(f"{side}.wiring.attention.energy", kind(attention["energy"]), ENERGIES, engine)


def check_cells(settings: TableView, side: str, engine: str) -> None:
    check_value(f"{side}.cell", kind(settings[side]["cell"]), tuple(CELLS), engine)
    check_value(f"{side}.bridge", kind(settings[side]["bridge"]), BRIDGES, engine)


def add_encoder(weights: Weights, encoder: RecurrentEncoder, settings: TableView) -> Notes:
    add = CELLS[kind(settings["cell"])].add
    for number, layer in enumerate(encoder.layers):
        for way, cell in (("forward", layer.forward_cell), ("backward", layer.backward_cell)):
            if cell is not None:
                found, width = add(weights, f"encoder.{number}.{way}", cell, settings["cell"]), cell.width
    return add_front(weights, encoder.embedding, settings, add_encoder) | {
        "cell": found,
        "width": width,
        "ways": encoder.width // width,
        "layers": len(encoder.layers),
        "residual": int(encoder.residual),
    }


def add_decoder(weights: Weights, decoder: RecurrentDecoder, settings: TableView) -> Notes:
    wiring: Any = decoder.wiring  # of the class that the settings choose
    notes = _add_cells(weights, decoder, wiring.stack, settings)
    weights.product("readout", decoder.projection)
    name = kind(settings["wiring"])
    second, mix = {
        "plain": (None, None),
        "bahdanau": (getattr(wiring, "context", None), getattr(wiring, "deep", None)),
        "luong": (getattr(wiring, "feed", None), getattr(wiring, "mix", None)),
    }[name]
    if second is not None:
        gates = CELLS[kind(settings["cell"])].gates
        weights.matrix("second", gates(wiring.stack.first, second.weight), None)
    if mix is not None:
        weights.product("mix", mix)
    if name != "plain":
        notes |= _add_attention(weights, wiring.attention, kind(settings["wiring"]["attention"]["energy"]))
    return notes | {"wiring": name, "fed": int(name == "luong" and second is not None)}


def add_edits(weights: Weights, decoder: EditDecoder, settings: TableView) -> Notes:
    """The rows of "readout" are the actions: to insert each token, to delete, to copy."""
    weights.product("read", decoder.read)
    weights.matrix("remember", decoder.remember.weight, None)
    parts = decoder.projection, decoder.moves
    weights.matrix("readout", *(torch.cat([getattr(part, name) for part in parts]) for name in ("weight", "bias")))
    weights.tensors["copies"] = decoder.copies.clone()
    return _add_cells(weights, decoder, decoder.stack, settings)


def _add_cells(weights: Weights, decoder: RecurrentDecoder | EditDecoder, stack: Stack, settings: TableView) -> Notes:
    """Adds the cells of a decoder without attention, its embedding and its bridge. Returns the notes for them."""
    for number, cell in enumerate(stack.cells):
        found = CELLS[kind(settings["cell"])].add(weights, f"decoder.{number}", cell, settings["cell"])
    bridge = kind(settings["bridge"])
    if bridge == "linear":
        weights.product("bridge", decoder.get_submodule("bridge.linear"))
    return weights.embedding("decoder", decoder.embedding) | {
        "cell": found,
        "width": stack.width,
        "layers": len(stack.cells),
        "residual": int(stack.residual),
        "bridge": bridge,
        "wiring": "plain",
        "fed": 0,
        "key_width": 0,
        "value_width": 0,
        "scale": 1.0,
    }


def _add_attention(weights: Weights, attention: GlobalAttention, name: str) -> Notes:
    energy: Any = attention.energy  # of the class that ``name`` chooses
    if name != "dot":
        weights.product("keys", energy.key)
    if name in ("additive", "scaled-dot"):
        weights.matrix("query", energy.query.weight, None)
    if name == "additive":
        weights.floats("score", energy.score)
    scale = energy.scale if name == "scaled-dot" else 1.0
    return {"key_width": energy.key_width, "value_width": attention.width, "scale": scale}


# ---------------------------------------------------------------- cells


def _fused(weights: Weights, name: str, cell: LSTM | GRU, settings: object) -> str:
    """torch's LSTM or GRU, whose gates have the engine's order."""
    own = cell.fused
    weights.matrix(f"{name}.input", own.weight_ih_l0, own.bias_ih_l0)
    weights.matrix(f"{name}.recurrent", own.weight_hh_l0, own.bias_hh_l0)
    return str(kind(settings))


def _elman(weights: Weights, name: str, cell: Elman, settings: object) -> str:
    _looped(weights, name, cell)
    return f"elman-{inner(settings, 'activation', 'tanh')}"


def _peephole(weights: Weights, name: str, cell: PeepholeLSTM, settings: object) -> str:
    _looped(weights, name, cell)
    weights.floats(f"{name}.peepholes", cell.peepholes)
    return "lstm"


def _without(weights: Weights, name: str, cell: LSTMWithout, settings: object) -> str:
    weights.matrix(f"{name}.input", _complete(cell, cell.input.weight), _complete(cell, cell.input.bias, OPEN))
    weights.matrix(f"{name}.recurrent", _complete(cell, cell.recurrent.weight), None)
    return "lstm"


def _complete(cell: LSTMWithout, gates: Tensor, missing: float = 0.0) -> Tensor:
    """Adds the missing gate to the rows ``gates`` of an LSTM without one, and returns them in the order of the
    engine's LSTM. All numbers of the gate are ``missing``.
    """
    *found, new = gates.chunk(3)
    have = dict(zip(cell.gate_names, found, strict=True))
    i, f, o = (have.get(gate, torch.full_like(new, missing)) for gate in GATES)
    return torch.cat([i, f, new, o])


def _ssru(weights: Weights, name: str, cell: SSRU, settings: object) -> str:
    bias = torch.cat([cell.forget_bias, torch.zeros_like(cell.forget_bias)])
    weights.matrix(f"{name}.input", cell.input.weight, bias)
    return "ssru"


def _looped(weights: Weights, name: str, cell: Elman | PeepholeLSTM) -> None:
    weights.product(f"{name}.input", cell.input)
    weights.product(f"{name}.recurrent", cell.recurrent)


def _same(cell: object, gates: Tensor) -> Tensor:
    return gates


@dataclass(frozen=True)
class CellTensors:
    """``add`` adds a cell's tensors and returns the engine's name of its kind. ``gates`` arranges the rows of another
    matrix, which is added to the product with the input, as the engine's cell has them.
    """

    add: Callable[[Weights, str, Any, object], str]
    gates: Callable[[Any, Tensor], Tensor] = _same


CELLS = {
    "lstm": CellTensors(_fused),
    "gru": CellTensors(_fused),
    "elman": CellTensors(_elman),
    "lstm-peephole": CellTensors(_peephole),
    "lstm-without": CellTensors(_without, _complete),
    "ssru": CellTensors(_ssru),
}
