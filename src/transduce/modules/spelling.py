"""Words from their pieces. B rows, S ids, W words, C pieces of a word, N words in all, D features."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from transduce.modules.linear import projection
from transduce.modules.pooling import LastState
from transduce.protocols import Encoder, Pooler
from transduce.types import BOS, EOS, PAD, Factory, Padded


class SpelledWords(nn.Module):
    """Characters into words: e = W pool(encoder(c_1 ... c_n)) + b, the vector of a word from its pieces alone (Ling et
    al. 2015; Plank et al. 2016). No word is unknown.

    Source of the unit "spelled". Each word is a source of its own to ``encoder``, closed with EOS as any, and
    is read once a batch, however often it stands there. As any embedding it is multiplied by sqrt(width) where it is
    ``scaled``.
    """

    def __init__(
        self, vocabulary: int, width: int, scaled: bool, encoder: Encoder, pooling: Factory[Pooler] = LastState
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling(memory_width=encoder.width, summary_widths=encoder.summary_widths)
        self.projection = projection(self.pooling.width, width)

    @property
    def weight(self) -> nn.Parameter:
        """The pieces' table."""
        table: nn.Parameter = cast(Any, self.encoder).embedding.weight
        return table

    def embed(self, source: Padded) -> Padded:
        ids_BWC = words(source)
        return Padded(self(ids_BWC.values), ids_BWC.lengths)

    def forward(self, ids_BWC: Tensor) -> Tensor:
        words_MC = ids_BWC.flatten(0, 1)
        word_NC, which_M = torch.unique(words_MC, dim=0, return_inverse=True)
        # beyond a row's words stands a word of padding, which some encoder might divide by the length of
        length_N = (word_NC != PAD).sum(1).clamp(min=1)
        vector_ND = self.projection(self.pooling(self.encoder(Padded(word_NC, length_N))))
        return nn.functional.embedding(which_M.view(ids_BWC.shape[:2]), vector_ND)


def words(source: Padded) -> Padded:
    """The words of each row, each closed with EOS and filled up with PAD: [B, W, C]; the last is EOS alone."""
    row_N, place_N, word_N = opened(source)
    last_N = place_N == source.lengths[row_N] - 1
    pieces_N = torch.where(last_N, 0, place_N.roll(-1) - place_N - 1)
    place_C = torch.arange(int(pieces_N.max()) + 1, device=place_N.device)
    within_NC = (place_N[:, None] + 1 + place_C).clamp(max=source.values.shape[1] - 1)
    ids_NC = source.values[row_N[:, None], within_NC].masked_fill(place_C == pieces_N[:, None], EOS)
    count_B = torch.bincount(row_N, minlength=len(source.lengths))
    ids_BWC = ids_NC.new_full((len(count_B), int(count_B.max()), len(place_C)), PAD)
    ids_BWC[row_N, word_N] = ids_NC.masked_fill(place_C > pieces_N[:, None], PAD)
    return Padded(ids_BWC, count_B)


def pieces(source: Padded) -> tuple[Padded, Padded]:
    """The rows without the marks of words, and where in them each word begins, and EOS: places [B, W]."""
    row_N, place_N, word_N = opened(source)
    count_B = torch.bincount(row_N, minlength=len(source.lengths))
    begins_BW = place_N.new_zeros(len(count_B), int(count_B.max()))
    begins_BW[row_N, word_N] = place_N - word_N  # as many marks have gone as there are words before
    kept_BS = source.mask & (source.values != BOS)
    length_B = kept_BS.sum(1)
    unmarked = Padded(source.values.new_full((len(length_B), int(length_B.max())), PAD), length_B)
    unmarked.values[unmarked.mask] = source.values[kept_BS]
    return unmarked, Padded(begins_BW, count_B)


def opened(source: Padded) -> tuple[Tensor, Tensor, Tensor]:
    """Every word of every row, EOS as one too: its row, the place of its mark, and its number in the row, [N] each.

    Raises ValueError where a row does not say where its words begin.
    """
    last_BS = torch.arange(source.values.shape[1], device=source.lengths.device) == source.lengths[:, None] - 1
    opens_BS = last_BS | ((source.values == BOS) & source.mask)
    if not bool(opens_BS[:, 0].all()):
        raise ValueError(
            'the source does not say where its words begin: set data.units.source to "spelled", which marks them, or '
            "choose another encoder or embedding"
        )
    row_N, place_N = opens_BS.nonzero(as_tuple=True)
    return row_N, place_N, (opens_BS.cumsum(1) - 1)[row_N, place_N]
