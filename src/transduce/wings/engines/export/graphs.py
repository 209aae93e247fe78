"""The graphs of a model: functions of tensors alone, which an engine can run.

B sources, K hypotheses of each, N = B * K rows, S source positions, T output positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from transduce.core import tree
from transduce.core.chain import Trellis
from transduce.core.config import Table
from transduce.core.errors import UserError
from transduce.core.protocols import (
    Aligner,
    Autoregressive,
    Chain,
    Deriving,
    Distribution,
    Framewise,
    Joint,
    Parallel,
    Regressor,
    can,
)
from transduce.core.registry import model_name
from transduce.core.types import BOS, Padded
from transduce.models.instant import AssembledInstant, InstantState
from transduce.training.counted import Counted, PartlyCounted
from transduce.wings.ctc.prefixes import Prefixes

Kind = Literal["own", "shared", "buffer"]
Axes = dict[int, bool]  # of a tensor: those that vary
HYPOTHESES, CAPACITY = 3, 13  # of the example; different from the other sizes, or the exporter takes two for one
NO_GRAPH = {
    Regressor: "writes numbers, which no engine but PyTorch forecasts yet",
    Deriving: "translates phrase by phrase, from tables that change with the source",
    Aligner: "aligns two sentences and writes nothing",
    Counted: "looks its counts up in tables, where the size of each step depends on the input",
    PartlyCounted: "looks counts up in tables, where the size of each step depends on the input",
}


@dataclass(frozen=True)
class Graph:
    """A module of tensors alone, its example inputs, and the axes of each input that vary: ``varying`` has the
    structure of ``inputs``, with a table {axis: True} in place of each tensor.

    ``notes`` are facts about the graph for the engine.
    """

    module: nn.Module
    inputs: tuple[Tensor | list[Tensor], ...]
    varying: tuple[Axes | list[Axes], ...]
    notes: Table = field(default_factory=dict)


def graphs_of(model: Any, source: Padded, longer: Padded) -> tuple[str, dict[str, Graph]]:
    """The name of the model's kind (a key of ``engines.onnx.CLASSES``), and its graphs by name.

    ``source`` is an example with several rows. ``longer`` has the same rows with more padding: it shows which axes vary
    with the source. Raises UserError for a model that cannot be a graph.
    """
    kind = type(model)
    reason = next((reason for way, reason in NO_GRAPH.items() if can(kind, way)), None)
    if reason is not None:
        raise UserError(
            f"this {model_name(kind)} model cannot be exported to ONNX: it {reason}; predict with --engine torch"
        )
    if can(kind, Chain):
        return "chain", {"trellis": of_source(model, _trellis, source)}
    if can(kind, Parallel) and hasattr(kind, "write"):
        return "instant", {"start": of_source(model, _start, source), "write": writing(model, source, longer)}
    if can(kind, Parallel):
        return "labels", {"emit": of_source(model, _emit, source)}
    if can(kind, Joint):
        frames = replace(of_source(model, _frames, source), notes={"weights": list(model.weights)})
        decoder = JointDecoder(model, source)
        graphs = {"start": of_source(decoder, _start, source), "step": stepping(decoder, source, longer)}
        return "joint", graphs | {"frames": frames}
    if can(kind, Framewise) and can(kind, Autoregressive) and isinstance(model.start(source), Prefixes):
        return "ctc", {"frames": of_source(model, _frames, source)}
    if can(kind, Autoregressive):
        graphs = {"start": of_source(model, _start, source), "step": stepping(model, source, longer)}
        return "autoregressive", graphs
    raise UserError(f"this {model_name(kind)} model cannot be exported to ONNX: it follows no protocol of a graph")


def of_source(model: nn.Module, function: Callable[[Any, Padded], object], source: Padded) -> Graph:
    """The graph of a function of the model and a source. Its inputs are the source's values and lengths; its outputs
    are the leaves of the function's result.
    """
    return Graph(OfSource(model, function), (source.values, source.lengths), ({0: True, 1: True}, {0: True}))


def _start(model: Distribution, source: Padded) -> object:
    return model.start(source)


def _frames(model: Framewise, source: Padded) -> tuple[Tensor, Tensor]:
    frames = model.frames(source)
    return frames.values, frames.lengths


def _trellis(model: Chain, source: Padded) -> Trellis:
    return model.trellis(source)


def _emit(model: Parallel[object], source: Padded) -> tuple[Tensor, Tensor]:
    emission = model.emit(model.start(source))
    return model.readout(emission.output), emission.lengths


@torch.no_grad()
def stepping(model: Autoregressive[object], source: Padded, longer: Padded) -> Graph:
    """The graph of one step (``Step``). Its note "kinds" has the kind of each leaf of the state (``kinds_of``), and its
    note "changing" the places of the leaves that a step changes. Raises UserError if a step changes a leaf that
    hypotheses share.
    """
    B = len(source.lengths)
    kinds = kinds_of(model.start(source))
    state = tree.reserve(model.start(source), CAPACITY)
    before = [leaf.clone() for leaf in tree.leaves(state)]
    _, after = model.extend(torch.full((B, 1), BOS), tree.fill(state, before))
    pairs = zip(kinds, before, tree.leaves(after), strict=True)
    changing = [place for place, (kind, old, new) in enumerate(pairs) if kind == "buffer" or old is not new]
    if any(kinds[place] == "shared" for place in changing):
        raise UserError(
            f"this {model_name(type(model))} model cannot be exported to ONNX: its steps change what hypotheses share"
        )
    fresh = tree.leaves(tree.reserve(model.start(source), CAPACITY))
    other = tree.leaves(tree.reserve(model.start(longer), CAPACITY))
    leaves, varying = [], []
    for kind, leaf, larger in zip(kinds, fresh, other, strict=True):
        axes = {axis for axis in range(1, leaf.ndim) if leaf.shape[axis] != larger.shape[axis]}
        axes |= {2} if kind == "buffer" else set()
        if kind == "shared":
            leaves.append(leaf)
            varying.append(dict.fromkeys([0, *axes], True))
        else:
            leaves.append(leaf[:, None].repeat(1, HYPOTHESES, *[1] * (leaf.ndim - 1)))
            varying.append(dict.fromkeys([0, 1, *(axis + 1 for axis in axes)], True))
    module = Step(model, state, kinds, changing)
    tokens_BK = torch.full((B, HYPOTHESES), BOS)
    notes = {"kinds": kinds, "changing": changing}
    return Graph(module, (tokens_BK, leaves), ({0: True, 1: True}, varying), notes)


@torch.no_grad()
def writing(model: AssembledInstant, source: Padded, longer: Padded) -> Graph:
    """The graph that writes outputs of given lengths (``Write``). Its first input gives the number of positions by its
    size; the values in it are not used.
    """
    state = model.start(source)
    leaves, larger = tree.leaves(state), tree.leaves(model.start(longer))
    varying = [
        dict.fromkeys([0, *(axis for axis in range(1, one.ndim) if one.shape[axis] != two.shape[axis])], True)
        for one, two in zip(leaves, larger, strict=True)
    ]
    lengths_N = torch.full_like(source.lengths, min(CAPACITY, model.decoder.max_length))
    places_T = torch.zeros(int(lengths_N[0]), dtype=torch.long)
    return Graph(Write(model, state), (places_T, lengths_N, leaves), ({0: True}, {0: True}, varying))


class OfSource(nn.Module):
    """A function of a model and a source, such as ``model.start``. A call maps the source's values (ids or numbers) and
    lengths to the leaves of the function's result.
    """

    def __init__(self, model: nn.Module, function: Callable[[Any, Padded], object]) -> None:
        super().__init__()
        self.model = model
        self.function = function

    def forward(self, values: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        return tuple(tree.leaves(self.function(self.model, Padded(values, lengths))))


class JointDecoder(nn.Module):
    """The decoder of a ``Joint`` model as an autoregressive model of its own. ``source`` is any source that the model
    reads.
    """

    def __init__(self, model: Joint[object], source: Padded) -> None:
        super().__init__()
        self.model = model
        with torch.no_grad():
            _, self.decoder, _ = model.parts(source)

    def start(self, source: Padded) -> object:
        return self.model.parts(source)[2]

    def extend(self, tokens_BT: Tensor, state: object) -> tuple[object, object]:
        return self.decoder.extend(tokens_BT, state)

    def readout(self, output: object, candidates: Tensor | None = None) -> Tensor:
        return self.decoder.readout(output, candidates)


class Step(nn.Module):
    """One step of N = B * K rows. ``forward`` takes the tokens [B, K] and the leaves of the state, [B, K, ...], or [B,
    ...] if all hypotheses of a source share them.

    It returns the logits [B, K, V] of the next token, and those leaves of the new state whose places are in
    ``changing``, [B, K, ...] each. Two axes for N rows tell the exporter that N is a multiple of B.
    """

    def __init__(
        self, model: Autoregressive[object], state: object, kinds: Sequence[Kind], changing: Sequence[int]
    ) -> None:
        super().__init__()
        self.model = model
        self.state = state
        self.kinds = tuple(kinds)
        self.changing = tuple(changing)

    def forward(self, tokens_BK: Tensor, leaves: Sequence[Tensor]) -> tuple[Tensor, ...]:
        B, K = tokens_BK.shape
        own = [
            leaf if kind == "shared" else leaf.flatten(0, 1).clone()
            for kind, leaf in zip(self.kinds, leaves, strict=True)
        ]
        output, state = self.model.extend(tokens_BK.reshape(B * K, 1), tree.fill(self.state, own))
        logits_N1V = self.model.readout(output)
        after = tree.leaves(state)
        changed = (logits_N1V[:, 0], *(after[place] for place in self.changing))
        return tuple(torch.unflatten(each, 0, (B, K)) for each in changed)


class Write(nn.Module):
    """The logits [N, T, V] of N outputs at T positions. ``forward`` takes a tensor [T] whose values are not used, the
    outputs' lengths [N], and the leaves of the state.
    """

    def __init__(self, model: AssembledInstant, state: InstantState) -> None:
        super().__init__()
        self.model = model
        self.state = state

    def forward(self, places_T: Tensor, lengths_N: Tensor, leaves: Sequence[Tensor]) -> Tensor:
        output = self.model.write(tree.fill(self.state, leaves), lengths_N, places_T.shape[0])
        return self.model.readout(output)


def kinds_of(state: object) -> list[Kind]:
    """The kind of each leaf of a state, in the order of ``tree.leaves``: "shared" by the hypotheses of a source, a
    "buffer" of positions for each hypothesis, or "own", any other tensor with a row for each hypothesis.
    """
    marks: list[Kind] = []
    own = tree.map(lambda leaf: leaf.new_tensor(0), state, lambda leaf: leaf.new_tensor(1))
    shared = [bool(mark) for mark in tree.leaves(own)]
    before = tree.leaves(state)
    after = tree.leaves(tree.reserve(state, 1 + max((leaf.shape[2] for leaf in before if leaf.ndim > 2), default=0)))
    for mark, one, other in zip(shared, before, after, strict=True):
        marks.append("shared" if mark else "own" if one.shape == other.shape else "buffer")
    return marks
