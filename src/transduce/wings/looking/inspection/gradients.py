"""How far gradients reach back: gradients of the loss at one position by the decoder's state some tokens before it.

B rows, T target tokens, K distances in tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from transduce.answers.transducer import Transducer
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.finite import readable
from transduce.core.protocols import Autoregressive, can
from transduce.core.registry import model_name
from transduce.core.types import Padded
from transduce.search.forcing import shifted
from transduce.wings.pages.palette import FAINT, HUES, INK, RULE
from transduce.wings.pages.plots import figure, save

BAR = 40  # columns of the longest bar on the terminal


@dataclass(frozen=True)
class GradientReach:
    """The norm of the gradient by distance. ``norms[k - 1]`` belongs to the distance of k tokens.

    It is the norm of the gradient of the loss at a token with respect to the decoder's state k tokens before. It is
    averaged over ``positions`` tokens (Bengio et al. 1994; Pascanu et al. 2013).
    """

    norms: tuple[float, ...]
    positions: int

    @property
    def half_life(self) -> float:
        """The distance in tokens over which the norm halves, from a straight line through its logarithms. It is
        infinite if the norm does not shrink.
        """
        slope = self._line[0]
        return math.log(2) / -slope if slope < 0 else math.inf

    def fitted(self, distance: float) -> float:
        """The norm that the straight line gives for a distance in tokens."""
        slope, start = self._line
        return math.exp(start + slope * distance)

    @property
    def _line(self) -> tuple[float, float]:
        """The slope and the value at distance 0 of the logarithm. Norms that are 0 in float32 are left out."""
        points = [(k, math.log(norm)) for k, norm in enumerate(self.norms, 1) if norm > 0]
        if len(points) < 2:
            return -math.inf, -math.inf
        distances, logarithms = np.array(points).T
        slope, start = np.polyfit(distances, logarithms, 1)
        return float(slope), float(start)

    def lines(self) -> list[str]:
        """Lines for the terminal: a row for each distance with its norm and a bar, then the half-life. A bar is shorter
        by one column for each factor of two.
        """
        most = max(self.norms)
        rows = []
        for k, norm in enumerate(self.norms, 1):
            bar = "█" * max(0, BAR + round(math.log2(norm / most))) if norm > 0 else ""
            rows.append(f"{k:4}  {norm:9.3g}  {bar}")
        about = f"half-life {readable(self.half_life, 3)} tokens, from {self.positions} losses"
        return ["back       norm  a column less is half", *rows, about]

    def record(self) -> dict[str, object]:
        """The figures as a JSON object."""
        half_life = self.half_life if math.isfinite(self.half_life) else None
        return {"norms": list(self.norms), "half_life": half_life, "positions": self.positions}


def gradient_reach(transducer: Transducer, pairs: Sequence[tuple[str, str]], distance: int) -> GradientReach:
    """The reach of the gradients of a recurrent decoder on ``pairs`` (source, target), for distances from 1 to
    ``distance`` tokens. The source of a language model is "".

    Targets of at most ``distance`` tokens, with their end, are left out. The others are cut to the length of the
    shortest of them. Each token after the first ``distance`` tokens gives one loss. Raises UserError if the state of
    the decoder grows with the output, as in a Transformer, if ``distance`` < 2, or if no target is long enough.
    """
    if distance < 2:
        raise UserError(f"distance = {distance}: at least 2 tokens were expected")
    model = transducer.model
    if not can(type(model), Autoregressive):
        raise UserError(
            f"this {model_name(type(model))} model does not write token by token, so it has no state to go back to"
        )
    rows = transducer.read_targets([target for _, target in pairs])
    kept = [(source, ids) for (source, _), ids in zip(pairs, rows, strict=True) if len(ids) > distance]
    if not kept:
        raise UserError(
            f"no target has more than {distance} tokens: the longest has {max(map(len, rows), default=0)}; give a "
            "smaller distance or longer texts"
        )
    length = min(len(ids) for _, ids in kept)
    target = transducer.padded([ids[:length] for _, ids in kept], torch.long)
    source = transducer.padded(transducer.read_told([source for source, _ in kept]))
    norms_BTK = _norms(transducer.stepwise, source, target, distance)
    return GradientReach(tuple(norms_BTK.mean((0, 1)).tolist()), norms_BTK.shape[0] * norms_BTK.shape[1])


def _norms(model: Autoregressive[object], source: Padded, target: Padded, distance: int) -> Tensor:
    """The norms of the gradients of each token's loss [B, T - distance, K], from position ``distance`` on."""
    with torch.enable_grad():
        state = tree.map(lambda leaf: leaf.detach().requires_grad_(leaf.is_floating_point()), model.start(source))
        if tree.grows(state):
            raise UserError(
                f"the state of this {model_name(type(model))} model grows with the output, and each token reaches all "
                "others directly: gradients over distance are for recurrent decoders"
            )
        states, rows = list[list[Tensor]](), list[Tensor]()
        ids_BT = target.values
        for t, token_B1 in enumerate(torch.split(shifted(target), 1, 1)):
            states.append(_carried(state))
            features, state = model.extend(token_B1, state)
            if t < distance:
                continue
            logits_BV = model.readout(features)[:, 0]
            loss = nn.functional.cross_entropy(logits_BV.float(), ids_BT[:, t], reduction="sum")
            # The state before position t is the state after token t - 1, at distance 1.
            before = states[t : t - distance : -1]
            flat = [leaf for leaves in before for leaf in leaves]
            gradients = iter(torch.autograd.grad(loss, flat, retain_graph=True, allow_unused=True))
            rows.append(torch.stack([_norm(leaves, gradients) for leaves in before], 1))
    return torch.stack(rows, 1)


def _carried(state: object) -> list[Tensor]:
    """The tensors of a state that change from step to step: no integers, and no tensors that a source's rows share."""
    found: list[Tensor] = []

    def note(leaf: Tensor) -> Tensor:
        if leaf.requires_grad:
            found.append(leaf)
        return leaf

    tree.map(note, state, lambda leaf: leaf)
    return found


def _norm(leaves: Sequence[Tensor], gradients: Iterable[Tensor | None]) -> Tensor:
    """The norm [B] over all tensors of one state. Takes one gradient for each of the ``leaves``."""
    squares = [
        torch.zeros(len(leaf)) if gradient is None else gradient.flatten(1).float().square().sum(1)
        for leaf, gradient in zip(leaves, gradients, strict=False)
    ]
    return torch.stack(squares).sum(0).sqrt()


def plot(curves: Sequence[tuple[str, GradientReach]], path: str | Path) -> None:
    """Draws the curves, each with its name and its fitted line, into a file (.png, .svg, .pdf). The scale of the norms
    is logarithmic. Raises MissingPackageError without matplotlib, and UserError for an unsupported suffix.
    """
    drawn = figure(7.5, 4.2)
    axes = drawn.subplots()
    for number, (name, reach) in enumerate(curves):
        hue, dashes = HUES[number % len(HUES)], "-" if number < len(HUES) else "--"
        xs = range(1, len(reach.norms) + 1)
        axes.plot(xs, reach.norms, dashes, color=hue, linewidth=1.8, label=f"{name}: {readable(reach.half_life, 3)}")
        axes.plot(xs, [reach.fitted(x) for x in xs], ":", color=hue, linewidth=1)
    axes.set_yscale("log")
    axes.set_xlabel("tokens between the loss and the state", color=FAINT)
    axes.set_ylabel("norm of the gradient", color=FAINT)
    axes.legend(frameon=False, fontsize=9, labelcolor=INK, title="half-life in tokens", title_fontsize=9)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=9, labelcolor=INK)
    save(drawn, path)
