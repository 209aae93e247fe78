"""How much each target token comes from each source token, and the links between words that follow from it.

T target tokens, S source tokens, V target words, W source words, I = 1 + W source positions: first the null word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from transduce.wings.alignment.links import Links
from transduce.wings.alignment.sides import Side, Span


@dataclass(frozen=True)
class TokenAlignment:
    """How much each target token comes from each source token: by posterior probabilities, or by attention.

    ``weights_TS``: a row for each token of ``target``, a column for each token of ``source``. ``null_T``: how much each
    target token comes from the null word, so from no source word; None for attention, which has none.
    """

    weights_TS: Tensor
    source: Side
    target: Side
    null_T: Tensor | None = None

    @cached_property
    def words_VI(self) -> Tensor:
        """[V, 1 + W]: how much each target word comes from the null word (column 0) and from each source word.

        Weights are summed over the tokens of a source word, and averaged over the tokens of a target word. The row of a
        target word without tokens is 0.
        """
        W, V = (1 + max((w for w in side.words if w is not None), default=-1) for side in (self.source, self.target))
        source, target = self.source.places, self.target.places
        source_words, target_words = (
            torch.tensor([word for word in side.words if word is not None], dtype=torch.long)
            for side in (self.source, self.target)
        )
        merged_TI = self.weights_TS.new_zeros(len(target), 1 + W)
        merged_TI.index_add_(1, 1 + source_words, self.weights_TS[target][:, source])
        if self.null_T is not None:
            merged_TI[:, 0] = self.null_T[target]
        sum_VI = merged_TI.new_zeros(V, 1 + W).index_add_(0, target_words, merged_TI)
        return sum_VI / torch.bincount(target_words, minlength=V).clamp(min=1)[:, None]

    @cached_property
    def links(self) -> tuple[tuple[int, int], ...]:
        """For each target word that has tokens, in order, the source word that it comes from most, as a pair of indices
        (source, target).

        A target word that comes most from the null word has no link. Empty if either side has no words.
        """
        V, positions = self.words_VI.shape
        if not V or positions == 1:
            return ()
        first = 0 if self.null_T is not None else 1
        best_V = self.words_VI[:, first:].argmax(1) + first
        real = sorted({word for word in self.target.words if word is not None})
        return tuple((int(best_V[word]) - 1, word) for word in real if best_V[word])

    def source_place(self, span: Span) -> int | None:
        """The index of the source token that the target tokens in this span of the target's text come from most, the
        null word excepted: the token of a word with the largest mean weight. None if the source has no words, or if no
        token is in the span.
        """
        start, end = span
        inside = [place for place, (first, last) in enumerate(self.target.spans) if first < end and start < last]
        places = self.source.places
        return places[int(self.weights_TS[inside][:, places].mean(0).argmax())] if places and inside else None


def links_of(alignments: Sequence[TokenAlignment]) -> Links:
    """The links between words of all pairs, as one ``Links``. Pair n is alignment n."""
    rows = [(pair, *link) for pair, found in enumerate(alignments) for link in found.links]
    return Links.of(len(alignments), *np.array(rows, np.int64).reshape(-1, 3).T)
