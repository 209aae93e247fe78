"""The hidden Markov model with fertilities. A fertility is the number of target words that a source word has; it has a
probability too.

B, S, T and I as in blocks.py. V source words; F = 1 + ``most`` fertilities.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.training.counted import empty
from transduce.wings.counted.alignment.blocks import Block
from transduce.wings.counted.alignment.jumps import Jumps
from transduce.wings.counted.alignment.neighbours import Landscape
from transduce.wings.counted.alignment.pegging import pegged, union
from transduce.wings.counted.alignment.position import Expectation, Ids, Position


class Fertility(nn.Module):
    """p(y, a | x) is proportional to prod_i n(phi_i | x_i) prod_t p(a_t | a_t-1, S) t(y_t | x_a_t), where phi_i is the
    number of target words that come from source word i (Zhao and Gildea 2010; Östling and Tiedemann 2016).

    ``Jumps`` has the jumps p and their options ``null``, ``uniform`` and ``window``. ``jumps`` passes train the model
    without fertilities first. Sums over all alignments are not possible. So the E-step climbs from the best positions
    of the hidden Markov model to the best neighbour, as IBM models 3 and 4 do, and sums over the neighbourhood of the
    alignment that it reaches (Brown et al. 1993, section 5.2; Och and Ney 2003, section 3.3). Hence the likelihood may
    fall. The jumps learn from the exact posteriors without fertilities.

    Pegging (Brown et al. 1993) also sums around other alignments. For each pair, ``pegs`` links outside of the best
    alignment, those with the highest posteriors of the hidden Markov model, are fixed in turn while the E-step climbs
    again. An alignment in several neighbourhoods counts once. 0 leaves pegging out.

    Fertilities of ``most`` and more share one probability. n(phi | x_i) is smoothed by ``smoothing`` counts,
    distributed like the fertilities of all words.
    """

    def __init__(
        self,
        null: float = 0.1,
        uniform: float = 0.01,
        window: int = 50,
        jumps: int = 5,
        most: int = 8,
        smoothing: float = 3.0,
        pegs: int = 0,
    ) -> None:
        super().__init__()
        if jumps < 0:
            raise UserError(f"jumps = {jumps}: at least 0 passes were expected")
        if most < 1:
            raise UserError(f"most = {most}: a fertility of at least 1 was expected")
        if pegs < 0:
            raise UserError(f"pegs = {pegs}: at least 0 was expected")
        if not smoothing > 0:
            raise UserError(f"smoothing = {smoothing}: more than 0 was expected")
        self.jumps = Jumps(null, uniform, window)
        self.passes, self.most, self.smoothing, self.pegs = jumps, most, smoothing, pegs
        self.probability = empty(torch.float32, 1 + most)  # [V + 1, F]; the last row is for other words

    def begin(self, source_length_N: Ids, target_length_N: Ids, source_words: int) -> None:
        """Makes all fertilities equally probable, and begins ``jumps``. All source ids are below ``source_words``."""
        self.jumps.begin(source_length_N, target_length_N, source_words)
        self.probability.data = torch.full((source_words + 1, 1 + self.most), 1 / (1 + self.most), dtype=torch.float64)

    def earlier(self) -> Sequence[Position]:
        return [self.jumps] * self.passes

    def expect(self, block: Block, emission_BTI: Tensor) -> Expectation:
        exact = self.jumps.expect(block, emission_BTI)
        space = self.landscape(block, emission_BTI)
        best_BT = space.climb(exact.posterior_BTI.argmax(-1))
        around = space.neighbourhood(best_BT)
        if self.pegs:
            around = union(space, pegged(space, best_BT, exact.posterior_BTI, self.pegs))
        B, K = len(best_BT), len(around.own_B) // len(best_BT)
        mask_BT = block.target.mask
        posterior_BTI = (_sum_of_pairs(around.posterior(), B) * mask_BT[..., None]).to(emission_BTI)
        log_prob_BT = (around.log_total_B[::K] / block.target.lengths)[:, None] * mask_BT

        def statistics() -> tuple[Tensor, ...]:
            words_BS = block.source.values
            share_BIF = _sum_of_pairs(around.fertilities(self.most), B)
            share_BSF = share_BIF[:, 1:].to(self.probability)
            count_VF = torch.zeros_like(self.probability)
            count_VF.index_add_(0, words_BS[block.source.mask], share_BSF[block.source.mask])
            return (*exact.statistics(), count_VF)

        return Expectation(posterior_BTI, log_prob_BT.to(emission_BTI), statistics)

    def landscape(self, block: Block, emission_BTI: Tensor) -> Landscape:
        """The factors of the probabilities of all alignments of a block, as single-precision logarithms."""
        transitions = self.jumps.jumps(block, emission_BTI)
        jump_BMS = transitions.near_BM[..., None] * transitions.weight_MS + transitions.far_BS[:, None]
        choice_I = torch.ones_like(emission_BTI[0, 0])
        choice_I[0] = self.jumps.null
        word_BS = block.source.values.clamp(max=len(self.probability) - 1)
        fertility_BSF = self.probability[word_BS].log() * block.source.mask[..., None]
        return Landscape(
            (emission_BTI * choice_I).log().float(),
            jump_BMS.log().float(),
            nn.functional.pad(fertility_BSF, (0, 0, 1, 0)).float(),
            block.target.mask,
        )

    def learn(self, statistics: tuple[Tensor, ...]) -> None:
        *jumps, count_VF = statistics
        self.jumps.learn(tuple(jumps))
        every_F = count_VF.sum(0) + 1 / (1 + self.most)  # none is impossible
        prior_F = self.smoothing * every_F / every_F.sum()
        self.probability.data = (count_VF + prior_F) / (count_VF.sum(-1, keepdim=True) + self.smoothing)


def _sum_of_pairs(rows_N: Tensor, pairs: int) -> Tensor:
    """[B, ...], B = ``pairs``: sums over the K adjacent rows of each pair, of N = B * K rows [N, ...]."""
    return rows_N.view(pairs, -1, *rows_N.shape[1:]).sum(1)
