"""The values of the units of a recurrent language model while it reads a text.

N characters of the text (line feeds included), U units, B rows, T characters of a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.answers.transducer import Transducer
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, can
from transduce.core.registry import model_name
from transduce.core.types import BOS, EOS
from transduce.wings.looking.inspection.attention import SHADES

ROW = 2000  # characters of consecutive paragraphs that are read as one row
MOST = 100_000  # characters; for more of them, the values of thousands of units would fill the memory

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class CellTrace:
    """The state of a recurrent decoder after each character of ``text``: ``values_NU``.

    A unit is one number of the state. Units are counted from 0 through all layers and all tensors of a layer. ``sizes``
    has the number of units of each tensor: for example, an LSTM of one layer has the tensors h and c.
    """

    text: str
    values_NU: Floats
    sizes: tuple[int, ...]

    def name(self, unit: int) -> str:
        """A unit's number and its position in the state: "unit 700 (tensor 2, place 188)"."""
        before = 0
        for number, size in enumerate(self.sizes, 1):
            if unit < before + size:
                return f"unit {unit} (tensor {number}, place {unit - before})"
            before += size
        raise UserError(f"unit {unit}: the state has {before} units, numbered from 0")

    def values(self, unit: int) -> Floats:
        """The unit's values [N], divided by the largest absolute value, so that all are between -1 and 1. Raises
        UserError for a unit that does not exist.
        """
        self.name(unit)
        of_unit_N: Floats = self.values_NU[:, unit]
        return of_unit_N / max(1e-12, float(np.abs(of_unit_N).max()))

    def lines(self, unit: int) -> list[str]:
        """Lines for the terminal: each line of the text, with a row of cells below it. A larger value is darker."""
        values, made, place = (self.values(unit) + 1) / 2, [self.name(unit)], 0
        for line in self.text.split("\n"):
            shades = (values[place : place + len(line)] * len(SHADES)).astype(int).clip(max=len(SHADES) - 1)
            made += [line, "".join(SHADES[shade] for shade in shades)]
            place += len(line) + 1
        return made


@torch.inference_mode()
def trace(transducer: Transducer, text: str) -> CellTrace:
    """The states of the recurrent language model while it reads ``text``, character by character.

    The text is read as documents of about 2,000 characters, which begin after an empty line or, if there is none, after
    any line. Raises UserError for another model, for tokens that are not characters, for an empty text, and for more
    than 100,000 characters.
    """
    model = transducer.model
    if transducer.conditional or not can(type(model), Autoregressive):
        raise UserError(
            f"this {model_name(type(model))} model is no language model: units are shown while it reads a text"
        )
    text = text.strip("\n")
    if not text or len(text) > MOST:
        raise UserError(f"a text of {len(text):,} characters: 1 to {MOST:,} were expected")
    rows = [_ids(transducer, document) for document in _documents(text)]
    longest = max(map(len, rows))
    target_BT = torch.zeros(len(rows), longest, dtype=torch.long)
    for row_T, ids in zip(target_BT, rows, strict=True):
        row_T[: len(ids)] = torch.tensor(ids)
    # A character's state is the state after the model has read it. It reads a line feed as the start of the next line.
    input_BT = target_BT.masked_fill(target_BT == EOS, BOS).to(transducer.device)
    state = transducer.stepwise.start(transducer.padded([transducer.read_one("")] * len(rows)))
    if tree.grows(state):
        raise UserError(
            f"the state of this {model_name(type(model))} model grows with the text, so it has no units to follow"
        )
    _, state = transducer.stepwise.extend(torch.full_like(input_BT[:, :1], BOS), state)
    states: list[Tensor] = []
    for token_B1 in torch.split(input_BT, 1, 1):
        _, state = transducer.stepwise.extend(token_B1, state)
        states.append(torch.cat([leaf.flatten(1) for leaf in _leaves(state)], 1).float().cpu())
    values_BTU = torch.stack(states, 1)
    kept = torch.cat([values_BTU[row, : len(ids)] for row, ids in enumerate(rows)])
    return CellTrace(text, kept.numpy()[: len(text)], tuple(leaf.flatten(1).shape[1] for leaf in _leaves(state)))


def _leaves(state: object) -> list[Tensor]:
    """The tensors of real numbers that belong to the cells, and not to a source."""
    found: list[Tensor] = []

    def note(leaf: Tensor) -> Tensor:
        if leaf.is_floating_point():
            found.append(leaf)
        return leaf

    tree.map(note, state, lambda leaf: leaf)
    return found


def _documents(text: str) -> Iterator[list[str]]:
    """The lines of the text in groups. A group ends after at least ``ROW`` characters at an empty line, or after twice
    as many characters at any line.
    """
    lines: list[str] = []
    size = 0
    for line in text.split("\n"):
        lines.append(line)
        size += len(line) + 1
        if (size >= ROW and not line.strip()) or size >= 2 * ROW:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines


def _ids(transducer: Transducer, lines: list[str]) -> list[int]:
    rows = transducer.read_targets(lines, what="input")
    for line, ids in zip(lines, rows, strict=True):
        if len(ids) != len(line) + 1:
            raise UserError(
                f"line {line[:40]!r} has {len(ids) - 1} tokens and {len(line)} characters: units are shown for models "
                'of characters, data.units.target = "characters"'
            )
    return [token for ids in rows for token in ids]
