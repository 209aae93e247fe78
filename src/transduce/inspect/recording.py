"""What a model computes while anything runs it: attention weights, states of cells, outputs of layers.

B rows, T positions of a call, S positions attended to, H heads, W the width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transduce import tree
from transduce.answers.attention_weights import recorded
from transduce.errors import UserError
from transduce.transducer import Transducer

Arrays = dict[str, list[NDArray[np.float32]]]
Trace = dict[str, Arrays]


@contextmanager
def record(model: Transducer | nn.Module, *kinds: str) -> Iterator[Mapping[str, Arrays]]:
    """A context that records what the model computes inside it: in a prediction, a score or a pass of your own.

    ``kinds`` are one or more of:

    - "attention": the weights of each attention, [B, H, T, S], or [B, T, S] if it has no heads;
    - "cells": the state of each recurrent cell after each position, [B, T, W], padding included. An LSTM's state has
      two tensors: NAME.0 is its output h and NAME.1 its memory cell c. Positions stand in the order in which the cell
      read them; a backward cell reads the last one first;
    - "layers": the output of each layer of a Transformer, [B, T, W].

    The result maps each kind to the names of parts in the model, and each name to a list with one array for each call.
    A search calls its decoder once for each token. The arrays are float32 on the CPU. They are there when the context
    has ended, which takes all taps out again. The model's results do not change; recording takes time. Raises
    UserError for no kind, for an unknown one, and if the model has no part of a kind.
    """
    module = model.model if isinstance(model, Transducer) else model
    assert isinstance(module, nn.Module)
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise UserError(f"record({', '.join(map(repr, unknown))}): give one or more of {', '.join(map(repr, KINDS))}")
    trace: Trace = {}
    with ExitStack() as taps:
        seen = {kind: taps.enter_context(KINDS[kind](module)) for kind in kinds}
        for kind, parts in seen.items():
            if not parts:
                raise UserError(f"this {type(module).__name__} has no {kind}, so there is nothing to record")
            trace[kind] = {}
        yield trace
        # A cell's tensors are known only after it has run, so the arrays are made at the end.
        for kind, parts in seen.items():
            trace[kind].update({name: [_array(each) for each in several] for name, several in parts.items()})


@contextmanager
def _attention(module: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    with recorded(module) as seen:
        yield seen


@contextmanager
def _layers(module: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """The outputs of all modules that have a mixer inside a residual connection, as ``blocks.Block`` has."""
    seen: dict[str, list[Tensor]] = {}
    hooks = []
    for path, layer in module.named_modules():
        if hasattr(layer, "mixer_residual"):
            seen[path] = []
            hooks.append(layer.register_forward_hook(partial(_note_output, seen[path])))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _note_output(into: list[Tensor], layer: nn.Module, given: Any, result: Any) -> None:
    into.append((result[0] if isinstance(result, tuple) else result).detach())


@contextmanager
def _cells(module: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """The states of all modules that are cells (``protocols.Cell``). A cell has no ``forward`` that a hook could
    follow, so its two methods are replaced on the object, and the replacements are deleted at the end.
    """
    seen: dict[str, list[Tensor]] = {}
    tapped: list[Any] = []
    for path, cell in module.named_modules():
        if hasattr(cell, "unroll") and hasattr(cell, "step") and hasattr(cell, "project"):
            tapped.append(cell)
            _tap(cell, path, seen)
    try:
        yield seen
    finally:
        for cell in tapped:
            del cell.step, cell.unroll


def _tap(cell: Any, path: str, seen: dict[str, list[Tensor]]) -> None:
    step, unroll = cell.step, cell.unroll
    example = list(tree.leaves(cell.start(1, next(cell.parameters()))))
    names = [path] if len(example) == 1 else [f"{path}.{number}" for number in range(len(example))]
    seen.update({name: [] for name in names})

    def note(states: list[Any]) -> None:
        for name, leaves in zip(names, zip(*(tree.leaves(state) for state in states), strict=True), strict=True):
            seen[name].append(torch.stack([leaf.detach() for leaf in leaves], 1))

    def noted_step(projected_BG: Tensor, state: Any) -> Any:
        result = step(projected_BG, state)
        note([result[1]])
        return result

    def noted_unroll(x_BTD: Tensor, state: Any, *lengths: Any) -> Any:
        # A fused kernel returns the last state alone, so the states are computed once more, step by step.
        with torch.no_grad():
            states, now = [], state
            for projected_BG in cell.project(x_BTD).unbind(1):
                _, now = step(projected_BG, now)
                states.append(now)
        note(states)
        return _quietly(cell, step, noted_step, lambda: unroll(x_BTD, state, *lengths))

    cell.step, cell.unroll = noted_step, noted_unroll


def _quietly(cell: Any, step: Any, noted: Any, call: Callable[[], Any]) -> Any:
    """The result of ``call``, in which the cell's ``step`` is not noted a second time: ``unroll`` may use it."""
    cell.step = step
    try:
        return call()
    finally:
        cell.step = noted


def _array(values: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = values.detach().float().cpu().numpy()
    return array


KINDS: dict[str, Any] = {"attention": _attention, "cells": _cells, "layers": _layers}
