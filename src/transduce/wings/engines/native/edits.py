"""A decoder that writes by edits, whose steps our library computes.

B sources, N rows, S source positions, H hidden features, V target vocabulary. kernels/edits.h describes the function
and the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import POINTER, Structure, byref, c_int64, c_void_p
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transduce.compute.library import declare
from transduce.core.tree import Shared
from transduce.core.types import EOS, Memory
from transduce.wings.engines.native.parts import NOTHING, Encoded, MisfitError, Parts, read_tokens
from transduce.wings.engines.native.recurrent import RecurrentCells, RecurrentState


class Step(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("rows", "sources", "longest", "hidden", "vocabulary")),
        *((name, c_void_p) for name in ("tokens", "lengths", "copies")),
        ("end", c_int64),
        *((name, c_void_p) for name in ("states", "remembered", "actions", "written", "copied")),
        *((name, c_void_p) for name in ("next_written", "next_copied", "log_probs")),
    )


@dataclass(frozen=True)
class EditSource:
    """The hypotheses of a source share this: ``decoders.edits.EditSource``."""

    states_BSH: Tensor
    lengths_B: Tensor
    copies_BS: Tensor


@dataclass(frozen=True)
class EditState:
    """The state of a search: ``decoders.edits.EditState``. A step makes a new one."""

    cells: RecurrentState
    written_NSV: Tensor
    copied_NS: Tensor
    source: Shared[EditSource]


class NativeEditDecoder:
    """A decoder over the memory of any encoder with a state for each source id.

    Its cells are the cells of a recurrent decoder without attention. The matrix "readout" has the actions in place of
    tokens: V insertions, the deletion and the copy. "read" and "remember" map the encoder's states and the cells'
    features to H features.
    """

    def __init__(self, parts: Parts, notes: Mapping[str, Any], encoded: Encoded) -> None:
        if encoded == NOTHING:
            raise MisfitError("a decoder by edits needs an encoder")
        declare(parts.functions, {"edits_step": [POINTER(Step)]}, structures={"EditsStep": Step})
        self.parts = parts
        self.cells = RecurrentCells(parts, notes, encoded)
        self.vocabulary = self.cells.table.embedding.vocabulary
        self.read = parts.matrix("read", None, encoded.width)
        self.remember = parts.matrix("remember", self.read.outputs, self.cells.width)
        self.actions = parts.matrix("readout", self.vocabulary + 2, self.read.outputs)
        self.copies = self._copies(parts, encoded)

    def _copies(self, parts: Parts, encoded: Encoded) -> Tensor:
        """The target id that a copy of each source id writes [V of the source]; empty if there are no copies."""
        copies = parts.tensors["copies"]
        if not copies.numel():
            return copies
        copies = parts.tensor("copies", encoded.vocabulary, kind=torch.long)
        if not 0 <= int(copies.min()) <= int(copies.max()) < self.vocabulary:
            raise MisfitError(f"copies has ids outside a target vocabulary of {self.vocabulary}")
        return copies

    def start(self, memory: Memory) -> EditState:
        states_BSH, lengths_B = self.read.of_real(memory.states), memory.states.lengths.contiguous()
        B, S, _ = states_BSH.shape
        copies_BS = self.copies[memory.source.values] if len(self.copies) else torch.zeros(B, S, dtype=torch.long)
        written_BSV = torch.zeros(B, S, self.vocabulary)
        written_BSV[:, 0] = 1.0  # the first token that is read is BOS
        source = EditSource(states_BSH, lengths_B, copies_BS.contiguous())
        return EditState(self.cells.start(memory), written_BSV, torch.zeros(B, S), Shared(source))

    def extend(self, tokens_NT: Tensor, state: EditState) -> tuple[Tensor, EditState]:
        return read_tokens(self._step, tokens_NT, state)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone() if candidates is None else output.index_select(-1, candidates)

    def _step(self, token_N: Tensor, state: EditState) -> tuple[Tensor, EditState]:
        """Reads a token in each row. Returns the log-probabilities [N, V] of the token that follows."""
        features_NT1, cells = self.cells.extend(token_N[:, None], state.cells)
        remembered_NH, source = self.remember(features_NT1[:, 0]), state.source.value
        next_written_NSV, next_copied_NS = torch.empty_like(state.written_NSV), torch.empty_like(state.copied_NS)
        log_probs_NV = torch.empty(len(token_N), self.vocabulary)
        step = Step(
            len(token_N),
            *source.states_BSH.shape,
            self.vocabulary,
            token_N.data_ptr(),
            source.lengths_B.data_ptr(),
            source.copies_BS.data_ptr(),
            EOS,
            source.states_BSH.data_ptr(),
            remembered_NH.data_ptr(),
            self.actions.handle,
            state.written_NSV.data_ptr(),
            state.copied_NS.data_ptr(),
            next_written_NSV.data_ptr(),
            next_copied_NS.data_ptr(),
            log_probs_NV.data_ptr(),
        )
        self.parts.functions.transduce_edits_step(byref(step))
        return log_probs_NV, EditState(cells, next_written_NSV, next_copied_NS, state.source)
