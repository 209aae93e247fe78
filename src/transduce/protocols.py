"""The protocols that models and their parts, searches, objectives and metrics meet.

A search, an objective, an inspector and a server never know which model they hold; they know one of these. Shapes as
in types.py.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from torch import Tensor, nn

from transduce.chain import Trellis
from transduce.types import Batch, Emission, Example, Hypothesis, Loss, Memory, MemoryWidths, Padded, Prediction

S = TypeVar("S")  # a decoder's or model's state: a tree of tensors (tree.py)
M_contra = TypeVar("M_contra", contravariant=True)


class Model(Protocol):
    """What a configuration's ``model`` table makes: an ``nn.Module`` that owns a distribution over outputs, in one of
    the ways below, or a ``Regressor``."""

    training: bool


class Distribution(Model, Protocol):
    """What the first two ways share.

    ``start`` makes the first state of a source. ``readout`` turns features [..., D] into logits [..., V], and is asked
    only where needed; ``candidates`` [C] names the columns wanted, in that order. Its result is a tensor of its own: a
    search writes into it what it rules out.
    """

    def start(self, source: Any) -> Any: ...

    def readout(self, output: Any, candidates: Tensor | None = None) -> Tensor: ...


class Autoregressive(Distribution, Protocol[S]):
    """A distribution over outputs, one token after the other: p(y) = prod_t p(y_t | y_<t, x).

    ``extend`` is one function for teacher forcing (T = the whole target), prefill (T = a prompt) and a search
    step (T = 1): features of each new position, and the state after them. A state is consumed by the call;
    ``tree.fork`` copies it where both are wanted.
    """

    def start(self, source: Any) -> S: ...

    def extend(self, tokens_BT: Tensor, state: S) -> tuple[Any, S]: ...


class Parallel(Distribution, Protocol[S]):
    """A distribution over outputs, all tokens at once: p(y) = p(n | x) prod_t p(y_t | t, n, x), n tokens before EOS.

    ``emit`` gives features of outputs of the ``lengths`` [N] wanted (EOS not counted), by default the most probable
    ones. A state is not consumed; with ``tree.repeat`` one source is asked for outputs of several lengths.
    """

    def start(self, source: Any) -> S: ...

    def emit(self, state: S, lengths: Tensor | None = None) -> Emission: ...


class Framewise(Model, Protocol):
    """A distribution over outputs through their alignments a, a symbol or the blank for each frame: p(y) is the sum of
    prod_t p(a_t | t, x) over all that read y when repetitions are merged and blanks left out (Graves et al. 2006).

    What it gives all at once is of frames and not of the output, so that it is not ``Parallel``: whoever asks sums over
    alignments, or searches among them. Those sums can be had prefix by prefix, so that such a model may be
    ``Autoregressive`` as well, and is searched, sampled and mixed like any other.

    ``frames`` gives log-probabilities [B, S, V] of which the first ``lengths`` [B] frames are real; the blank is PAD.
    """

    def frames(self, source: Any) -> Padded: ...


class Joint(Framewise, Protocol[S]):
    """Two distributions over the same outputs, one framewise and one a decoder's, of one encoding of the source.

    ``parts`` encodes once: the frames, the decoder, and the state that it starts from.
    """

    def parts(self, source: Any) -> tuple[Padded, Decoder[S], S]: ...


class Regressor(Model, Protocol):
    """Numbers out: a function of the source, at most ``steps`` steps of ``channels`` numbers each.

    ``predict`` gives [B, T, channels], the first ``steps_B`` [B] steps of each row real, T the most of them, at least
    1. A row's numbers do not depend on the others', nor on how many steps these have.
    """

    steps: int
    channels: int

    def predict(self, source: Any, steps_B: Tensor) -> Tensor: ...


class Chain(Model, Protocol):
    """A distribution over label sequences, one label for each token of the source, each depending on the one before:
    p(y) = exp(score) / Z.

    ``trellis`` scores them; its labels are the ids of the target's vocabulary.
    """

    def trellis(self, source: Any) -> Trellis: ...


def verbs(way: type) -> list[str]:
    """What ``way``, one of those above, asks of a model."""
    return [verb for verb in vars(way) if verb[0] != "_"]


def lacking_verbs(model: type, way: type) -> list[str]:
    """What ``way`` asks of a model and this class cannot."""
    return [verb for verb in verbs(way) if not hasattr(model, verb)]


def lacking_for(user: type, model: type) -> list[str]:
    """What a search or an objective, by the annotation of what it is called with, asks of a model and this class
    cannot."""
    asked = typing.get_type_hints(user.__call__).get("model", Any)
    way = typing.get_origin(asked) or asked
    return lacking_verbs(model, way) if isinstance(way, type) else []


def can(model: type, way: type) -> bool:
    """Whether a class of models can all that ``way`` asks."""
    return not lacking_verbs(model, way)


class Pooler(Protocol):
    """What an encoder leaves of a source as one vector, [B, width]; made with the widths of its
    ``memory``."""

    width: int

    def __call__(self, memory: Memory) -> Tensor: ...


class Encoder(Protocol):
    """``width`` is the last axis of the memory's states, ``summary_widths`` those of the summary's leaves."""

    width: int
    summary_widths: tuple[int, ...]

    def __call__(self, source: Any) -> Memory: ...


def memory_widths(encoder: Encoder) -> MemoryWidths:
    """What a decoder, or a pooling, has to know of an encoder."""
    return MemoryWidths(encoder.width, encoder.summary_widths)


class Table(Protocol):
    """One vector for each word of a vocabulary: an embedding (ids to vectors), or a readout (vectors to logits)."""

    weight: nn.Parameter

    def __call__(self, x: Tensor) -> Tensor: ...


class Embedding(Protocol):
    """A source as vectors, [B, S', width]: one for each of its tokens, or for whatever else it is cut into (words of
    several pieces, frames of a signal, patches of a picture), with the rows' lengths in those.

    Its encoder makes it with ``vocabulary`` and ``width``, and ``scaled`` where vectors are to be multiplied by
    sqrt(width). One that is a ``Table`` too can be shared with a decoder's.
    """

    def embed(self, source: Padded) -> Padded: ...


class Decoder(Protocol[S]):
    """Autoregressive, but started from a memory. ``width`` is the last axis of its features; its two tables may be
    made one, or shared with an encoder's."""

    width: int

    @property
    def embedding(self) -> Table: ...

    @property
    def projection(self) -> Table: ...

    def start(self, memory: Memory) -> S: ...

    def extend(self, tokens_BT: Tensor, state: S) -> tuple[Any, S]: ...

    def readout(self, output: Any, candidates: Tensor | None = None) -> Tensor: ...


class InstantDecoder(Protocol[S]):
    """Writes all positions at once, at most ``max_length`` of them, EOS not counted.

    Called with a state of N rows (K to a source, as after ``tree.repeat``), the ``lengths`` [N] of their outputs and
    the number T of positions, at least 1, which it gives features [N, T, ...]; those past a row's length are nobody's.
    """

    max_length: int

    @property
    def projection(self) -> Table: ...

    def start(self, memory: Memory) -> S: ...

    def __call__(self, state: S, lengths_N: Tensor, positions: int) -> Any: ...

    def readout(self, output: Any, candidates: Tensor | None = None) -> Tensor: ...


class Cell(Protocol[S]):
    """A recurrent cell.

    ``project`` is the part of a step that does not need the state, for all positions in one product (G features);
    ``step`` does the rest. ``unroll`` is both, in order; with ``lengths_B`` a row's state stops at its length, and its
    outputs after that are zeros. ``output`` is what a state shows: y of the step that led to it. ``project`` is linear
    (with a bias): what enters a cell beside x has a product of its own, which is added.
    """

    width: int
    projected_width: int

    def start(self, rows: int, like: Tensor) -> S: ...

    def output(self, state: S) -> Tensor: ...

    def project(self, x_BTD: Tensor) -> Tensor: ...

    def step(self, projected_BG: Tensor, state: S) -> tuple[Tensor, S]: ...

    def unroll(self, x_BTD: Tensor, state: S, lengths_B: Tensor | None = None) -> tuple[Tensor, S]: ...


class Energy(Protocol):
    """How well a query fits a key, before the softmax; ``keys`` is the part computed once a sentence, with
    ``key_width`` features."""

    key_width: int

    def keys(self, memory_BSD: Tensor) -> Tensor: ...

    def __call__(self, query_BTD: Tensor, key_BSK: Tensor) -> Tensor: ...


class Attention(Protocol[S]):
    """``start`` once a sentence; then for each query a context [B, T, width] and the weights [B, T, S] that it was
    read with, threading what it must remember. Weights sum to 1, and are 0 on padding."""

    width: int

    def start(self, memory: Memory) -> S: ...

    def __call__(self, query_BTD: Tensor, state: S) -> tuple[Tensor, Tensor, S]: ...


class Mixer(Protocol):
    """Lets the positions [B, S, D] of a row see one another, in a layer of an encoder: [B, S, D], not minding padding.

    Its layer makes it with ``width``, ``heads`` and ``dropout``, as it does a ``CausalMixer``.
    """

    def __call__(self, x: Padded) -> Tensor: ...


class CausalMixer(Protocol[S]):
    """Lets every position [B, T, D] see itself and those before it, which the state remembers; ``places_BT`` count from
    0 in each row."""

    def start(self, rows: int, like: Tensor) -> S: ...

    def __call__(self, x_BTD: Tensor, state: S, places_BT: Tensor) -> tuple[Tensor, S]: ...


class Objective(Protocol[M_contra]):
    """What training minimises. ``progress`` in [0, 1] is for schedules, ``carry`` is handed from batch to batch."""

    def __call__(self, model: M_contra, batch: Batch, progress: float, carry: Any) -> tuple[Loss, Any]: ...


@runtime_checkable
class ComparesTexts(Protocol):
    """An objective that compares texts: ``reading`` is the same, for ids that ``decode`` makes texts of."""

    def reading(self, decode: Callable[[Sequence[int]], str]) -> Objective[Any]: ...


class Search(Protocol[M_contra]):
    """For each source row, hypotheses, best first. Options are the fields of a frozen dataclass.

    ``prefix`` ids [B, P] are what the outputs of each source begin with (none where its length is 0): language tags,
    prompts, what somebody has written already. Outputs contain it and are scored with it.
    ``force`` searches nothing: it is the model's own log-probability of a given ``target``, ids [B, T] that close with
    EOS. ``resized`` is the search of the same options that keeps ``size`` hypotheses in view and returns ``nbest``;
    what is not said is as it was, as far as the other leaves room (search/sizes.py).
    """

    def __call__(self, model: M_contra, source: Any, prefix: Padded | None = None) -> list[list[Hypothesis]]: ...

    def force(self, model: M_contra, source: Any, target: Padded) -> list[Hypothesis]: ...

    def resized(self, size: int | None = None, nbest: int | None = None) -> Search[M_contra]: ...


class Metric(Protocol):
    """A corpus score of summed statistics: bootstrap and reduction over processes come for free.

    One that ``needs_forcing`` measures the first reference, teacher-forced (``Prediction.forced_...``), and not the
    output.
    """

    name: str
    higher_is_better: bool
    needs_forcing: bool

    @property
    def signature(self) -> str: ...

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]: ...

    def score(self, total: Sequence[float]) -> float: ...
