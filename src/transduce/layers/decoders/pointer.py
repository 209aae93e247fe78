"""A decoder that can copy: it combines any other decoder with a pointer into the source."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from transduce.core.errors import UserError
from transduce.core.protocols import AnyAttention, AnyDecoder, Attention, Decoder, S, Table
from transduce.core.tree import Shared
from transduce.core.types import Factory, Memory, MemoryWidths, widened
from transduce.layers.modules.linear import projection


@dataclass(frozen=True)
class SourceWords:
    """The source as a pointer needs it: its ids [B, S], and for each position the first position of its row that has
    the same id, [B, S].
    """

    id_BS: Tensor
    first_BS: Tensor


@dataclass(frozen=True)
class PointerState:
    """The state of ``PointerGenerator``: the states of the inner decoder and of the pointer's attention, and the
    source's words.
    """

    decoder: object
    attention: object
    source: Shared[SourceWords]


@dataclass(frozen=True)
class PointerOutput:
    """``features`` [..., D] of the inner decoder. ``gate`` [..., 1] are the log-odds that a word is generated and not
    copied. ``ids`` [..., S] are the source's ids. ``share`` [..., S] has at the first position of each id in the row
    the sum of the attention to all positions with this id, and 0 at its other positions.
    """

    features: Tensor
    gate: Tensor
    ids: Tensor
    share: Tensor


class PointerGenerator(nn.Module):
    """A decoder of any kind that can also copy words of the source: See et al. 2017, eq. 8-9.

    p(w) = g p_decoder(w) + (1 - g) sum over the positions s with x_s = w of a_s. The decoder's features f query an
    attention. It returns the weights a and the context c. The gate is g = sigmoid(u . [c; f; e] + b), where [;]
    concatenates and e is the embedding of the token just read. ``readout`` returns log p.

    See et al. point with the attention of their recurrent layer. Here the pointer has its own attention (as in Gulcehre
    et al. 2016), so that every decoder can copy. A word must have the same id on both sides (``data.units.joint``).
    Raises UserError if the vocabularies differ in size, and at the start of a batch if the encoder does not leave one
    state for each source id. An unknown word is copied as unknown.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        memory: MemoryWidths,
        decoder: Factory[Decoder[S]],
        attention: Factory[Attention[S]],
    ) -> None:
        super().__init__()
        if source_vocabulary != target_vocabulary:
            raise UserError(
                f"a word is copied by its id, but the source has {source_vocabulary} and the target "
                f"{target_vocabulary} words: learn one vocabulary for both (data.units.joint)"
            )
        self.decoder: AnyDecoder = decoder(memory=memory)
        self.width = self.decoder.width
        self.attention: AnyAttention = attention(query_width=self.width, memory_width=memory.states)
        self.gate = projection(self.attention.width + self.width + self.embedding.weight.shape[1], 1)

    @property
    def embedding(self) -> Table:
        return self.decoder.embedding

    @property
    def projection(self) -> Table:
        return self.decoder.projection

    def start(self, memory: Memory) -> PointerState:
        return PointerState(self.decoder.start(memory), self.attention.start(memory), Shared(source_words(memory)))

    def extend(self, tokens_NT: Tensor, state: PointerState) -> tuple[PointerOutput, PointerState]:
        features_NTD, decoder = self.decoder.extend(tokens_NT, state.decoder)
        context_NTM, weights_NTS, attention = self.attention(features_NTD, state.attention)
        read_NTE = self.embedding(tokens_NT)
        gate_NT1 = self.gate(torch.cat([context_NTM, features_NTD, read_NTE], -1))
        source = state.source.value
        id_NTS, first_NTS = per_query(source.id_BS, weights_NTS), per_query(source.first_BS, weights_NTS)
        share_NTS = torch.zeros_like(weights_NTS).scatter_add(-1, first_NTS, weights_NTS)
        return PointerOutput(features_NTD, gate_NT1, id_NTS, share_NTS), PointerState(decoder, attention, state.source)

    def readout(self, output: PointerOutput, candidates: Tensor | None = None) -> Tensor:
        """log p [..., V] of all words, or [..., C] of the ``candidates``, in float32 or wider. The candidates'
        probabilities are those among all words: they are not normalised again.
        """
        logits_V = self.decoder.readout(output.features)
        wide = widened(logits_V.dtype)
        own_V, gate_1 = torch.log_softmax(logits_V, -1, wide), output.gate.to(wide)
        own_S = own_V.gather(-1, output.ids) + logsigmoid(gate_1)
        # Only words of the source change: log(own + copied) = log own + log(1 + copied / own). A share of 0 adds
        # nothing, and its logarithm, whose gradient would be nan, is never taken.
        empty_S = output.share == 0
        copied_S = output.share.to(wide).masked_fill(empty_S, 1).log() + logsigmoid(-gate_1)
        gain_S = torch.logaddexp((copied_S - own_S).masked_fill(empty_S, float("-inf")), own_S.new_zeros(()))
        log_p_V = (own_V + logsigmoid(gate_1)).scatter_add_(-1, output.ids, gain_S)
        return log_p_V if candidates is None else log_p_V.index_select(-1, candidates)


def source_words(memory: Memory) -> SourceWords:
    """The words of the memory's source. Raises UserError unless the memory has one state for each source id."""
    id_BS = memory.source.values
    if id_BS.shape != memory.states.values.shape[:2]:
        raise UserError(
            f"the encoder leaves {tuple(memory.states.values.shape[:2])} states [rows, positions] for a source of "
            f"{tuple(id_BS.shape)}: to copy, a decoder needs an encoder with one state for each word it reads"
        )
    same_BSS = id_BS[:, :, None] == id_BS[:, None]
    return SourceWords(id_BS, same_BSS.byte().argmax(-1))


def per_query(x_BS: Tensor, like_NTS: Tensor) -> Tensor:
    """Repeats each source row [B, S] once per hypothesis and query: [N, T, S], the shape of ``like_NTS``. Returns a
    view if every source has one hypothesis.
    """
    N, T, S = like_NTS.shape
    return x_BS[:, None, None].expand(-1, N // x_BS.shape[0], T, S).reshape(N, T, S)
