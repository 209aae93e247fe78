"""Attention weights of a finished output: as numbers, as text, as a picture.

S columns of the source, T target tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from transduce.answers.transducer import Transducer
from transduce.core.types import EOS, SPECIALS
from transduce.metrics.units import columns, padded, shown
from transduce.wings.alignment.attention_weights import attention_weights, check_attends
from transduce.wings.pages.palette import FAINT, INK, PAPER
from transduce.wings.pages.plots import figure, save, shades

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHADES = " ░▒▓█"


@dataclass(frozen=True)
class AttentionMap:
    """For each target token, the attention weights over the source just before the token was written.

    ``weights`` maps the name of each attention in the model, in the order of its layers, to its weights [T, S]. Rows
    sum to 1. Row t belongs to ``target_tokens[t]``, and column s to ``source_tokens[s]``. A column may join several
    tokens if the encoder merges them. Both sides end with ``</s>``. ``heads`` has the number of heads of each
    attention.
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    weights: dict[str, Tensor]
    heads: Mapping[str, int] = field(default_factory=dict)

    def mean(self) -> Tensor:
        """The average [T, S] over the model's attentions."""
        return torch.stack(list(self.weights.values())).mean(0)

    def lines(self, name: str | None = None) -> list[str]:
        """Lines for the terminal: the source tokens, then a row of shaded cells for each target token, a column per
        source token.

        ``name`` selects one attention; None is the average of all.
        """
        sources, targets = ([*map(shown, tokens)] for tokens in (self.source_tokens, self.target_tokens))
        width, margin = (max(map(columns, tokens)) for tokens in (sources, targets))
        weights_TS = self.mean() if name is None else self.weights[name]
        shade_TS = (weights_TS * len(SHADES)).long().clamp(max=len(SHADES) - 1).tolist()
        head = " ".join(padded(token, width, "^") for token in sources)
        rows = (" ".join(SHADES[shade] * width for shade in row) for row in shade_TS)
        body = (f"{padded(token, margin, '>')}  {row}" for token, row in zip(targets, rows, strict=True))
        return [line.rstrip() for line in (f"{'':{margin}}  {head}", *body)]


@torch.inference_mode()
def attention(transducer: Transducer, source: str, target: str | None = None, head: int | None = None) -> AttentionMap:
    """The attention to the text ``source`` while the model writes ``target``, by default its own best output.

    The whole target is given to the model in one forward pass. Heads are averaged unless ``head`` selects one, counted
    from 0. Raises UserError if the model has no attention to the source, or no such head.
    """
    check_attends(transducer.model)
    source_ids = transducer.read_one(source)
    if target is None:
        target_ids = list(transducer.search_with(transducer.search, transducer.padded([source_ids]))[0][0].tokens)
    else:
        (target_ids,) = transducer.read_targets([target], [source])
    found = attention_weights(transducer, [source_ids], [target_ids])
    pieces = transducer.source_tokenizer.tokens(source_ids)
    return AttentionMap(
        tuple("".join(pieces[first:behind]) for first, behind in found.columns[0]),
        tuple(transducer.target_tokenizer.tokens(target_ids)),
        {name: weights_BTS[0, : len(target_ids)].float().cpu() for name, weights_BTS in found.weights(head).items()},
        found.counts,
    )


# ------------------------------------------------------------------- picture

CELL = 0.42  # inches


def plot(found: AttentionMap, path: str | Path) -> None:
    """Draws the map into a file (.png, .svg, .pdf): source tokens across, target tokens down, one panel per attention.

    Raises MissingPackageError without matplotlib, and UserError for an unsupported suffix.
    """
    panels = len(found.weights)
    wide, high = CELL * len(found.source_tokens), CELL * len(found.target_tokens)
    drawn = figure(panels * (wide + 1.1) + 0.6, high + 1.5)
    axes = drawn.subplots(1, panels, squeeze=False)[0]
    for ax, (name, weights_TS) in zip(axes, found.weights.items(), strict=True):
        _panel(ax, found, weights_TS)
        if panels > 1:
            ax.set_title(name, fontsize=8, color=FAINT, pad=10)
    axes[0].set_ylabel("written", color=FAINT, fontsize=9)
    axes[0].set_xlabel("read", color=FAINT, fontsize=9)
    bar = drawn.colorbar(axes[-1].collections[0], ax=list(axes), shrink=0.6, aspect=18, ticks=[0, 0.5, 1])
    bar.set_label("share of attention; a row sums to 1", color=FAINT, fontsize=9)
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=FAINT)
    bar.outline.set_visible(False)
    save(drawn, path)


def _panel(ax: Axes, found: AttentionMap, weights_TS: Tensor) -> None:
    T, S = weights_TS.shape
    ax.pcolormesh(weights_TS.numpy(), cmap=shades(), vmin=0, vmax=1, edgecolors=PAPER, linewidth=2)
    ax.set_aspect("equal")
    ax.invert_yaxis()
    ax.xaxis.tick_top()
    turn = 60 if max(map(len, found.source_tokens[:-1]), default=1) > 2 else 0
    ax.set_xticks([s + 0.5 for s in range(S)], found.source_tokens, rotation=turn)
    ax.set_yticks([t + 0.5 for t in range(T)], found.target_tokens)
    labels, tokens = [*ax.get_xticklabels(), *ax.get_yticklabels()], [*found.source_tokens, *found.target_tokens]
    for label, token in zip(labels, tokens, strict=True):
        end = token == SPECIALS[EOS]
        label.set(
            color=FAINT if end else INK, fontsize=9 if end else 12, parse_math=False
        )  # matplotlib would read "$" as a formula
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
