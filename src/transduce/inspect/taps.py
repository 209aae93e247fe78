"""Attention weights of finished outputs: teacher-forced once, a batch at a time, and read where they pass.

B outputs, S columns of the source, T target tokens, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from transduce.data.tokenizers import Tokenizer
from transduce.protocols import Autoregressive, lacking_verbs
from transduce.search.forcing import shifted
from transduce.transducer import Transducer
from transduce.types import PAD, Padded

TAP = "weights"  # what attention calls the identity that its weights pass through
Columns = list[tuple[int, int]]  # of the source's ids, the first that a state stands for, and the one behind its last


@dataclass(frozen=True)
class Attended:
    """``weights``: by the name of the attention in the model, in the order of its layers, [B, T, S] each, 0 on padding.
    ``columns``: of each row those that are real."""

    weights: dict[str, Tensor]
    columns: list[Columns]


def check_attending(model: Any) -> None:
    """Raise ValueError for a model that does not write word by word."""
    if lacking_verbs(type(model), Autoregressive):
        raise ValueError(f"this {type(model).__name__} writes all at once, and attention is shown word by word")


@torch.inference_mode()
def attended(
    transducer: Transducer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    head: int | None = None,
) -> Attended:
    """The attention of each target's tokens to its source, ids that close with EOS, by teacher forcing.

    Many heads are averaged, unless one is asked for by its number from 0. Raises ValueError where the model has no
    attention to the source, or no such head.
    """
    model = transducer.model
    check_attending(model)
    longest = max(sources, key=len)
    # Longer than any source, so that weights over S columns are of the memory and not of the output's own past; what
    # stands behind an output changes nothing in it.
    width = max(len(longest) + 1, *map(len, targets))
    read, written = _padded(sources, len(longest)), _padded(targets, width)
    state = model.start(read.to(transducer.device))
    with _tapped(model) as seen:
        model.extend(shifted(written.to(transducer.device)), state)
    kinds = {len(kind): number for number, kind in enumerate(_columns(transducer.source_tokenizer, len(longest)))}
    found = {name: parts for name, parts in seen.items() if parts and parts[0].shape[-1] in kinds}
    if not found:
        raise ValueError(
            f"this {type(model).__name__} does not attend to its source, so there is nothing to see; "
            'attention comes with model.decoder.wiring = "luong" or "bahdanau", or with the decoder "transformer"'
        )
    across = next(iter(found.values()))[0].shape[-1]
    return Attended(
        {name: _one_head(torch.cat(parts, -2), head) for name, parts in found.items() if parts[0].shape[-1] == across},
        [_columns(transducer.source_tokenizer, len(ids))[kinds[across]] for ids in sources],
    )


def _padded(rows: Sequence[Sequence[int]], width: int) -> Padded:
    values = torch.tensor([[*ids, *[PAD] * (width - len(ids))] for ids in rows])
    return Padded(values, torch.tensor([len(ids) for ids in rows]))


def _columns(tokenizer: Tokenizer, length: int) -> list[Columns]:
    """What an encoder may have states for: tokens with their factors, text without its labels, or all ids."""
    factors = tokenizer.factors
    each = [(place, place + 1) for place in range(length)]
    tokens = [(place, min(place + factors, length)) for place in range(0, length, factors)]
    return [tokens, each[tokenizer.labels :], each]


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
    """[B, T, S] of [B, T, S] or [B, H, T, S]."""
    heads_BHTS = weights if weights.ndim == 4 else weights[:, None]
    if head is None:
        return heads_BHTS.mean(1)
    if not 0 <= head < heads_BHTS.shape[1]:
        raise ValueError(f"head = {head}: there are {heads_BHTS.shape[1]}, numbered from 0")
    return heads_BHTS[:, head]
