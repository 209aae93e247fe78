"""Attention that loses heads: their rows and columns leave the matrices around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError


@runtime_checkable
class Prunable(Protocol):
    """An attention of ``count`` heads. ``keep`` removes all but the given ones."""

    count: int

    def keep(self, heads: Sequence[int]) -> None: ...


def keep_heads(model: nn.Module, kept: Mapping[str, Sequence[int]]) -> None:
    """Removes all other heads of the attentions named in ``kept``, which maps the name of an attention in the model to
    the numbers of its heads that stay, from 0. The model computes what it would compute with silenced heads, with
    smaller matrices (Michel et al. 2019).

    Raises UserError for a name that is no Transformer's attention in this model, and for numbers that are not
    increasing, not there, or none at all.
    """
    attentions = {name: module for name, module in model.named_modules() if isinstance(module, Prunable)}
    for name, heads in kept.items():
        if name not in attentions:
            known = ", ".join(attentions) or "none"
            raise UserError(
                f"kept_heads: {name!r} is no attention of this model that can lose heads; there are: {known}"
            )
        count = attentions[name].count
        if not heads or list(heads) != sorted(set(heads)) or not 0 <= heads[0] <= heads[-1] < count:
            raise UserError(
                f"kept_heads: {name} = {list(heads)}: at least one number from 0 to {count - 1} was expected, each "
                "once and in increasing order"
            )
        attentions[name].keep(heads)


def places(heads: Sequence[int], width: int, parts: int = 1, count: int = 0) -> Tensor:
    """The features of these heads in a matrix of ``parts`` times ``count`` heads of ``width`` features each."""
    own = torch.tensor([head * width + feature for head in heads for feature in range(width)])
    return torch.cat([part * count * width + own for part in range(parts)])


def keep_outputs(layer: nn.Linear, outputs: Tensor) -> None:
    """Replaces the layer's matrix and bias by those of the ``outputs`` alone."""
    layer.weight = nn.Parameter(layer.weight.detach()[outputs].clone())
    layer.bias = nn.Parameter(layer.bias.detach()[outputs].clone())
    layer.out_features = len(outputs)


def keep_inputs(layer: nn.Linear, inputs: Tensor) -> None:
    """Replaces the layer's matrix by the one of the ``inputs`` alone."""
    layer.weight = nn.Parameter(layer.weight.detach()[:, inputs].contiguous())
    layer.in_features = len(inputs)
