"""A Transformer that our library computes, as a model that follows this package's protocols.

B sources, K places of hypotheses of a source, N rows, T tokens, S source positions, C capacity in target positions, W
width, L layers of the decoder, V vocabulary.
"""

from __future__ import annotations

from ctypes import byref
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from transduce.engines.native.library import DONE, NO_ROOM, Step
from transduce.engines.native.matrices import Matrix
from transduce.engines.native.stacks import NativeStack
from transduce.errors import UserError
from transduce.tree import Buffer, Shared
from transduce.types import Padded


@dataclass(frozen=True)
class NativeState:
    """The state of a search. kernels/transformer.h describes the memory.

    ``place_N`` is the number of tokens that each row has read. ``origin`` [N, 1, C, 1] says in which place of its
    source each position's keys and values are stored, and ``past`` [B, K, C, L * 2 * W] has them. So a beam that
    reorders its hypotheses copies only ``origin``. This needs hypotheses of one source to have the same length.
    ``memory_BSF`` has the keys and values of the source.
    """

    place_N: Tensor
    origin: Buffer
    past: Shared[Buffer]
    memory_BSF: Shared[Tensor]
    lengths_B: Shared[Tensor]


class NativeTransformer(nn.Module):
    """``Autoregressive``. ``project`` maps the encoder's states to keys and values of all the decoder's layers, and
    ``readout_matrix`` maps features to logits.
    """

    def __init__(
        self, functions: Any, encoder: NativeStack, project: Matrix, decoder: NativeStack, readout: Matrix
    ) -> None:
        super().__init__()
        self.functions = functions
        self.encoder, self.decoder = encoder, decoder
        self.project, self.readout_matrix = project, readout

    def start(self, source: Padded) -> NativeState:
        ids_BS, lengths_B = source.values.contiguous(), source.lengths.contiguous()
        B, S = ids_BS.shape
        memory_BSF = torch.empty(B, S, self.project.outputs)
        pointers = ids_BS.data_ptr(), lengths_B.data_ptr(), B, S, memory_BSF.data_ptr()
        found = self.functions.transduce_encode(byref(self.encoder.table), self.project.handle, *pointers)
        self._check(found, self.encoder, S)
        return NativeState(
            torch.zeros(B, dtype=torch.long),
            Buffer(torch.zeros(B, 1, 0, 1, dtype=torch.int32)),
            Shared(Buffer(torch.zeros(B, 1, 0, self.project.outputs))),
            Shared(memory_BSF),
            Shared(lengths_B),
        )

    def extend(self, tokens_NT: Tensor, state: NativeState) -> tuple[Tensor, NativeState]:
        N, T = tokens_NT.shape
        state = self._with_room(state, N // len(state.lengths_B.value), T)
        every = []
        for token_N in tokens_NT.unbind(1):
            every.append(self._step(token_N.contiguous(), state))
            state = NativeState(state.place_N + 1, state.origin, state.past, state.memory_BSF, state.lengths_B)
        return every[0][:, None] if T == 1 else torch.stack(every, 1), state

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        logits = self.readout_matrix(output)
        return logits if candidates is None else logits.index_select(-1, candidates)

    def _step(self, token_N: Tensor, state: NativeState) -> Tensor:
        """Reads a token in each row, and writes into the buffers. Returns the features [N, W]."""
        past, memory_BSF, lengths_B = state.past.value.values, state.memory_BSF.value, state.lengths_B.value
        B, K, C, _ = past.shape
        output_NW = torch.empty(len(token_N), self.decoder.width)
        step = Step(
            len(token_N),
            B,
            K,
            C,
            memory_BSF.shape[1],
            token_N.data_ptr(),
            state.place_N.data_ptr(),
            lengths_B.data_ptr(),
            memory_BSF.data_ptr(),
            past.data_ptr(),
            output_NW.data_ptr(),
            state.origin.values.data_ptr(),
        )
        found = self.functions.transduce_step(byref(self.decoder.table), byref(step))
        self._check(found, self.decoder, C)
        return output_NW

    def _with_room(self, state: NativeState, hypotheses: int, positions: int) -> NativeState:
        """The state with a place for each of the ``hypotheses`` of a source. Buffers that no search has reserved get
        room for this number of positions more. The buffers are contiguous.
        """
        past, origin = state.past.value, state.origin
        places = max(0, hypotheses - past.values.shape[1])
        more = 0 if past.reserved else positions
        if not (places or more or not past.values.is_contiguous() or not origin.values.is_contiguous()):
            return state
        grown = nn.functional.pad(past.values, (0, 0, 0, more, 0, places)).contiguous()
        wider = nn.functional.pad(origin.values, (0, 0, 0, 0 if origin.reserved else positions)).contiguous()
        return NativeState(
            state.place_N,
            Buffer(wider, origin.reserved),
            Shared(Buffer(grown, past.reserved)),
            state.memory_BSF,
            state.lengths_B,
        )

    def _check(self, found: int, stack: NativeStack, positions: int) -> None:
        """Raises UserError for what the library refused."""
        if found == DONE:
            return
        if found == NO_ROOM:
            raise UserError(
                f"a text of {positions} tokens or more: the export has positions 0 to {stack.most_positions - 1} only; "
                "cut the input, lower the search's max_length, or use --engine torch"
            )
        raise UserError(
            f"id {found} is outside an embedding of {stack.vocabulary} vectors: encode the text with the tokenizer "
            "that the model was trained with"
        )
