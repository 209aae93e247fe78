"""The protocols of the parts of models: encoders, decoders, cells, attentions and the like.

types.py explains the letters of the shapes. The type variable S is the state of a decoder or of one of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from transduce.core.types import Memory, MemoryWidths, Padded

S = TypeVar("S")  # the state of a model or of a part: a tree of tensors (tree.py)


class Pooler(Protocol):
    """Reduces an encoder's memory to one vector per row, [B, width]. Its constructor gets the ``memory``'s widths."""

    width: int

    def __call__(self, memory: Memory) -> Tensor: ...


class Encoder(Protocol):
    """Turns a source into a ``Memory``.

    ``width`` is the last axis of the memory's states. ``summary_widths`` are the last axes of the summary's leaves.
    """

    width: int
    summary_widths: tuple[int, ...]

    def __call__(self, source: Padded) -> Memory: ...


class ComparesSentences(Encoder, Protocol):
    """An encoder whose source is a pair of sentences. ``sentences`` maps single sentences, which end with EOS, to their
    vectors [B, D].
    """

    def sentences(self, source: Padded) -> Tensor: ...


def memory_widths(encoder: Encoder) -> MemoryWidths:
    """The widths of an encoder's memory. A decoder or a pooler is built from them."""
    return MemoryWidths(encoder.width, encoder.summary_widths)


def empty_memory(rows: int, like: Tensor, source: Padded) -> Memory:
    """The memory of a decoder that reads no source, as in a language model: no states, all widths 0. ``like`` decides
    the type and the device.
    """
    lengths_B = torch.zeros(rows, dtype=torch.long, device=like.device)
    return Memory(Padded(like.new_zeros(rows, 0, 0), lengths_B), like.new_zeros(rows, 0), source)


class Table(Protocol):
    """One vector for each token of a vocabulary: an embedding (ids to vectors) or a readout (vectors to logits)."""

    weight: nn.Parameter

    def __call__(self, x: Tensor) -> Tensor: ...


class Embedding(Protocol):
    """Turns a source into vectors [B, S', width] and their lengths [B].

    There is one vector for each unit of the source: a token, a word of several pieces, a frame of a signal or a patch
    of a picture. The encoder builds it with ``vocabulary``, ``width`` and ``scaled``. For tokens, ``scaled`` multiplies
    vectors by sqrt(width). An embedding that is also a ``Table`` can share its weights with a decoder's.
    """

    def embed(self, source: Padded) -> Padded: ...


class EmbedsTokens(Protocol):
    """An encoder of tokens, whose ``embedding`` other parts can share."""

    @property
    def embedding(self) -> Table: ...


class Decoder(Protocol[S]):
    """Like ``Autoregressive``, but it starts from a memory.

    ``width`` is the last axis of its features. Its two tables can share one parameter with each other or with an
    encoder's.
    """

    width: int

    @property
    def embedding(self) -> Table: ...

    @property
    def projection(self) -> Table: ...

    def start(self, memory: Memory) -> S: ...

    def extend(self, tokens_BT: Tensor, state: S) -> tuple[Any, S]: ...

    def readout(self, output: Any, candidates: Tensor | None = None) -> Tensor: ...


AnyDecoder = Decoder[Any]
"""A decoder whose state only it looks into. The same holds for ``AnyCell``, ``AnyAttention``, ``AnyWiring`` and
``AnyMixer``."""


class InstantDecoder(Protocol[S]):
    """Writes all positions at once: at most ``max_length`` of them, without EOS.

    The call takes a state of N rows (K rows per source after ``tree.repeat``), the ``lengths`` [N] of their outputs and
    the number of positions T, at least 1. It returns features [N, T, ...]. Ignore features past a row's length.
    """

    max_length: int

    @property
    def projection(self) -> Table: ...

    def start(self, memory: Memory) -> S: ...

    def __call__(self, state: S, lengths_N: Tensor, positions: int) -> object: ...

    def readout(self, output: Any, candidates: Tensor | None = None) -> Tensor: ...


class Cell(Protocol[S]):
    """A recurrent cell. W is its ``width``, and G is its ``projected_width``.

    ``start`` returns zeros for ``rows`` rows, with the type and device of ``like``. ``project`` maps inputs [..., D] to
    [..., G]: the part of a step that does not need the state. It is linear with a bias, so that the products of further
    inputs can be added to it. ``step`` does the rest of one step, and returns the output [B, W] and the next state.
    ``unroll`` runs both over all positions. If ``lengths_B`` is given, a row's state stops at its length, and later
    outputs are zeros. ``output`` returns the output [B, W] of the step that led to a state.
    """

    width: int
    projected_width: int

    def start(self, rows: int, like: Tensor) -> S: ...

    def output(self, state: S) -> Tensor: ...

    def project(self, x_BTD: Tensor) -> Tensor: ...

    def step(self, projected_BG: Tensor, state: S) -> tuple[Tensor, S]: ...

    def unroll(self, x_BTD: Tensor, state: S, lengths_B: Tensor | None = None) -> tuple[Tensor, S]: ...


AnyCell = Cell[Any]


class Energy(Protocol):
    """How well a query matches a key, before the softmax: [B, T, S] for T queries and S keys.

    ``keys`` maps a memory [B, S, D] to keys [B, S, ``key_width``], once for all queries of a sentence.
    """

    key_width: int

    def keys(self, memory_BSD: Tensor) -> Tensor: ...

    def __call__(self, query_BTD: Tensor, key_BSK: Tensor) -> Tensor: ...


class Attention(Protocol[S]):
    """Reads a memory. ``start`` projects the memory once per sentence and returns the first state.

    Each call returns for each query a context [N, T, width], the attention weights [N, T, S] and the next state. N is a
    multiple of the memory's B rows: the hypotheses of a source are adjacent. Weights sum to 1 and are 0 on padding.
    """

    width: int

    def start(self, memory: Memory) -> S: ...

    def __call__(self, query_BTD: Tensor, state: S) -> tuple[Tensor, Tensor, S]: ...


AnyAttention = Attention[Any]


class Bridge(Protocol):
    """Makes a recurrent decoder's first state: maps the leaves of the memory's summary to the leaves of the state.

    All leaves are [B, D], each with its own D.
    """

    def __call__(self, summary: Sequence[Tensor]) -> Sequence[Tensor]: ...


class Wiring(Protocol[S]):
    """Connects the cells of a recurrent decoder with its attention (layers/modules/wirings.py).

    It makes and owns the ``stack`` of cells (``modules.recurrent.Stack``), because only it knows the width of their
    input. ``start`` takes the cells' first state. A call maps embedded tokens [B, T, E] to features [B, T, ``width``].
    """

    width: int
    stack: Any

    def start(self, memory: Memory, cells: tuple[object, ...]) -> S: ...

    def __call__(self, x_BTE: Tensor, state: S) -> tuple[Tensor, S]: ...


AnyWiring = Wiring[Any]


class Mixer(Protocol):
    """Mixes the positions of each row in an encoder's layer: [B, S, D] to [B, S, D].

    Values at padding do not change the result at real positions. The layer builds it with ``width``, ``heads`` and
    ``dropout``, as it builds a ``CausalMixer``.
    """

    def __call__(self, x: Padded) -> Tensor: ...


class CausalMixer(Protocol[S]):
    """Mixes each position [B, T, D] with itself and earlier positions of its row, which the state remembers.

    ``places_BT`` are the positions' numbers, from 0 in each row. A call returns [B, T, D] and the next state.
    """

    def start(self, rows: int, like: Tensor) -> S: ...

    def __call__(self, x_BTD: Tensor, state: S, places_BT: Tensor) -> tuple[Tensor, S]: ...


AnyMixer = CausalMixer[Any]


class Positions(Protocol):
    """Maps position numbers [B, T] (from 0) to vectors [B, T, width] to add to the embeddings, or to 0.0 (nothing to
    add).
    """

    def __call__(self, positions_BT: Tensor) -> Tensor | float: ...


class Relative(Protocol):
    """How relative positions enter self-attention. Made with ``heads``, the ``width`` of a head and ``causal``.

    H heads, T queries, S keys. ``turn`` returns query and key, turned by their places. ``bias`` returns the given bias
    plus its own terms, [B, 1 or H, T, S]. ``read`` returns a function that maps the weights [B, H, T, S] to a term that
    is added to the weighted sum of the values; None if there is no such term. ``keep`` removes all heads but the given
    ones.
    """

    def turn(self, query_BHTD: Tensor, key_BHTD: Tensor, places_BT: Tensor) -> tuple[Tensor, Tensor]: ...

    def bias(self, bias_B1TS: Tensor, query_BHTD: Tensor, places_BT: Tensor) -> Tensor: ...

    def read(self, places_BT: Tensor, keys: int) -> Callable[[Tensor], Tensor] | None: ...

    def keep(self, heads: Sequence[int]) -> None: ...


class FeedForward(Protocol):
    """Maps features [..., width] to features of the same shape, each position alone."""

    def __call__(self, x: Tensor) -> Tensor: ...


class Residual(Protocol):
    """A residual connection around a sublayer f.

    ``enter`` returns f's input for x. ``leave`` returns the connection's output for x and f's output. ``final`` comes
    after the last connection of a stack.
    """

    def enter(self, x: Tensor) -> Tensor: ...

    def leave(self, x: Tensor, y: Tensor) -> Tensor: ...

    def final(self) -> nn.Module: ...


@runtime_checkable
class TakesVectors(Protocol):
    """A table of source tokens that can take word vectors from ``file``. ``file`` is None if the table takes none.

    ``fill`` takes some token ids [N] and their vectors [N, ``width``], and fills the table in place. It returns the
    number of these tokens that the table has.
    """

    file: str | None

    @property
    def width(self) -> int: ...

    def fill(self, ids_N: Tensor, vectors_ND: Tensor) -> int: ...
