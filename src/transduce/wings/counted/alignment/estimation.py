"""Expectation maximisation of word aligners in both directions.

N pairs, U pairs of words that occur in the same sentence pair. B, S, T and I as in blocks.py.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.data.pairs import Pairs
from transduce.training.counted import check_tokens
from transduce.wings.alignment.links import Heuristic, Links, symmetrise
from transduce.wings.counted.alignment.blocks import Ids, Sentences, blocks
from transduce.wings.counted.alignment.lexicon import WIDTH, LexicalCounts, number_pairs
from transduce.wings.counted.alignment.position import Position, Uniform
from transduce.wings.counted.alignment.two_ways import TwoWays

MOST = 200_000_000  # pairs of words to count, about 2 GB; of a larger corpus, every n-th sentence pair
NEGLIGIBLE = 1e-6  # pairs of words that are less probable in both directions are left out of the stored lexicons


class TwoWayCounts:
    """Expected counts of word aligners in both directions over a corpus. It follows the protocol
    ``statistical.counted.Counts`` and changes ``model`` in place.

    The constructor does ``warm_up`` passes of IBM model 1, then one pass of each model of ``Position.earlier``. If
    ``agreement`` is True, the lexicons count each link with the product of both directions' posteriors (Liang et al.
    2006); then the likelihood may fall. ``LexicalCounts`` explains ``prior``; 0 gives maximum likelihood.

    Pairs with an empty side are not counted. If the corpus has more than ``MOST`` pairs of words, only every n-th
    sentence pair is counted. ``report`` has a line for each of these two cases. Raises UserError if no pair has words
    on both sides.
    """

    def __init__(self, model: TwoWays, pairs: Pairs, warm_up: int, agreement: bool, prior: float) -> None:
        check_tokens("a word aligner", pairs.source, pairs.target)
        self.device = model.keys.device  # counting is in float64, on the processor
        self.model, self.agreement = model.cpu().double(), agreement
        sides = Sentences.of_ragged(pairs.source), Sentences.of_ragged(pairs.target)
        rows, self.report = _countable(*sides)
        self.pairs = len(pairs)
        self.blocks = list(blocks(*sides, rows))
        model.keys.data, self.places = number_pairs(self.blocks)
        source_U, target_U = model.keys // WIDTH, model.keys % WIDTH
        self.lexicons = (
            LexicalCounts(model.forth.lexicon, source_U, 1 + int(target_U.max()), prior),
            LexicalCounts(model.back.lexicon, target_U, 1 + int(source_U.max()), prior),
        )
        lengths = tuple(side.length_N[rows] for side in sides)
        self.tokens = int(sum(length_N.sum() for length_N in lengths))
        model.forth.position.begin(*lengths, 1 + int(source_U.max()))
        model.back.position.begin(*lengths[::-1], 1 + int(target_U.max()))
        for _ in range(warm_up):
            self._pass((Uniform(), Uniform()))
        for earlier in zip(model.forth.position.earlier(), model.back.position.earlier(), strict=True):
            self._pass(earlier)

    def reestimate(self) -> float:
        """One pass of expectation maximisation over the counted pairs. Returns the log-probability of their words
        before the pass (natural logarithm), summed over both directions.
        """
        return self._pass((self.model.forth.position, self.model.back.position))

    def store(self) -> None:
        """Removes the pairs of words whose probability is at most ``NEGLIGIBLE`` in both directions, and converts the
        model to single precision, in place, on the device that it came from.
        """
        lexicons = (self.model.forth.lexicon, self.model.back.lexicon)
        kept_U = torch.maximum(*(lexicon.probability for lexicon in lexicons)) > NEGLIGIBLE
        for parameter in (self.model.keys, *(lexicon.probability for lexicon in lexicons)):
            parameter.data = parameter[kept_U]
        self.model.float().to(self.device)

    def links(self, heuristic: Heuristic) -> Links:
        """The best links of the counted pairs, symmetrised by ``heuristic``. A pair that was not counted has no
        links.
        """
        return symmetrise(*self.directions(), heuristic)

    def directions(self) -> tuple[Links, Links]:
        """The best links of the counted pairs, by ``forth`` and by ``back``. Both results have the corpus' source as
        source and its target as target.
        """
        chosen: tuple[list[tuple[Ids, Tensor]], ...] = ([], [])
        for number, block in enumerate(self.blocks):
            sides = ((self.places[number], block), (self.places[number].transpose(1, 2), block.turned()))
            for direction, side, found in zip((self.model.forth, self.model.back), sides, chosen, strict=True):
                found.append((block.rows_B, direction.expect(*side).posterior_BTI.argmax(-1)))
        forth, back = (chosen_links(self.pairs, found) for found in chosen)
        return forth, back.turned()

    def _pass(self, positions: tuple[Position, Position]) -> float:
        log_prob = 0.0
        sums: list[tuple[Tensor, ...]] = [(), ()]
        for number, block in enumerate(self.blocks):
            sides = ((self.places[number], block), (self.places[number].transpose(1, 2), block.turned()))
            expected = [
                position.expect(side[1], counts.lexicon(*side))
                for position, counts, side in zip(positions, self.lexicons, sides, strict=True)
            ]
            log_prob += sum(float(each.log_prob_BT.sum()) for each in expected)
            posteriors = [each.posterior_BTI for each in expected]
            if self.agreement:
                posteriors = agreed(*posteriors)
            for counts, side, posterior in zip(self.lexicons, sides, posteriors, strict=True):
                counts.add(*side, posterior)
            sums = [_added(total, each.statistics()) for total, each in zip(sums, expected, strict=True)]
        for counts, position, statistics in zip(self.lexicons, positions, sums, strict=True):
            counts.maximise()
            position.learn(statistics)
        return log_prob


def agreed(forth_BTI: Tensor, back_BSI: Tensor) -> list[Tensor]:
    """Both posteriors, with the probability of each link replaced by the product of both directions' probabilities. The
    null words keep their own. The results are not normalised.
    """
    both_BTS = forth_BTI[..., 1:] * back_BSI[..., 1:].transpose(1, 2)
    return [
        torch.cat([forth_BTI[..., :1], both_BTS], -1),
        torch.cat([back_BSI[..., :1], both_BTS.transpose(1, 2)], -1),
    ]


def chosen_links(pairs: int, chosen: list[tuple[Ids, Tensor]]) -> Links:
    """The Links of a corpus of ``pairs`` pairs. ``chosen`` has for each block the numbers of its pairs [B], and the
    source position of each target word [B, T].

    Source word s is position s + 1. Position 0, the null word, makes no link.
    """
    columns = [np.zeros((3, 0), np.int64)]
    for rows_B, position_BT in chosen:
        row, target = torch.nonzero(position_BT, as_tuple=True)
        columns.append(np.stack([rows_B[row.cpu().numpy()], position_BT[row, target].cpu() - 1, target.cpu()]))
    return Links.of(pairs, *np.concatenate(columns, 1))


def _added(total: tuple[Tensor, ...], statistics: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(a + b for a, b in zip(total, statistics, strict=True)) if total else statistics


def _countable(source: Sentences, target: Sentences) -> tuple[Ids, tuple[str, ...]]:
    """The numbers of the pairs to count, and for each reason why others are left out a line for the report."""
    S_N, T_N = source.length_N, target.length_N
    rows = np.flatnonzero(np.minimum(S_N, T_N) > 0)
    if not len(rows):
        raise UserError(
            f"none of the {len(S_N):,} pairs has words on both sides, so there is nothing to align; a word aligner "
            "learns from sentences and their translations"
        )
    report = []
    if len(rows) < len(S_N):
        report.append(f"{len(S_N) - len(rows):,} of {len(S_N):,} pairs have an empty side, and are not counted")
    every = -(-int((S_N * T_N)[rows].sum()) // MOST)
    if every > 1:
        report.append(f"counts every {every}. pair: all have more than {MOST:,} pairs of words")
    return rows[::every], tuple(report)
