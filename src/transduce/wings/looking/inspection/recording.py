"""Records values of a model while any code runs it: attention weights, states of cells, outputs of layers.

B rows, T positions of a call, S keys of attention, H heads, W the width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from transduce.answers.transducer import Transducer
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.registry import model_name
from transduce.wings.alignment.attention_weights import recorded

Arrays = dict[str, list[NDArray[np.float32]]]
Trace = dict[str, Arrays]
Parts = dict[str, list[Tensor]]  # by the name of a part in the model, a tensor for each call


@contextmanager
def record(model: Transducer | nn.Module, *kinds: str) -> Iterator[Mapping[str, Arrays]]:
    """A context that records values of the model inside it: in a prediction, in a score or in your own forward pass.

    ``kinds`` are one or more of:

    - "attention": the weights of each attention, [B, H, T, S], or [B, T, S] if it has no heads.
    - "cells": the state of each recurrent cell after each position, [B, T, W], with padding. An LSTM's state has two
      tensors: NAME.0 is its output h and NAME.1 its memory cell c. Positions are in the order in which the cell reads
      them; a backward cell reads the last one first.
    - "gates": the gates of each recurrent cell at each position, between 0 and 1, [B, T, W]. An LSTM has NAME.forget,
      NAME.input and NAME.output.
    - "layers": the output of each layer of a Transformer, [B, T, W].

    The result maps each kind to the names of parts in the model, and each name to a list with one array for each call.
    A search calls its decoder once for each token. The arrays are float32 on the CPU. They are complete when the
    context has ended, which also removes all hooks. The model's results do not change, but recording takes time. Raises
    UserError without kinds, for an unknown kind, and if the model has no part of a kind.
    """
    module = model.model if isinstance(model, Transducer) else model
    assert isinstance(module, nn.Module)
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise UserError(f"record({', '.join(map(repr, unknown))}): give one or more of {', '.join(map(repr, KINDS))}")
    trace: Trace = {}
    with ExitStack() as taps:
        seen: dict[str, Parts] = {}
        for tap in dict.fromkeys(KINDS[kind] for kind in kinds):
            seen |= taps.enter_context(tap(module))
        for kind in kinds:
            if not seen[kind]:
                raise UserError(f"this {model_name(type(module))} model has no {kind}, so there is nothing to record")
            trace[kind] = {}
        yield trace
        # A cell's tensors are known only after it has run, so the arrays are made at the end.
        for kind in kinds:
            trace[kind].update({name: [_array(each) for each in several] for name, several in seen[kind].items()})


@contextmanager
def _attention(module: nn.Module) -> Iterator[dict[str, Parts]]:
    with recorded(module) as seen:
        yield {"attention": seen}


@contextmanager
def _layers(module: nn.Module) -> Iterator[dict[str, Parts]]:
    """A context with the outputs of all modules that have a mixer in a residual connection, like ``blocks.Block``."""
    seen: Parts = {}
    hooks = []
    for path, layer in module.named_modules():
        if hasattr(layer, "mixer_residual"):
            seen[path] = []
            hooks.append(layer.register_forward_hook(partial(_note_output, seen[path])))
    try:
        yield {"layers": seen}
    finally:
        for hook in hooks:
            hook.remove()


def _note_output(into: list[Tensor], layer: nn.Module, given: object, result: Tensor | tuple[Tensor, ...]) -> None:
    into.append((result[0] if isinstance(result, tuple) else result).detach())


def cells_of(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The recurrent cells of a model, each with its name in the model."""
    for path, cell in module.named_modules():
        if hasattr(cell, "unroll") and hasattr(cell, "step") and hasattr(cell, "project"):
            yield path, cell


@contextmanager
def _stepped(module: nn.Module) -> Iterator[dict[str, Parts]]:
    """A context with the "cells" and the "gates" of every step of all cells. A cell has no ``forward`` for a hook. So
    its two methods are replaced on the object, and the replacements are deleted at the end.
    """
    seen: dict[str, Parts] = {"cells": {}, "gates": {}}
    cells = list(cells_of(module))
    for path, cell in cells:
        _tap(cell, path, seen)
    try:
        yield seen
    finally:
        for _, cell in cells:
            del cell.step, cell.unroll


def _tap(cell: Any, path: str, seen: dict[str, Parts]) -> None:
    step, unroll = cell.step, cell.unroll

    def note(steps: list[dict[str, dict[str, Tensor]]]) -> None:
        for kind, parts in steps[0].items():
            for name in parts:
                values_BTW = torch.stack([each[kind][name].detach() for each in steps], 1)
                seen[kind][path + name].append(values_BTW)

    def noted_step(projected_BG: Tensor, state: object) -> object:
        result, found = _read_step(cell, step, projected_BG, state)
        note([found])
        return result

    def noted_unroll(x_BTD: Tensor, state: object, *lengths: Tensor) -> object:
        # A fused kernel returns only the last state, so all steps are computed once more, one by one.
        with torch.no_grad():
            steps, now = [], state
            for projected_BG in cell.project(x_BTD).unbind(1):
                (_, now), found = _read_step(cell, step, projected_BG, now)
                steps.append(found)
        note(steps)
        return _quietly(cell, step, noted_step, lambda: unroll(x_BTD, state, *lengths))

    # A cell that never runs has names, too, because a part without names is not a cell.
    with torch.no_grad():
        like = next(cell.parameters())
        _, found = _read_step(cell, step, like.new_zeros(1, cell.projected_width), cell.start(1, like))
    for kind, parts in found.items():
        seen[kind].update({path + name: [] for name in parts})
    cell.step, cell.unroll = noted_step, noted_unroll


def _read_step(
    cell: Any, step: Callable[[Tensor, object], tuple[Tensor, object]], projected_BG: Tensor, state: object
) -> tuple[tuple[Tensor, object], dict[str, dict[str, Tensor]]]:
    """The result of a step, and the values to record: the tensors of the new state, and the gates. The sigmoids of a
    step are its gates, in the order of the cell's ``gate_names``.
    """
    with _Sigmoids() as opened:
        result = step(projected_BG, state)
    leaves = list(tree.leaves(result[1]))
    states = {"": leaves[0]} if len(leaves) == 1 else {f".{number}": leaf for number, leaf in enumerate(leaves)}
    each = [part for values_BG in opened.values for part in values_BG.split(cell.width, 1)]
    names = getattr(cell, "gate_names", range(len(each)))
    gates = {f".{name}": part for name, part in zip(names, each, strict=False)}
    return result, {"cells": states, "gates": gates}


class _Sigmoids(TorchFunctionMode):
    """A context that keeps the results of all sigmoids inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[Tensor] = []

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: object,
        arguments: tuple[object, ...] = (),
        options: dict[str, object] | None = None,
    ) -> object:
        result = function(*arguments, **(options or {}))
        if function in (torch.sigmoid, Tensor.sigmoid):
            self.values.append(result)
        return result


def _quietly(cell: Any, step: object, noted: object, call: Callable[[], object]) -> object:
    """The result of ``call``. Meanwhile the cell's ``step`` is not recorded a second time, because ``unroll`` may use
    it.
    """
    cell.step = step
    try:
        return call()
    finally:
        cell.step = noted


def _array(values: Tensor) -> NDArray[np.float32]:
    return values.detach().float().cpu().numpy()


KINDS: dict[str, Callable[[nn.Module], AbstractContextManager[dict[str, Parts]]]] = {
    "attention": _attention,
    "cells": _stepped,
    "gates": _stepped,
    "layers": _layers,
}
