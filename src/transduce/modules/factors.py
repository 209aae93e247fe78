"""Tokens with factors (a lemma, a part of speech, a case) as vectors; F factors, the word's first."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.types import EOS, Padded


class ConcatenatedFactors(nn.Module):
    """A token's factors, each as a vector from a table of its own, side by side: Sennrich and Haddow 2016.

    e = [E_1 x_1; ...; E_F x_F], ids [..., F] to vectors [..., width]. ``widths`` of the factors add up to the width of
    the whole, which is drawn and scaled as a ``TokenEmbedding`` is. Raises ValueError where they do not, or where they
    are not one for each of the source's factors. ``weight`` is the words' table.
    """

    def __init__(self, vocabulary: int, width: int, scaled: bool, source_factors: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        check_factors(source_factors)
        if len(widths) != source_factors or min(widths) < 1:
            raise ValueError(
                f"widths = {list(widths)}: one for each of the source's {source_factors} factors was expected, the "
                "word's first"
            )
        if sum(widths) != width:
            raise ValueError(
                f"widths = {list(widths)} add up to {sum(widths)}, but the encoder reads vectors of {width}: make "
                "these equal"
            )
        self.weight = nn.Parameter(torch.empty(vocabulary, widths[0]))
        self.tags = nn.ParameterList(torch.empty(vocabulary, tag_width) for tag_width in widths[1:])
        for table in self.parameters():
            nn.init.normal_(table, std=width**-0.5)
        self.scale = width**0.5 if scaled else 1.0
        self.factors = source_factors

    def embed(self, source: Padded) -> Padded:
        ids_BSF = grouped(source, self.factors)
        return Padded(self(ids_BSF.values), ids_BSF.lengths)

    def forward(self, ids_F: Tensor) -> Tensor:
        tables = (self.weight, *self.tags)
        embedded = [nn.functional.embedding(ids, table) for ids, table in zip(ids_F.unbind(-1), tables, strict=True)]
        whole = torch.cat(embedded, -1)
        return whole * self.scale if self.scale != 1 else whole


class SummedFactors(nn.Module):
    """A token's factors as the sum of their vectors, all of one table: e = E x_1 + ... + E x_F.

    ids [..., F] to vectors [..., width]; the sum is drawn and scaled as a ``TokenEmbedding`` is.
    """

    def __init__(self, vocabulary: int, width: int, scaled: bool, source_factors: int) -> None:
        super().__init__()
        check_factors(source_factors)
        self.weight = nn.Parameter(torch.empty(vocabulary, width))
        nn.init.normal_(self.weight, std=(source_factors * width) ** -0.5)
        self.scale = width**0.5 if scaled else 1.0
        self.factors = source_factors

    def embed(self, source: Padded) -> Padded:
        ids_BSF = grouped(source, self.factors)
        return Padded(self(ids_BSF.values), ids_BSF.lengths)

    def forward(self, ids_F: Tensor) -> Tensor:
        # Never F vectors a token in memory: half the time, with gradients, of embedding and then adding up.
        summed: Tensor = nn.functional.embedding_bag(ids_F.flatten(0, -2), self.weight, mode="sum")
        whole = summed.view(*ids_F.shape[:-1], -1)
        return whole * self.scale if self.scale != 1 else whole


def grouped(source: Padded, factors: int) -> Padded:
    """Rows of ids [B, S] by token, [B, S', F]; EOS stands for all factors of the last one.

    A token that has lost factors, where a long row was cut, is left out.
    """
    rows, missing = len(source.values), -source.values.shape[1] % factors
    ids_BSF = nn.functional.pad(source.values, (0, missing)).reshape(rows, -1, factors)
    whole_B = (source.lengths - 1) // factors
    places_S = torch.arange(ids_BSF.shape[1], device=ids_BSF.device)
    closing_BS = places_S == whole_B[:, None]
    return Padded(ids_BSF.masked_fill(closing_BS[..., None], EOS), whole_B + 1)


def check_factors(source_factors: int) -> None:
    """Raise ValueError for a source of plain tokens."""
    if source_factors < 2:
        raise ValueError(
            'the source has tokens without factors: set data.units.source to "factored", or leave out the embedding'
        )
