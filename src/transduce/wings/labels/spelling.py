"""Word vectors from the pieces of words.

B rows, S ids, W words, C pieces per word, N words in total, D features.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import EmbedsTokens, Encoder, Pooler, memory_widths
from transduce.core.types import BOS, EOS, PAD, Factory, Padded
from transduce.layers.modules.embedding import TableParameter
from transduce.layers.modules.linear import projection
from transduce.layers.modules.pooling import LastState


class SpelledWords(nn.Module):
    """An embedding that makes a word's vector from its pieces c_1 ... c_n: e = W pool(encoder(c_1 ... c_n)) + b (Ling
    et al. 2015; Plank et al. 2016).

    The source's unit is "spelled". ``encoder`` reads each word as a source of its own that ends with EOS. It reads a
    word once per batch, even if the word occurs several times. The EOS of a row is a word without pieces. If the unit
    has ``words``, the first ``word_width`` features come from a table of whole words (``KnownWords``; Lample et al.
    2016), and the pieces give the other features. ``word_vectors`` is a file of word vectors of width ``word_width``,
    with which that table begins as ``VectorEmbedding`` does. ``scaled`` changes nothing. Raises UserError if only one
    of the unit and this embedding has whole words, if ``word_width`` is not less than ``width``, or for
    ``word_vectors`` without whole words.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        scaled: bool,
        source_words: int,
        encoder: Encoder,
        pooling: Factory[Pooler] = LastState,
        word_width: int = 0,
        word_dropout: float = 0.0,
        word_vectors: str | None = None,
    ) -> None:
        super().__init__()
        if (word_width > 0) != (source_words > 0) or not 0 <= word_width < width:
            raise UserError(
                f"word_width = {word_width}, of {width}, for a source that knows {source_words} whole words: set "
                'data.units.source.words to "symbols" and word_width to less than the whole, or leave both out'
            )
        if word_vectors is not None and not word_width:
            raise UserError(f'word_vectors = "{word_vectors}": they are for whole words; set word_width and words too')
        self.alphabet = vocabulary
        self.encoder = encoder
        self.pooling = pooling(memory=memory_widths(encoder))
        self.projection = projection(self.pooling.width, width - word_width)
        self.known = (
            KnownWords(source_words, vocabulary, word_width, word_dropout, word_vectors) if word_width else None
        )

    @property
    def weight(self) -> nn.Parameter:
        """The table of the pieces: the ``weight`` of the encoder's embedding."""
        return cast(EmbedsTokens, self.encoder).embedding.weight

    def embed(self, source: Padded) -> Padded:
        ids_BWC = words(source, self.alphabet)
        return Padded(self(ids_BWC.values), ids_BWC.lengths)

    def forward(self, ids_BWC: Tensor) -> Tensor:
        mark_BW, words_MC = ids_BWC[..., 0], ids_BWC[..., 1:].flatten(0, 1)
        word_NC, which_M = torch.unique(words_MC, dim=0, return_inverse=True)
        # rows with fewer words get a word of padding; length 1 avoids a division by zero in some encoders
        length_N = (word_NC != PAD).sum(1).clamp(min=1)
        vector_ND = self.projection(self.pooling(self.encoder(Padded(word_NC, length_N))))
        spelled_BWD = nn.functional.embedding(which_M.view(mark_BW.shape), vector_ND)
        return spelled_BWD if self.known is None else torch.cat([self.known(mark_BW), spelled_BWD], -1)


class KnownWords(nn.Module):
    """An embedding of whole words: maps the marks [...] of words to vectors [..., width]. A mark is the id that stands
    before the pieces of a word in a "spelled" source.

    The marks of the ``words`` known words are the ids from ``alphabet`` on. All other words share one vector; their
    marks are BOS (an unknown word) and EOS (the end). In training each occurrence of a word becomes unknown with
    probability ``dropout``, so that the shared vector is learned too. Lample et al. 2016, section 4.4, do so for words
    that occur once. Raises UserError unless 0 <= dropout < 1.
    """

    def __init__(self, words: int, alphabet: int, width: int, dropout: float, file: str | None = None) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise UserError(f"word_dropout = {dropout}: a probability of at least 0 and less than 1 was expected")
        self.alphabet = alphabet
        self.weight = TableParameter(torch.empty(1 + words, width))
        nn.init.normal_(self.weight, std=width**-0.5)
        self.dropout = dropout
        self.file = file

    @property
    def width(self) -> int:
        """The number of features of a vector."""
        return self.weight.shape[1]

    @torch.no_grad()
    def fill(self, ids_N: Tensor, vectors_ND: Tensor) -> int:
        """Gives the words with these marks their vectors, in place. Other ids, those of pieces, are left out. Returns
        the number of words.
        """
        words_N = ids_N >= self.alphabet
        self.weight[ids_N[words_N] - self.alphabet + 1] = vectors_ND[words_N]
        return int(words_N.sum())

    def forward(self, marks: Tensor) -> Tensor:
        known = (marks - self.alphabet + 1).clamp(min=0)
        if self.training and self.dropout:
            known = known.masked_fill(torch.rand(marks.shape, device=marks.device) < self.dropout, 0)
        return nn.functional.embedding(known, self.weight)


def words(source: Padded, alphabet: int) -> Padded:
    """Cuts each row of a "spelled" source into words: returns ids [B, W, 1 + C], padded, and the number of words of
    each row.

    A word has its mark first, then its pieces, then EOS; C is the largest number of pieces, counting EOS. PAD fills the
    rest. The EOS of the row is its last word: its mark is EOS, and it has no pieces.
    """
    row_N, place_N, word_N = opened(source, alphabet)
    last_N = place_N == source.lengths[row_N] - 1
    close_N = torch.where(last_N, 1, place_N.roll(-1) - place_N)
    place_C = torch.arange(int(close_N.max()) + 1, device=place_N.device)
    within_NC = (place_N[:, None] + place_C).clamp(max=source.values.shape[1] - 1)
    ids_NC = source.values[row_N[:, None], within_NC].masked_fill(place_C == close_N[:, None], EOS)
    count_B = torch.bincount(row_N, minlength=len(source.lengths))
    ids_BWC = ids_NC.new_full((len(count_B), int(count_B.max()), len(place_C)), PAD)
    ids_BWC[row_N, word_N] = ids_NC.masked_fill(place_C > close_N[:, None], PAD)
    return Padded(ids_BWC, count_B)


def pieces(source: Padded, alphabet: int) -> tuple[Padded, Padded]:
    """A "spelled" source without the marks of words. Returns new rows of pieces, and the place in them [B, W], from 0,
    where each word begins, with the number of words of each row.

    EOS stays in the rows and counts as the last word.
    """
    row_N, place_N, word_N = opened(source, alphabet)
    count_B = torch.bincount(row_N, minlength=len(source.lengths))
    begins_BW = place_N.new_zeros(len(count_B), int(count_B.max()))
    begins_BW[row_N, word_N] = place_N - word_N  # one mark was removed for each earlier word
    kept_BS = source.mask & ~_are_marks(source.values, alphabet)
    length_B = kept_BS.sum(1)
    unmarked = Padded(source.values.new_full((len(length_B), int(length_B.max())), PAD), length_B)
    unmarked.values[unmarked.mask] = source.values[kept_BS]
    return unmarked, Padded(begins_BW, count_B)


def opened(source: Padded, alphabet: int) -> tuple[Tensor, Tensor, Tensor]:
    """Finds the N words in all rows of a "spelled" source. Returns three tensors [N]: the row of each word, the place
    of its mark in the row, and its number within the row, all from 0. They are sorted by row, then by place.

    The last real position of a row, its EOS, counts as a word and as its own mark. Other marks are BOS and the ids from
    ``alphabet`` on. Raises UserError if the first position of a row is no mark.
    """
    last_BS = torch.arange(source.values.shape[1], device=source.lengths.device) == source.lengths[:, None] - 1
    opens_BS = last_BS | (_are_marks(source.values, alphabet) & source.mask)
    if not bool(opens_BS[:, 0].all()):
        raise UserError(
            'the source does not say where its words begin: set data.units.source to "spelled", which marks them, or '
            "choose another encoder or embedding"
        )
    row_N, place_N = opens_BS.nonzero(as_tuple=True)
    return row_N, place_N, (opens_BS.cumsum(1) - 1)[row_N, place_N]


def _are_marks(ids: Tensor, alphabet: int) -> Tensor:
    return (ids == BOS) | (ids >= alphabet)
