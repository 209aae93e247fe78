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
from transduce.tree import Shared
from transduce.types import Padded

FIRST_CAPACITY = 16  # positions; then twice as many each time


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
        past_BKCF = torch.empty(B, 1, 0, self.project.outputs)
        origin_NC = torch.empty(B, 0, dtype=torch.int32)
        source_state = NativeSource(past_BKCF, memory_BSF, lengths_B)
        return NativeState(torch.zeros(B, dtype=torch.long), origin_NC, Shared(source_state))

    def extend(self, tokens_NT: Tensor, state: NativeState) -> tuple[Tensor, NativeState]:
        every = []
        for token_N in tokens_NT.unbind(1):
            output_NW, state = self._step(token_N.contiguous(), state)
            every.append(output_NW)
        return every[0][:, None] if len(every) == 1 else torch.stack(every, 1), state

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        logits = self.readout_matrix(output)
        return logits if candidates is None else logits.index_select(-1, candidates)

    def _step(self, token_N: Tensor, state: NativeState) -> tuple[Tensor, NativeState]:
        """Reads a token in each row, and writes into the state's memory. Returns the features [N, W]."""
        N, source = len(token_N), state.source.value
        B, K, capacity, _ = source.past_BKCF.shape
        if N > B * K:
            return self._step(token_N, _larger(state, N // B, capacity))
        output_NW = torch.empty(N, self.decoder.width)
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
        found = self.functions.transduce_step(byref(self.decoder.table), byref(step))
        if found == NO_ROOM and capacity < self.decoder.most_positions:  # it has written nothing
            return self._step(token_N, _larger(state, K, max(FIRST_CAPACITY, 2 * capacity)))
        self._check(found, self.decoder, self.decoder.most_positions + 1)
        return output_NW, NativeState(state.place_N + 1, state.origin_NC, state.source)

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


def _larger(state: NativeState, places: int, capacity: int) -> NativeState:
    """The state with this number of places, and this capacity in positions. What it has not read yet is not set."""
    source = state.source.value
    B, K, before, F = source.past_BKCF.shape
    past_BKCF = torch.empty(B, places, capacity, F)
    past_BKCF[:, :K, :before] = source.past_BKCF
    origin_NC = torch.zeros(len(state.origin_NC), capacity, dtype=torch.int32)
    origin_NC[:, :before] = state.origin_NC
    return NativeState(state.place_N, origin_NC, Shared(NativeSource(past_BKCF, source.memory_BSF, source.lengths_B)))
