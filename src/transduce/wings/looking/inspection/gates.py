"""The gates and the states of recurrent cells while a model reads a sentence and writes its output.

T tokens, U units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.search.forcing import shifted
from transduce.wings.looking.inspection.recording import cells_of, record

SHOWN = 12  # units of a cell
BACKWARD = "backward_cell"  # the last part of the name of a cell that reads backwards

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class CellsOverTime:
    """One cell of a recurrent model. Column t belongs to ``tokens[t]``, the token that the cell reads.

    ``name`` is the cell's name in the model. ``gates`` maps the name of each gate to its mean over all units [T]. A
    mean of 0 is closed, and 1 is open. ``units`` are the numbers of the units whose state changes most, and
    ``values_UT`` their values. Here, the state of an LSTM is its memory cell c.
    """

    name: str
    tokens: tuple[str, ...]
    gates: Mapping[str, Floats]
    units: tuple[int, ...]
    values_UT: Floats

    def record(self) -> dict[str, object]:
        """The cell as a JSON object."""
        gates = {name: values_T.tolist() for name, values_T in self.gates.items()}
        units = dict(zip(map(str, self.units), self.values_UT.tolist(), strict=True))
        return {"name": self.name, "tokens": list(self.tokens), "gates": gates, "units": units}


@torch.inference_mode()
def cells_over_time(transducer: Transducer, source: Sequence[int], target: Sequence[int]) -> tuple[CellsOverTime, ...]:
    """All cells of the model while it reads ``source`` and writes ``target`` by teacher forcing. Both are rows of ids
    that end with EOS. The result is empty for a model without recurrent cells.

    A cell is left out if its positions are not the tokens of one side, as in a pyramidal encoder.
    """
    model = transducer.model
    paths = dict(cells_of(model))
    if not paths:
        return ()
    kinds = _kinds(model)
    tokens = transducer.target_tokenizer.tokens
    sides = transducer.source_tokenizer.tokens(source), ["<s>", *tokens(target[:-1])]
    with transducer.computing():
        with record(model, *kinds) as reading:
            state = transducer.stepwise.start(transducer.padded([source]))
        with record(model, *kinds) as writing:
            transducer.stepwise.extend(shifted(transducer.padded([target], torch.long)), state)
    found = []
    for trace, side in zip((reading, writing), sides, strict=True):
        for path in paths:
            states = [calls for name, calls in trace["cells"].items() if name == path or _above(name) == path]
            gates = {name: calls for name, calls in trace.get("gates", {}).items() if _above(name) == path}
            if states and states[-1] and sum(each.shape[1] for each in states[-1]) == len(side):
                found.append(_over_time(path, tuple(side), states[-1], gates))
    return tuple(found)


def _kinds(model: nn.Module) -> tuple[str, ...]:
    """The kinds of values that can be recorded: an Elman network's cells have no gates."""
    try:
        with record(model, "gates"):
            return "cells", "gates"
    except UserError:
        return ("cells",)


def _above(name: str) -> str:
    return name.rpartition(".")[0]


def _over_time(
    path: str, tokens: tuple[str, ...], states: Sequence[Floats], gates: Mapping[str, Sequence[Floats]]
) -> CellsOverTime:
    turn = -1 if path.endswith(BACKWARD) else 1
    values_UT = np.concatenate(states, 1)[0].T[:, ::turn]
    units = np.argsort(-values_UT.std(1), kind="stable")[:SHOWN]
    means = {
        name.rpartition(".")[2]: np.concatenate(calls, 1)[0].mean(1)[::turn] for name, calls in gates.items() if calls
    }
    return CellsOverTime(path, tokens, means, tuple(units.tolist()), values_UT[units])
