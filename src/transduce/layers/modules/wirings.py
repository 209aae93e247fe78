"""Wirings: how a recurrent decoder connects its cells and its attention.

A wiring decides where the context enters and when attention is computed. It owns the ``stack`` of cells, because only
it knows the width of their input. It turns embedded tokens [B, T, E] into features [B, T, width] and passes on a
``WiringState``. Its constructor gets the widths of the memory.

B rows, T positions, W the cells' width, M the context's width, G the width of a cell's projected input.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import AnyAttention, AnyWiring, Attention, S
from transduce.core.tree import Shared, leaves
from transduce.core.types import Factory, Memory, MemoryWidths
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.linear import Linear, projection
from transduce.layers.modules.recurrent import Stack, State


@dataclass(frozen=True)
class WiringState:
    """The state of a wiring after a position.

    ``cells`` has the state of each cell, the lowest first. ``feed`` [B, width] has the last features (zeros before the
    first position), or is None without input feeding. ``attention`` is the attention's state, or None without
    attention.
    """

    cells: State
    feed: Tensor | None
    attention: object


class Plain(nn.Module):
    """A wiring without attention: the decoder knows the source only through its first state (Sutskever et al. 2014).
    The features are the outputs of the ``stack``. ``memory`` and ``dropout`` change nothing.
    """

    def __init__(self, input_width: int, memory: MemoryWidths, stack: Factory[Stack], dropout: float) -> None:
        super().__init__()
        self.stack = stack(input_width=input_width)
        self.width = self.stack.width

    def start(self, memory: Memory, cells: State) -> WiringState:
        return WiringState(cells, None, None)

    def forward(self, x_BTE: Tensor, state: WiringState) -> tuple[Tensor, WiringState]:
        y_BTW, cells = self.stack.unroll(x_BTE, state.cells)
        return y_BTW, WiringState(cells, None, None)


class Bahdanau(nn.Module):
    """A wiring that attends with the previous output and feeds the context into the cells (Bahdanau et al. 2015,
    section 3.1):

    c_t = attend(s_{t-1}); s_t = cells([y_{t-1}; c_t]). y_{t-1} is the embedding of the previous token, s_t the cells'
    output, and s_0 the output of their first state. The features are the deep output tanh(W [s_t; c_t; y_{t-1}] + b).
    ``dropout`` changes nothing.
    """

    def __init__(
        self,
        input_width: int,
        memory: MemoryWidths,
        stack: Factory[Stack],
        dropout: float,
        attention: Factory[Attention[S]],
    ) -> None:
        super().__init__()
        self.stack = stack(input_width=input_width)
        self.width = width = self.stack.width
        self.attention = over_memory(attention, width, memory)
        # The cell's input is [embedding; context]. The product with the embeddings is computed for all positions
        # at once and the product with the context step by step; then they are added.
        self.context = Linear(self.attention.width, self.stack.first.projected_width, bias=False)
        self.deep = projection(width + self.attention.width + input_width, width)

    def start(self, memory: Memory, cells: State) -> WiringState:
        return WiringState(cells, None, self.attention.start(memory))

    def forward(self, x_BTE: Tensor, state: WiringState) -> tuple[Tensor, WiringState]:
        projected_BTG = self.stack.first.project(x_BTE)
        cells, remembered = state.cells, state.attention
        y_BW, outputs, contexts = self.stack.output(cells), [], []
        for projected_BG in projected_BTG.unbind(1):
            context_B1M, _, remembered = self.attention(y_BW[:, None], remembered)
            y_BW, cells = self.stack.step(projected_BG + self.context(context_B1M[:, 0]), cells)
            outputs.append(y_BW)
            contexts.append(context_B1M)
        seen_BTM = torch.cat(contexts, 1)
        features_BTW = torch.tanh(self.deep(torch.cat([torch.stack(outputs, 1), seen_BTM, x_BTE], -1)))
        return features_BTW, WiringState(cells, None, remembered)


class Luong(nn.Module):
    """A wiring that attends with the new output and then mixes in the context (Luong et al. 2015, section 3):

    s_t = cells([y_{t-1}; f_{t-1}]); c_t = attend(s_t); the features are f_t = tanh(W [c_t; s_t] + b). y_{t-1} is the
    embedding of the previous token, s_t the cells' output after ``dropout``. f_{t-1} (f_0 is 0) enters the cells only
    with ``input_feeding`` (section 3.3). Without it the cells read all given positions in one ``unroll``, and attention
    gets all their queries in one call.
    """

    def __init__(
        self,
        input_width: int,
        memory: MemoryWidths,
        stack: Factory[Stack],
        dropout: float,
        attention: Factory[Attention[S]],
        input_feeding: bool = False,
    ) -> None:
        super().__init__()
        self.stack = stack(input_width=input_width)
        self.width = width = self.stack.width
        self.attention = over_memory(attention, width, memory)
        self.mix = projection(self.attention.width + width, width)
        self.dropout = Dropout(dropout)
        self.feed = Linear(width, self.stack.first.projected_width, bias=False) if input_feeding else None

    def start(self, memory: Memory, cells: State) -> WiringState:
        y_BW = self.stack.output(cells)
        feed = None if self.feed is None else torch.zeros_like(y_BW)
        return WiringState(cells, feed, self.attention.start(memory))

    def forward(self, x_BTE: Tensor, state: WiringState) -> tuple[Tensor, WiringState]:
        if self.feed is None:
            y_BTW, cells = self.stack.unroll(x_BTE, state.cells)
            features_BTW, remembered = self._attend(y_BTW, state.attention)
            return features_BTW, WiringState(cells, None, remembered)
        projected_BTG = self.stack.first.project(x_BTE)
        cells, feed_BW, remembered, features = state.cells, state.feed, state.attention, []
        for projected_BG in projected_BTG.unbind(1):
            y_BW, cells = self.stack.step(projected_BG + self.feed(feed_BW), cells)
            feature_B1W, remembered = self._attend(y_BW[:, None], remembered)
            features.append(feature_B1W)
            feed_BW = feature_B1W[:, 0]
        return torch.cat(features, 1), WiringState(cells, feed_BW, remembered)

    def _attend(self, y_BTW: Tensor, remembered: object) -> tuple[Tensor, object]:
        y_BTW = self.dropout(y_BTW)
        context_BTM, _, remembered = self.attention(y_BTW, remembered)
        return torch.tanh(self.mix(torch.cat([context_BTM, y_BTW], -1))), remembered


@dataclass(frozen=True)
class ContextState:
    """The inner wiring's state, and the context [B, M], which all hypotheses of a source share."""

    wiring: object
    context: Shared[Tensor]


class Context(nn.Module):
    """A wiring around another one: concatenates the source's summary c to each input y_{t-1} (Cho et al. 2014, section
    2.2).

    y_{t-1} is the embedding of the previous token, and c concatenates the leaves of the memory's summary. In training,
    ``dropout`` applies to c once per sentence. Around ``plain``, the default, this is a generator conditioned on one
    vector. Around a wiring with attention, c can be a topic or a persona that each step sees. The features are the
    inner wiring's features f_t, or tanh(W [f_t; y_{t-1}; c] + b) with ``deep_output``, so that the readout sees c too.
    """

    def __init__(
        self,
        input_width: int,
        memory: MemoryWidths,
        stack: Factory[Stack],
        dropout: float,
        wiring: Factory[AnyWiring] = Plain,
        deep_output: bool = False,
    ) -> None:
        super().__init__()
        context_width = sum(memory.summary)
        self.dropout = Dropout(dropout)
        self.wiring = wiring(input_width=input_width + context_width, memory=memory, stack=stack, dropout=dropout)
        self.width = self.stack.width if deep_output else self.wiring.width
        seen = self.wiring.width + input_width + context_width
        self.deep = projection(seen, self.width) if deep_output else None

    @property
    def stack(self) -> Stack:
        stack: Stack = self.wiring.stack
        return stack

    def start(self, memory: Memory, cells: State) -> ContextState:
        context_BM = self.dropout(torch.cat(leaves(memory.summary), -1))
        return ContextState(self.wiring.start(memory, cells), Shared(context_BM))

    def forward(self, x_NTE: Tensor, state: ContextState) -> tuple[Tensor, ContextState]:
        # One concatenation, then the cells' own product, which may be a fused kernel. This is cheaper than a separate
        # product for the context, which would rule the kernel out.
        seen_NTI = _beside(x_NTE, state.context.value)
        features_NTW, inner = self.wiring(seen_NTI, state.wiring)
        if self.deep is not None:
            features_NTW = torch.tanh(self.deep(torch.cat([features_NTW, seen_NTI], -1)))
        return features_NTW, ContextState(inner, state.context)


def _beside(x_NTE: Tensor, context_BM: Tensor) -> Tensor:
    """Concatenates each source's context [B, M] to the inputs [N, T, E] of its N / B hypotheses, which are adjacent
    rows: [N, T, E + M].
    """
    N, T, E = x_NTE.shape
    B, M = context_BM.shape
    x_BQE = x_NTE.reshape(B, N // B * T, E)
    return torch.cat([x_BQE, context_BM[:, None].expand(B, x_BQE.shape[1], M)], -1).view(N, T, E + M)


def over_memory(attention: Factory[Attention[S]], query_width: int, memory: MemoryWidths) -> AnyAttention:
    """Builds a wiring's attention to the memory. Raises UserError if the memory has no states (in a language model)."""
    if not memory.states:
        raise UserError('there is no source to attend to: a language model\'s recurrent decoder is wired "plain"')
    return attention(query_width=query_width, memory_width=memory.states)
