"""What a decoder reads as it writes: attention weights of a finished output, as numbers, as text, as a picture.

S source tokens, T target tokens, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from transduce.data.tokenizers import Tokenizer
from transduce.search.forcing import shifted
from transduce.transducer import Transducer
from transduce.types import EOS, PAD, SPECIALS, Autoregressive, Padded, lacking_verbs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TAP = "weights"  # what attention calls the identity that its weights pass through
SHADES = " ░▒▓█"


@dataclass(frozen=True)
class AttentionMap:
    """Of each target token, the shares of attention the source tokens got just before it was written.

    ``weights`` are by the name of the attention in the model, in the order of its layers, [T, S] each; rows sum to 1.
    Both sides end with their ``</s>``.
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    weights: dict[str, Tensor]

    def mean(self) -> Tensor:
        """[T, S]: the average over the model's attentions."""
        return torch.stack(list(self.weights.values())).mean(0)

    def lines(self, name: str | None = None) -> list[str]:
        """One attention, or the average, as shaded cells for the terminal: a row for each target token, a column for
        each source token."""
        width = max(map(len, self.source_tokens))
        margin = max(map(len, self.target_tokens))
        weights_TS = self.mean() if name is None else self.weights[name]
        shade_TS = (weights_TS * len(SHADES)).long().clamp(max=len(SHADES) - 1).tolist()
        head = " ".join(f"{token:^{width}}" for token in self.source_tokens)
        rows = (" ".join(SHADES[shade] * width for shade in row) for row in shade_TS)
        body = (f"{token:>{margin}}  {row}" for token, row in zip(self.target_tokens, rows, strict=True))
        return [line.rstrip() for line in (f"{'':{margin}}  {head}", *body)]


@torch.inference_mode()
def attention(transducer: Transducer, source: str, target: str | None = None, head: int | None = None) -> AttentionMap:
    """The attention to ``source`` as the model writes ``target``, by default its own best output.

    The output is teacher-forced once. Many heads are averaged, unless one is asked for by its number from 0. Raises
    ValueError where the model has no attention to the source, or no such head.
    """
    model: Any = transducer.model
    if lacking_verbs(type(model), Autoregressive):
        raise ValueError(f"this {type(model).__name__} writes all at once, and attention is shown word by word")
    source_ids = transducer.source_tokenizer.encode([source])[0]
    read = Padded(torch.tensor([source_ids]), torch.tensor([len(source_ids)])).to(transducer.device)
    if target is None:
        target_ids = list(transducer.search(model, read)[0][0].tokens)
    else:
        target_ids = transducer.target_tokenizer.encode([target])[0]
    # Longer than the source, so that weights over S positions are of the memory and not of the output's own past;
    # what stands behind the output changes nothing in it.
    padding = [PAD] * max(0, len(source_ids) + 1 - len(target_ids))
    written = Padded(torch.tensor([target_ids + padding]), torch.tensor([len(target_ids)])).to(transducer.device)
    columns = {len(tokens): tokens for tokens in _columns(transducer.source_tokenizer, source_ids)}
    state = model.start(read)
    with _tapped(model) as seen:
        model.extend(shifted(written), state)
    weights = {
        name: _one_head(torch.cat(parts, -2)[0, ..., : len(target_ids), :], head).float().cpu()
        for name, parts in seen.items()
        if parts and parts[0].shape[-1] in columns
    }
    if not weights:
        raise ValueError(
            f"this {type(model).__name__} does not attend to its source, so there is nothing to see; "
            'attention comes with model.decoder.wiring = "luong" or "bahdanau", or with the decoder "transformer"'
        )
    return AttentionMap(
        columns[next(iter(weights.values())).shape[-1]],
        tuple(transducer.target_tokenizer.tokens(target_ids)),
        weights,
    )


def _columns(tokenizer: Tokenizer, ids: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """What an encoder may have states for: tokens with their factors, text without its labels, or all ids."""
    pieces, factors = tokenizer.tokens(ids), tokenizer.factors
    yield tuple("".join(pieces[place : place + factors]) for place in range(0, len(pieces), factors))
    yield tuple(pieces[tokenizer.labels :])
    yield tuple(pieces)


@contextmanager
def _tapped(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """While entered, what passes the taps of a model, by the name of the attention each belongs to."""
    seen: dict[str, list[Tensor]] = {}
    hooks = []
    for path, module in model.named_modules():
        name, _, last = path.rpartition(".")
        if last == TAP and isinstance(module, nn.Identity):
            seen[name] = []
            hooks.append(module.register_forward_hook(partial(_keep, seen[name])))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _keep(parts: list[Tensor], module: nn.Module, inputs: Any, output: Tensor) -> None:
    parts.append(output)


def _one_head(weights: Tensor, head: int | None) -> Tensor:
    """[T, S] of [T, S] or [H, T, S]."""
    heads_HTS = weights if weights.ndim == 3 else weights[None]
    if head is None:
        return heads_HTS.mean(0)
    if not 0 <= head < len(heads_HTS):
        raise ValueError(f"head = {head}: there are {len(heads_HTS)}, numbered from 0")
    return heads_HTS[head]


# ------------------------------------------------------------------- picture

CELL = 0.42  # inches
INK, FAINT = "#1f2933", "#7b8794"


def plot(found: AttentionMap, path: str | Path) -> None:
    """Draw the map into a file (.png, .svg, .pdf): source tokens across, target tokens down, a panel per attention.

    Raises ImportError, naming the extra to install, without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("drawing needs matplotlib: pip install 'transduce[plots]'") from error

    panels = len(found.weights)
    wide, high = CELL * len(found.source_tokens), CELL * len(found.target_tokens)
    figure = Figure(figsize=(panels * (wide + 1.1) + 0.6, high + 1.5), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for ax, (name, weights_TS) in zip(axes, found.weights.items(), strict=True):
        _panel(ax, found, weights_TS)
        if panels > 1:
            ax.set_title(name, fontsize=8, color=FAINT, pad=10)
    bar = figure.colorbar(axes[-1].collections[0], ax=list(axes), shrink=0.6, aspect=18, ticks=[0, 0.5, 1])
    bar.set_label("share of attention", color=FAINT, fontsize=9)
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=FAINT)
    bar.outline.set_visible(False)
    figure.savefig(path, dpi=160, bbox_inches="tight", pad_inches=0.15)


def _panel(ax: Axes, found: AttentionMap, weights_TS: Tensor) -> None:
    T, S = weights_TS.shape
    ax.pcolormesh(weights_TS.numpy(), cmap="Blues", vmin=0, vmax=1, edgecolors="white", linewidth=2)
    ax.set_aspect("equal")
    ax.invert_yaxis()
    ax.xaxis.tick_top()
    turn = 60 if max(map(len, found.source_tokens[:-1]), default=1) > 2 else 0
    ax.set_xticks([s + 0.5 for s in range(S)], found.source_tokens, rotation=turn)
    ax.set_yticks([t + 0.5 for t in range(T)], found.target_tokens)
    labels, tokens = [*ax.get_xticklabels(), *ax.get_yticklabels()], [*found.source_tokens, *found.target_tokens]
    for label, token in zip(labels, tokens, strict=True):
        end = token == SPECIALS[EOS]
        label.set(color=FAINT if end else INK, fontsize=9 if end else 12, parse_math=False)  # a "$" in the text is text
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
