"""Embeddings of tokens with F factors (word, lemma, part of speech, case). The word is the first factor."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import EOS, Padded
from transduce.layers.modules.embedding import TableParameter, lookup


class ConcatenatedFactors(nn.Module):
    """An embedding of tokens with factors: concatenates one vector per factor, each from its own table (Sennrich and
    Haddow 2016).

    e = [E_1 x_1; ...; E_F x_F], from ids [..., F] to vectors [..., width]. All tables have the whole vocabulary. The
    ``widths`` of the factors, at least 1 each, must add up to the whole ``width``. The whole vector is drawn and scaled
    like a vector of ``TokenEmbedding``. ``weight`` is the table of the first factor, the word. Raises UserError if the
    source has fewer than two factors, or if ``widths`` does not have one number for each factor, has a number below 1
    or has another sum.
    """

    def __init__(self, vocabulary: int, width: int, scaled: bool, source_factors: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        check_factors(source_factors)
        if len(widths) != source_factors or min(widths) < 1:
            raise UserError(
                f"widths = {list(widths)}: one for each of the source's {source_factors} factors was expected, the "
                "word's first"
            )
        if sum(widths) != width:
            raise UserError(
                f"widths = {list(widths)} add up to {sum(widths)}, but the encoder reads vectors of {width}: make "
                "these equal"
            )
        self.weight = TableParameter(torch.empty(vocabulary, widths[0]))
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
        embedded = [lookup(ids, table) for ids, table in zip(ids_F.unbind(-1), tables, strict=True)]
        whole = torch.cat(embedded, -1)
        return whole * self.scale if self.scale != 1 else whole


class SummedFactors(nn.Module):
    """An embedding of tokens with factors: sums the vectors of a token's factors, all from one table, e = E x_1 + ... +
    E x_F.

    Maps ids [..., F] to vectors [..., width]. The sum is drawn and scaled like a vector of ``TokenEmbedding``. Raises
    UserError if the source has fewer than two factors.
    """

    def __init__(self, vocabulary: int, width: int, scaled: bool, source_factors: int) -> None:
        super().__init__()
        check_factors(source_factors)
        self.weight = TableParameter(torch.empty(vocabulary, width))
        nn.init.normal_(self.weight, std=(source_factors * width) ** -0.5)
        self.scale = width**0.5 if scaled else 1.0
        self.factors = source_factors

    def embed(self, source: Padded) -> Padded:
        ids_BSF = grouped(source, self.factors)
        return Padded(self(ids_BSF.values), ids_BSF.lengths)

    def forward(self, ids_F: Tensor) -> Tensor:
        # Avoids F vectors per token in memory: takes half the time, with gradients, of embedding and then adding.
        summed: Tensor = lookup(ids_F.flatten(0, -2), self.weight, partial(nn.functional.embedding_bag, mode="sum"))
        whole = summed.view(*ids_F.shape[:-1], -1)
        return whole * self.scale if self.scale != 1 else whole


def grouped(source: Padded, factors: int) -> Padded:
    """Groups rows of ids [B, S], which end with one EOS, into tokens [B, S', F], where F = ``factors``.

    The EOS of a row becomes a last token, whose factors are all EOS. A token that truncation cut is left out. The
    lengths of the result count tokens, with the last one.
    """
    rows, missing = len(source.values), -source.values.shape[1] % factors
    ids_BSF = nn.functional.pad(source.values, (0, missing)).reshape(rows, -1, factors)
    whole_B = (source.lengths - 1) // factors
    places_S = torch.arange(ids_BSF.shape[1], device=ids_BSF.device)
    closing_BS = places_S == whole_B[:, None]
    return Padded(ids_BSF.masked_fill(closing_BS[..., None], EOS), whole_B + 1)


def check_factors(source_factors: int) -> None:
    """Raises UserError if the source's tokens have fewer than two factors."""
    if source_factors < 2:
        raise UserError(
            'the source has tokens without factors: set data.units.source to "factored", or leave out the embedding'
        )
