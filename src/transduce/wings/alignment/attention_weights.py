"""The attention weights of finished outputs: a batch is teacher-forced once, and hooks record the weights.

B outputs, S columns of the source, T target tokens, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from transduce.answers.text_model import TextModel
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, can
from transduce.core.registry import model_name, name_of
from transduce.core.types import PAD, Padded
from transduce.data.tokenizers.base import Tokenizer
from transduce.search.forcing import shifted

WEIGHTS = "weights"  # the name of the nn.Identity in each attention module that its weights pass through
Columns = list[tuple[int, int]]  # the range of source ids that each state stands for: the first, and one past the last


@dataclass(frozen=True)
class AttentionChoice:
    """Which of a model's attentions to the source to read.

    ``name`` is one attention's name in the model; None averages all of them. ``head`` is a head's number from 0; None
    averages the heads. If ``after`` is False, a token has the attention of the step that predicts it. If ``after`` is
    True, it has the attention of the next step: the decoder has then read the token (Chen et al., EMNLP 2020).
    """

    name: str | None = None
    head: int | None = None
    after: bool = False

    def __str__(self) -> str:
        head = "mean of heads" if self.head is None else f"head {self.head}"
        return f"{self.name or 'mean of all'}, {head}, {'after' if self.after else 'before'}"


@dataclass(frozen=True)
class AttentionWeights:
    """The attention of a batch of outputs to their sources. A column of S is a state of the encoder.

    ``heads``: for each attention, by its name in the model, a tensor [B, H, T, S] that is 0 on padding of the source. T
    may be larger than the targets need. ``columns``: for each row, what its columns without padding stand for. Each is
    a range of source ids; for a signal, of states. ``boxes_BS4``: for a signal, where its states lie
    (``modules.signals.grid``); None for text.
    """

    heads: dict[str, Tensor]
    columns: list[Columns]
    boxes_BS4: Tensor | None = None

    def weights(self, head: int | None = None) -> dict[str, Tensor]:
        """For each attention, by its name, [B, T, S]: of one head, or averaged over the heads. Raises UserError if an
        attention has no such head.
        """
        return {name: _one_head(heads_BHTS, head) for name, heads_BHTS in self.heads.items()}

    @property
    def counts(self) -> dict[str, int]:
        """The number of heads of each attention, by its name."""
        return {name: heads_BHTS.shape[1] for name, heads_BHTS in self.heads.items()}

    def chosen(self, choice: AttentionChoice) -> Tensor:
        """[B, T, S]: the chosen attention, at least in float32. If the choice has no name, it is the mean of all
        attentions. ``after`` the last token of T there is no step: it keeps its own.

        Raises UserError if there is no attention of that name, or no such head.
        """
        weights = self.weights(choice.head)
        if choice.name is not None and choice.name not in weights:
            raise UserError(f"no attention {choice.name!r} to the source: there is {', '.join(weights)}")
        several = list(weights.values()) if choice.name is None else [weights[choice.name]]
        mean_BTS = torch.stack(several).mean(0).float()
        return torch.cat([mean_BTS[:, 1:], mean_BTS[:, -1:]], 1) if choice.after else mean_BTS

    @property
    def choices(self) -> list[AttentionChoice]:
        """The mean of all attentions; then for each attention, the mean of its heads and each head. All of them before,
        and then all after the token is read.
        """
        several = [(None, None)] + [
            (name, head) for name, heads_BHTS in self.heads.items() for head in (None, *range(heads_BHTS.shape[1]))
        ]
        return [AttentionChoice(name, head, after) for after in (False, True) for name, head in several]


class NoAttentionError(UserError):
    """A model has no attention to its source, or its engine does not show it."""

    def __init__(self, model: nn.Module) -> None:
        if name_of("Model", type(model)) is None:
            super().__init__("the engine that runs this model does not show its attention: use --engine torch")
            return
        if not can(type(model), Autoregressive):
            super().__init__(
                f"this {model_name(type(model))} model does not write word by word, so it has no attention to its "
                "source; `transduce inspect RUN SOURCE` shows what there is to see"
            )
            return
        super().__init__(
            f"this {model_name(type(model))} model has no attention to its source. A word aligner finds the links of "
            "its words: `transduce train word-alignment` on your pairs, then `transduce align ALIGNER FILES` or "
            "`transduce predict RUN --alignments --aligner ALIGNER`"
        )


def check_attends(model: nn.Module) -> None:
    """Raises NoAttentionError for a model that does not write token by token (``Autoregressive``)."""
    if not can(type(model), Autoregressive):
        raise NoAttentionError(model)


@torch.inference_mode()
def attention_weights(
    text_model: TextModel,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
) -> AttentionWeights:
    """The attention of each target's tokens to its source, by teacher forcing.

    Row b of ``sources`` belongs to row b of ``targets``. Rows are ids that end with EOS; a signal's rows are its steps.
    Attentions that differ from the first one in S are left out. Raises NoAttentionError if the model does not write
    token by token, or has no attention to the source. For a signal, raises UserError if the model does not say where
    its states lie.
    """
    model = text_model.model
    check_attends(model)
    read = _padded(sources).to(text_model.device)
    reaches = [int(reach) for module in model.modules() if (reach := getattr(module, "reach", 0))]
    boxes_BS4 = _boxes(model, read, max(reaches, default=1)) if text_model.source_tokenizer.signal else None
    counts = [_columns(text_model.source_tokenizer, len(ids), reaches) for ids in sources]
    if boxes_BS4 is not None:
        counts = [[_single_columns(int(count))] for count in (boxes_BS4[..., 2] > 0).sum(1)]
    longest: list[Columns] = max(counts, key=lambda kinds: len(kinds[-1]))
    widths = {len(kind): number for number, kind in enumerate(longest)}
    # Targets are padded to more columns than any source: then weights over S columns are over the source, and not over
    # the target's own tokens. Padding after a target does not change it.
    written = _padded(targets, max(widths) + 1).to(text_model.device)
    with text_model.computing():
        stepwise = cast(Autoregressive[object], model)
        state = stepwise.start(read)
        with recorded(model) as seen:
            stepwise.extend(shifted(written), state)
    found = {name: parts for name, parts in seen.items() if parts and parts[0].shape[-1] in widths}
    if not found:
        raise NoAttentionError(model)
    across = next(iter(found.values()))[0].shape[-1]
    return AttentionWeights(
        {name: _with_heads(torch.cat(parts, -2)) for name, parts in found.items() if parts[0].shape[-1] == across},
        [kinds[widths[across]] for kinds in counts],
        boxes_BS4,
    )


def _padded(rows: Sequence[Sized], width: int = 0) -> Padded:
    """Rows of ids or of steps as one batch, padded to at least ``width`` columns."""
    padded = Padded.of(rows)
    values = padded.values
    missing = width - values.shape[1]
    if missing > 0:
        values = torch.cat([values, values.new_full((len(values), missing, *values.shape[2:]), PAD)], 1)
    return Padded(values, padded.lengths)


def _boxes(model: nn.Module, source: Padded, reach: int) -> Tensor:
    """[B, S, 4]: left, top, right and bottom of what each state covers in its signal; zeros on padding.

    A state covers ``reach`` consecutive vectors of the model's embedding. Raises UserError if the embedding has no
    boxes.
    """
    boxes = next((found for module in model.modules() if (found := getattr(module, "boxes", None))), None)
    if boxes is None:
        raise UserError(
            f"this {model_name(type(model))} model does not say where in its source its states lie: that takes an "
            "embedding "
            'with boxes, as "map", "patches" and "columns" have them'
        )
    boxes_BS4: Tensor = boxes(source)
    whole_BS4 = nn.functional.pad(boxes_BS4, (0, 0, 0, -boxes_BS4.shape[1] % reach))
    each_BSR4 = torch.unflatten(whole_BS4, 1, (-1, reach))
    first_BSR2 = each_BSR4[..., :2].masked_fill(each_BSR4[..., 2:3] == 0, float("inf"))
    corner_BS2 = first_BSR2.amin(2)
    return torch.cat([corner_BS2.masked_fill(corner_BS2.isinf(), 0.0), each_BSR4[..., 2:].amax(2)], -1)


def _columns(tokenizer: Tokenizer, length: int, reaches: Sequence[int]) -> list[Columns]:
    """The kinds of columns that an encoder's states may stand for, for a source of ``length`` ids.

    There are three: tokens with their factors, ids without labels, or all ids. They come in groups of each of
    ``reaches`` first, and then ungrouped.
    """
    factors = tokenizer.factors
    tokens = [(place, min(place + factors, length)) for place in range(0, length, factors)]
    kinds = [tokens, _single_columns(length)[tokenizer.labels :], _single_columns(length)]
    return [*(_grouped(kind, reach) for reach in reaches for kind in kinds), *kinds]


def _grouped(columns: Columns, reach: int) -> Columns:
    groups = (columns[place : place + reach] for place in range(0, len(columns), reach))
    return [(group[0][0], group[-1][1]) for group in groups]


def _single_columns(length: int) -> Columns:
    return [(place, place + 1) for place in range(length)]


@contextmanager
def recorded(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """A context that records the weights of each attention of a model, one tensor per call, by the attention's name."""
    seen: dict[str, list[Tensor]] = {}
    hooks = []
    for path, module in model.named_modules():
        name, _, last = path.rpartition(".")
        if last == WEIGHTS and isinstance(module, nn.Identity):
            seen[name] = []
            hooks.append(module.register_forward_hook(partial(_record, seen[name])))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _record(parts: list[Tensor], module: nn.Module, inputs: object, output: Tensor) -> None:
    parts.append(output)


def _with_heads(weights: Tensor) -> Tensor:
    """[B, H, T, S], from [B, H, T, S] or, of an attention without heads, [B, T, S]."""
    return weights if weights.ndim == 4 else weights[:, None]


def _one_head(heads_BHTS: Tensor, head: int | None) -> Tensor:
    """[B, T, S]: the weights of one head, or, if ``head`` is None, their average over heads. Raises UserError if there
    is no such head.
    """
    if head is None:
        return heads_BHTS.mean(1)
    if not 0 <= head < heads_BHTS.shape[1]:
        raise UserError(f"head = {head}: there are {heads_BHTS.shape[1]}, numbered from 0")
    return heads_BHTS[:, head]
