"""The embedding table of tokens, and the readout over the vocabulary."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Table
from transduce.core.types import Padded
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.linear import linear


class TableParameter(nn.Parameter):
    """A matrix with a row for each token. Its gradient has few rows that are not 0, so some optimisers treat it apart
    from the matrices of products.
    """


class TokenEmbedding(nn.Module):
    """Maps token ids [...] to vectors [..., width].

    Weights are drawn from N(0, 1/width). ``scaled`` = True multiplies the vectors by sqrt(width), so that one table
    suits both the embedding and a tied readout (Vaswani et al. 2017, section 3.4). Raises UserError for numbers instead
    of ids and, on the CPU, for ids outside the vocabulary.
    """

    def __init__(self, vocabulary: int, width: int, scaled: bool) -> None:
        super().__init__()
        self.weight = TableParameter(torch.empty(vocabulary, width))
        nn.init.normal_(self.weight, std=width**-0.5)
        self.scale = width**0.5 if scaled else 1.0

    def embed(self, source: Padded) -> Padded:
        return Padded(self(source.values), source.lengths)

    def forward(self, ids: Tensor) -> Tensor:
        if ids.is_floating_point():
            raise UserError(
                "an embedding of tokens was given numbers; for a source of them set model.encoder.embedding = "
                '"numbers" (a series) or what reads such a signal (docs/fronts.md), for a target of them model.type = '
                '"forecaster"'
            )
        embedded = lookup(ids, self.weight)
        return embedded * self.scale if self.scale != 1 else embedded


def lookup(
    ids: Tensor, weight_VD: Tensor, embed: Callable[[Tensor, Tensor], Tensor] = nn.functional.embedding
) -> Tensor:
    """``embed(ids, weight_VD)``; by default the vectors [..., D] of ids [...].

    Raises UserError if an id is not 0 to V - 1, on the CPU only. The kernel of ``embed`` finds this. Other devices'
    kernels do not, and a check before them would read a value from the device in every step.
    """
    try:
        return embed(ids, weight_VD)
    except (IndexError, RuntimeError):
        beyond = ids[(ids < 0) | (ids >= len(weight_VD))]
        if not len(beyond):
            raise
        raise UserError(
            f"id {int(beyond[0])} is outside an embedding of {len(weight_VD)} vectors: ids from 0 to "
            f"{len(weight_VD) - 1} were expected; encode the text with the tokenizer that the model was trained with"
        ) from None


class Readout(nn.Module):
    """Maps features [..., width] to logits W x + b, [..., V], or only to the logits of ``candidates`` [C], [..., C].

    In training, dropout applies to the features. W is [V, width], and V is ``vocabulary``.
    """

    def __init__(self, width: int, vocabulary: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.weight = TableParameter(torch.empty(vocabulary, width))
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, features: Tensor, candidates: Tensor | None = None) -> Tensor:
        features = self.dropout(features)
        if candidates is None:
            return linear(features, self.weight, self.bias)
        return linear(features, self.weight.index_select(0, candidates), self.bias.index_select(0, candidates))


def share(taker: Table, giver: Table, what: str) -> None:
    """Ties two tables: makes ``taker.weight`` the same parameter as ``giver.weight``.

    ``what`` describes the pair in errors. Raises UserError if the taker has no table, or if the shapes differ.
    """
    if getattr(taker, "weight", None) is None:
        raise UserError(
            f"tie: cannot share {what}: {type(taker).__name__} makes vectors of a signal and has no table of words; "
            'set tie = "target" or "none"'
        )
    theirs, ours = tuple(taker.weight.shape), tuple(giver.weight.shape)
    if theirs != ours:
        raise UserError(
            f"tie: cannot share {what}: they are {theirs} and {ours} [vocabulary, width]; make the widths equal, and "
            "for tie = 'embeddings' or 'all' learn one vocabulary (data.units.joint)"
        )
    taker.weight = giver.weight
