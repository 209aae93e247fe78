"""How close the states of a Transformer come to rank one with depth, with and without parts of its layers.

S positions, W features. Attention alone makes the states of all positions equal, doubly exponentially with depth. Skip
connections prevent it (Dong, Cordonnier and Loukas, "Attention is not all you need", ICML 2021).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.protocols import Residual
from transduce.core.registry import model_name
from transduce.search.forcing import shifted
from transduce.wings.looking.inspection.untrained import untrained
from transduce.wings.pages.palette import FAINT, HUES, INK, RULE
from transduce.wings.pages.plots import figure, save

PARTS: dict[str, tuple[bool, bool]] = {  # skip connections, feed-forward networks
    "attention alone": (False, False),
    "with feed-forward": (False, True),
    "with skips": (True, False),
    "with both": (True, True),
}


@dataclass(frozen=True)
class RankResiduals:
    """``curves`` maps names of models to residuals by depth: for the embedded tokens, then after each layer.

    The residual is the Frobenius norm of the states minus their mean over positions, divided by the norm of the states.
    It is 0 if all positions have the same state, and at most 1.
    """

    curves: Mapping[str, tuple[float, ...]]

    def lines(self) -> list[str]:
        """A table for the terminal: a row for each model, a column for each depth."""
        width = max(map(len, self.curves))
        depth = len(next(iter(self.curves.values())))
        head = "".join(f"{layer:>10}" for layer in range(depth))
        rows = (f"{name:{width}}" + "".join(f"{each:10.2g}" for each in row) for name, row in self.curves.items())
        return [f"{'layers':{width}}{head}", *rows]

    def plot(self, path: str | Path) -> None:
        """Draws the curves into a file (.png, .svg, .pdf); models without training are dashed. Raises
        MissingPackageError without matplotlib, and UserError for an unsupported suffix.
        """
        drawn = figure(7.5, 4.2)
        axes = drawn.subplots()
        for number, (name, row) in enumerate(self.curves.items()):
            dashes = "--" if name.startswith(UNTRAINED) else "-"
            axes.plot(row, dashes, color=HUES[number % len(PARTS)], linewidth=1.8, label=name)
        axes.set_yscale("log")
        axes.set_xlabel("layers", color=FAINT)
        axes.set_ylabel("residual from rank one", color=FAINT)
        axes.legend(frameon=False, fontsize=9, labelcolor=INK)
        axes.grid(axis="y", color=RULE, linewidth=0.8)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, labelsize=9, labelcolor=INK)
        save(drawn, path)


UNTRAINED = "untrained, "


@torch.inference_mode()
def rank_residuals(transducer: Transducer, text: str) -> RankResiduals:
    """The residuals of a Transformer's encoder for the source ``text``, or of a language model's decoder for ``text``.

    They are computed for the whole model, then without its skip connections, without its feed-forward networks, and
    without both. The same follows for an untrained model of the same settings. Raises UserError if the model has no
    layers of a Transformer.
    """
    curves, row = dict[str, tuple[float, ...]](), _row(transducer, text)
    for prefix, one in (("", transducer), (UNTRAINED, untrained(transducer))):
        for name, (skips, feedforward) in PARTS.items():
            curves[prefix + name] = _residuals(one, row, skips, feedforward)
    return RankResiduals(curves)


def residual(states_SW: Tensor) -> float:
    """The norm of states minus their mean over positions, divided by the norm of the states. It is 0 if all are 0."""
    states_SW = states_SW.double()
    whole = float(states_SW.norm())
    return float((states_SW - states_SW.mean(0)).norm()) / whole if whole else 0.0


def _row(transducer: Transducer, text: str) -> Any:
    """The ids of the text that the layers read: a source, or a language model's target."""
    return transducer.read_one(text) if transducer.conditional else transducer.read_targets([text], what="input")[0]


def _residuals(transducer: Transducer, row: Sized, skips: bool, feedforward: bool) -> tuple[float, ...]:
    model: Any = copy.deepcopy(transducer.model)
    if not _layers(model):
        raise _no_depth(model)
    for layer in _layers(model):
        if not feedforward:
            layer.feedforward, layer.feedforward_residual = nn.Identity(), Bare()
        if not skips:
            layer.mixer_residual = WithoutSkip(layer.mixer_residual)
            layer.feedforward_residual = WithoutSkip(layer.feedforward_residual)
    with _recorded(model) as states, transducer.computing():
        if transducer.conditional:
            model.start(transducer.padded([row]))
        else:
            target = transducer.padded([row], torch.long)
            model.extend(shifted(target), model.start(transducer.padded([transducer.read_one("")])))
    if not states:
        raise _no_depth(model)
    return tuple(residual(each_BSW[0]) for each_BSW in states)


def _no_depth(model: nn.Module) -> UserError:
    return UserError(
        f"this {model_name(type(model))} model has no Transformer's layers over its source, so they have no depth"
    )


def _layers(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if hasattr(module, "mixer_residual")]


@contextmanager
def _recorded(model: nn.Module) -> Iterator[list[Tensor]]:
    """A context with a list that gets the input of the first layer that runs, then the output of each layer."""
    states: list[Tensor] = []

    def note(layer: nn.Module, given: tuple[Tensor, ...], result: Tensor | tuple[Tensor, ...]) -> None:
        if not states:
            states.append(given[0])
        states.append(result[0] if isinstance(result, tuple) else result)

    hooks = [layer.register_forward_hook(note) for layer in _layers(model)]
    try:
        yield states
    finally:
        for hook in hooks:
            hook.remove()


class WithoutSkip(nn.Module):
    """A residual connection without x in its sum. The norms of ``around`` stay."""

    def __init__(self, around: Residual) -> None:
        super().__init__()
        self.around = around

    def enter(self, x: Tensor) -> Tensor:
        entered: Tensor = self.around.enter(x)
        return entered

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        left: Tensor = self.around.leave(torch.zeros_like(x), y)
        return left


class Bare(nn.Module):
    """A connection that adds nothing. If it is around ``nn.Identity``, it returns x unchanged."""

    def enter(self, x: Tensor) -> Tensor:
        return x

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        return y
