"""The decoder of ConvS2S."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Positions
from transduce.core.tree import Shared
from transduce.core.types import Factory, Memory, MemoryWidths, Padded
from transduce.layers.modules import module_list
from transduce.layers.modules.attention.energies import Dot
from transduce.layers.modules.attention.one_head import AttentionKeys, GlobalAttention
from transduce.layers.modules.convolution import HALVE, Convolution, GatedConvolution, scale_gradient
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import Readout, TokenEmbedding
from transduce.layers.modules.positions import Learned

Scales = tuple[Tensor, ...]
"""g / |V| [B, O] of a layer's convolution, query and output: one row per source, all rows equal."""


Keys = Shared[AttentionKeys] | None  # None for layers without attention


@dataclass(frozen=True)
class ConvS2SState:
    """The state of ``ConvS2SDecoder``. ``place_B`` is the position of each row's next token, from 0. ``past_BPD`` are
    the last inputs of each layer's kernel [B, kernel - 1, D], after dropout; those before the first token are zeros.
    ``memory`` has the keys and values of attention, which are the same in all layers; None without attention.
    ``scales`` has the ``Scales`` of each layer.
    """

    place_B: Tensor
    past_BPD: tuple[Tensor, ...]
    memory: Keys
    scales: Shared[tuple[Scales, ...]]


class ConvS2SLayer(nn.Module):
    """A gated convolution with its own attention: Gehring et al. 2017, section 3.3.

    The hidden state is h = v([x_{t-kernel+1}; ...; x_t]), where v is the gated convolution, which reads x after
    dropout. The query is d = (W h + b + g) sqrt(0.5), where g is the vector of the token and its position (eq. 1, here
    scaled). The context is c = attend(d) (eq. 2). A call returns the next x = ((W' c + b' + h) sqrt(0.5) + x)
    sqrt(0.5), and the last kernel - 1 inputs of the kernel.
    """

    def __init__(self, width: int, embedding_width: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.gated = GatedConvolution(width, kernel, dropout)
        self.query = Convolution(width, embedding_width)
        self.attention = GlobalAttention(embedding_width, embedding_width, Dot)
        self.out = Convolution(embedding_width, width)

    def scales(self, rows: int) -> Scales:
        parts = (self.gated.convolution, self.query, self.out)
        return tuple(part.scale().expand(rows, -1) for part in parts)

    def forward(
        self, x_BTD: Tensor, past_BPD: Tensor, embedded_BTE: Tensor, memory: Keys, scales: Scales
    ) -> tuple[Tensor, Tensor]:
        convolution, query, out = (scale[:1] for scale in scales)
        seen_BSD = torch.cat([past_BPD, self.gated.dropout(x_BTD)], 1)
        hidden_BTD = self.gated(seen_BSD, convolution)
        query_BTE = (self.query(hidden_BTD, query) + embedded_BTE) * HALVE
        context_BTE, _, _ = self.attention(query_BTE, memory)
        read_BTD = (self.out(context_BTE, out) + hidden_BTD) * HALVE
        return (read_BTD + x_BTD) * HALVE, seen_BSD[:, x_BTD.shape[1] :]


class CausalConvS2SLayer(nn.Module):
    """A gated convolution without attention, for language models: a call returns (h + x) sqrt(0.5), where h is the
    hidden state of ``ConvS2SLayer``, and the last kernel - 1 inputs of the kernel. It ignores the token's vector and
    the memory, which it takes so that all layers are called alike.
    """

    def __init__(self, width: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.gated = GatedConvolution(width, kernel, dropout)

    def scales(self, rows: int) -> Scales:
        return (self.gated.convolution.scale().expand(rows, -1),)

    def forward(
        self, x_BTD: Tensor, past_BPD: Tensor, embedded_BTE: Tensor, memory: Keys, scales: Scales
    ) -> tuple[Tensor, Tensor]:
        seen_BSD = torch.cat([past_BPD, self.gated.dropout(x_BTD)], 1)
        return (self.gated(seen_BSD, scales[0][:1]) + x_BTD) * HALVE, seen_BSD[:, x_BTD.shape[1] :]


class ConvS2SDecoder(nn.Module):
    """Causal gated convolutions with attention in every layer: Gehring et al. 2017. If the memory has width 0, as in a
    language model, the layers have no attention.

    The values of attention are multiplied by sqrt(m), where m is the source's length (section 3.4: m sqrt(1/m)). The
    gradients of the keys and the values are divided by 2 * ``layers``. Energies are dot products of the memory's states
    with the query (W h + b + g) sqrt(0.5), where g is the vector of the token and its position. So ``embedding_width``
    must equal the encoder's width; otherwise UserError. Features are [B, T, embedding_width].
    """

    def __init__(
        self,
        target_vocabulary: int,
        memory: MemoryWidths,
        positions: Factory[Positions] = Learned,
        embedding_width: int = 256,
        width: int = 256,
        layers: int = 4,
        kernel: int = 3,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if memory.states and embedding_width != memory.states:
            raise UserError(
                f"embedding_width = {embedding_width}: queries, which contain the target's embedding, are compared "
                f"with a memory of width {memory.states}; make the two equal"
            )
        self.width = embedding_width
        self.embedding = TokenEmbedding(target_vocabulary, embedding_width, scaled=False)
        nn.init.normal_(self.embedding.weight, std=0.1)  # section 3.5
        self.positions = positions(width=embedding_width)
        self.dropout = Dropout(dropout)
        self.widen = Convolution(embedding_width, width, variance=1 - dropout)
        self.reads = memory.states > 0
        self.layers = module_list(
            ConvS2SLayer(width, embedding_width, kernel, dropout)
            if self.reads
            else CausalConvS2SLayer(width, kernel, dropout)
            for _ in range(layers)
        )
        self.narrow = Convolution(width, embedding_width)
        self.past = kernel - 1
        self.projection = Readout(embedding_width, target_vocabulary, dropout)

    def start(self, memory: Memory) -> ConvS2SState:
        lengths_B = memory.states.lengths
        rows = lengths_B.shape[0]
        past_BPD = memory.states.values.new_zeros(rows, self.past, self.widen.weight.shape[0])
        return ConvS2SState(
            torch.zeros_like(lengths_B),
            (past_BPD,) * len(self.layers),
            self._keys(memory) if self.reads else None,
            Shared(tuple(layer.scales(rows) for layer in self.layers)),
        )

    def _keys(self, memory: Memory) -> Shared[AttentionKeys]:
        """The keys and values of attention. They are the same for all layers, because dot products have no weights."""
        lengths_B, share = memory.states.lengths, 1 / (2 * len(self.layers))
        states_BSE = scale_gradient(memory.states.values, share)
        values_BSE = scale_gradient(memory.read_BSD, share)
        values_BSE = values_BSE * lengths_B[:, None, None].to(values_BSE.dtype).sqrt()
        first = cast(ConvS2SLayer, self.layers[0])
        return first.attention.start(Memory(Padded(states_BSE, lengths_B), memory.summary, memory.source, values_BSE))

    def extend(self, tokens_BT: Tensor, state: ConvS2SState) -> tuple[Tensor, ConvS2SState]:
        T = tokens_BT.shape[1]
        places_BT = state.place_B[:, None] + torch.arange(T, device=tokens_BT.device)
        embedded_BTE = self.dropout(self.embedding(tokens_BT) + self.positions(places_BT))
        x_BTD, pasts = self.widen(embedded_BTE), []
        for layer, past_BPD, scales in zip(self.layers, state.past_BPD, state.scales.value, strict=True):
            x_BTD, past_BPD = layer(x_BTD, past_BPD, embedded_BTE, state.memory, scales)
            pasts.append(past_BPD)
        return self.narrow(x_BTD), ConvS2SState(state.place_B + T, tuple(pasts), state.memory, state.scales)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        logits: Tensor = self.projection(output, candidates)
        return logits
