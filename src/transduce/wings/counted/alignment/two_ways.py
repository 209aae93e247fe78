"""Two aligners of the same pairs, one for each direction.

U pairs of a source and a target word that occur in the same sentence pair. B, S, T and I as in blocks.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import Factory, Padded
from transduce.models.tables import check, check_ascending, check_rows
from transduce.training.counted import empty
from transduce.wings.counted.alignment.blocks import Block, Sentences, blocks
from transduce.wings.counted.alignment.lexicon import Lexicon, word_pairs
from transduce.wings.counted.alignment.position import Expectation, Position


class Direction(nn.Module):
    """p(target | source) in one direction: a ``Lexicon`` and a model of positions."""

    def __init__(self, position: Position) -> None:
        super().__init__()
        self.lexicon = Lexicon()
        self.position: Any = position

    def expect(self, place_BTS: Tensor, block: Block) -> Expectation:
        expected: Expectation = self.position.expect(block, self.lexicon(place_BTS, block))
        return expected


class TwoWays(nn.Module):
    """Word aligners of both directions. ``forth`` aligns target words to source words, ``back`` source words to target
    words. ``position`` makes the model of positions of each.

    ``keys`` [U] are the pairs of words that were counted, sorted: source * ``WIDTH`` + target.
    """

    def __init__(self, position: Factory[Position]) -> None:
        super().__init__()
        self.keys = empty(torch.long)
        self.forth, self.back = Direction(position()), Direction(position())

    def check_tables(self) -> None:
        check_ascending("keys", self.keys)
        for name, direction in (("forth", self.forth), ("back", self.back)):
            check_rows(len(self.keys), {f"{name}.lexicon.probability": direction.lexicon.probability})
            for part, table in direction.position.named_parameters():
                check(len(table) > 0 or not len(self.keys), f"{name}.position.{part}", "one row or more")

    def expect(self, block: Block, turned: bool) -> Expectation:
        """The E-step of a block by ``forth``. If ``turned`` is True, ``back`` does the E-step of the block with source
        and target exchanged.

        Raises UserError if nothing was counted.
        """
        if not len(self.keys):
            raise UserError("this word aligner has not been counted: train it first")
        block = block.to(self.keys.device)
        key_BTS = word_pairs(block)
        place_BTS = torch.searchsorted(self.keys, key_BTS).clamp_(max=len(self.keys) - 1)
        place_BTS = place_BTS.masked_fill_(self.keys[place_BTS] != key_BTS, len(self.keys))
        if turned:
            return self.back.expect(place_BTS.transpose(1, 2), block.turned())
        return self.forth.expect(place_BTS, block)

    def align(self, source: Padded, target: Padded, turned: bool = False) -> tuple[Tensor, Tensor]:
        """The posterior [B, T, 1 + S] of ``Aligner.align``, and the log-probability of each target token [B, T].

        If ``turned`` is True, ``back`` gives the posterior [B, S, 1 + T] and the log-probabilities [B, S]. EOS has
        log-probability 0. Words of a pair whose other side is empty come from the null word; their log-probability is
        -log V, where V is the number of entries in the lexicon's ``null``.
        """
        sides = (target, source) if turned else (source, target)
        (_, S), (B, T) = (side.values.shape for side in sides)
        direction = self.back if turned else self.forth
        words_BT = sides[1].mask & (torch.arange(T, device=target.lengths.device) < sides[1].lengths[:, None] - 1)
        posterior_BTI = direction.lexicon.null.new_zeros(B, T, 1 + S)
        posterior_BTI[..., 0] = words_BT.to(posterior_BTI)
        log_prob_BT = posterior_BTI[..., 0] * -float(np.log(max(1, len(direction.lexicon.null))))
        for block in blocks(Sentences.of_padded(source), Sentences.of_padded(target)):
            expected = self.expect(block, turned)
            rows = torch.from_numpy(block.rows_B).to(target.lengths.device)
            _, words, columns = expected.posterior_BTI.shape
            posterior_BTI[rows, :words, :columns] = expected.posterior_BTI.to(posterior_BTI)
            log_prob_BT[rows, :words] = expected.log_prob_BT.to(posterior_BTI)
        return posterior_BTI, log_prob_BT
