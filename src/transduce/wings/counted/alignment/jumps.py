"""The hidden Markov model of word alignment: the source position of a target word depends on the position of the target
word before it.

B, S, T and I as in blocks.py. M = 1 + S positions from which a jump can start: the begin (0) and the words of the
source. W different widths of jumps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.models.tables import check_rows
from transduce.training.counted import empty
from transduce.wings.counted.alignment.blocks import Block
from transduce.wings.counted.alignment.position import Expectation, Ids, Position, check_share

ROUNDS = 10  # of the iteration in ``learn``


class Jumps(nn.Module):
    """p(i_t | i_t-1, S) is proportional to the weight of the jump's width i_t - i_t-1 (Vogel et al. 1996). The first
    jump starts from position 0.

    A target word comes from the null word with probability ``null``; the next jump then starts from the same position
    as if the null word were not there (Och and Ney 2003, section 2.2.1). A share ``uniform`` of the other jumps goes to
    any source word, all equally probable. Jumps of more than ``window`` words have the weight of a jump of ``window``
    words.
    """

    def __init__(self, null: float = 0.1, uniform: float = 0.01, window: int = 50) -> None:
        super().__init__()
        check_share("null", null)
        check_share("uniform", uniform)
        if window < 1:
            raise UserError(f"window = {window}: at least 1 was expected")
        self.null, self.uniform, self.window = null, uniform, window
        self.weight = empty()  # [W = 2 * window + 1]

    def begin(self, source_length_N: Ids, target_length_N: Ids, source_words: int) -> None:
        """Makes all widths of jumps equally probable. Only the lengths of the sources matter."""
        self.longest = int(source_length_N.max(initial=1))
        self.weight.data = torch.full((2 * self.window + 1,), 1.0 / (2 * self.window + 1), dtype=torch.float64)

    def check_tables(self) -> None:
        if len(self.weight):
            check_rows(2 * self.window + 1, {"weight": self.weight})

    def earlier(self) -> Sequence[Position]:
        return ()

    def expect(self, block: Block, emission_BTI: Tensor) -> Expectation:
        chain = self.chain(block, emission_BTI)
        real_BT1 = block.target.mask[..., None]
        word_BTS = (chain.word_TBS * chain.later_TBM[..., 1:]).transpose(0, 1)
        null_BT1 = (chain.null_TBM * chain.later_TBM).sum(-1).T[..., None]
        log_prob_BT = chain.norm_TB1[..., 0].T.log().masked_fill(~block.target.mask, 0.0)
        posterior_BTI = torch.cat([null_BT1, word_BTS], -1) * real_BT1
        return Expectation(posterior_BTI, log_prob_BT, partial(chain.statistics, self, block))

    def chain(self, block: Block, emission_BTI: Tensor) -> Chain:
        emission_TBI = emission_BTI.transpose(0, 1).contiguous()
        real_TB1 = block.target.mask.T[..., None]
        return Chain(self.jumps(block, emission_TBI), emission_TBI, real_TB1)

    def jumps(self, block: Block, like: Tensor) -> Transitions:
        S = block.source.values.shape[1]
        weight_MS = self.weight.to(like)[self.widths(S)]
        mask_BS = block.source.mask.to(like)
        near_BM = (1 - self.null) * (1 - self.uniform) / (mask_BS @ weight_MS.T)
        far_BS = (1 - self.null) * self.uniform * mask_BS / block.source.lengths[:, None]
        return Transitions(weight_MS, near_BM, far_BS, self.null)

    def widths(self, S: int) -> Tensor:
        """[M, S]: the index in ``weight`` of the jump from each position to each source word."""
        width_MS = (
            torch.arange(1, S + 1, device=self.weight.device) - torch.arange(S + 1, device=self.weight.device)[:, None]
        )
        return width_MS.clamp(-self.window, self.window) + self.window

    def learn(self, statistics: tuple[Tensor, ...]) -> None:
        """Sets the weights of the widths, in place, from the sums of ``Chain.statistics``.

        Maximises the sum over widths of count_W log weight_W, minus the sum over S and M of left_SM log(the sum of the
        weights of the jumps from M to the S words). Each of ``ROUNDS`` rounds divides a width's count by the sum of
        left_SM / (that sum of weights) over the jumps of this width. The likelihood does not fall (Hunter 2004, on the
        same likelihood of choices).
        """
        count_W, left_SM = statistics
        L = self.longest
        width_MS = self.widths(L)
        for _ in range(ROUNDS):
            total_MS = self.weight[width_MS].cumsum(1)  # of the first S words
            share_MS = left_SM[1:].T / total_MS
            longer_MS = share_MS.flip(1).cumsum(1).flip(1)  # sums over all lengths that have this word
            chance_W = torch.zeros_like(count_W).index_add_(0, width_MS.reshape(-1), longer_MS.reshape(-1))
            weight_W = torch.where(chance_W > 0, count_W / chance_W, 0.0).clamp(min=SMALLEST)
            self.weight.data = weight_W / weight_W.sum()


SMALLEST = 1e-12  # weight of a width


@dataclass(frozen=True)
class Transitions:
    """The probabilities of jumps from M positions to S source words, for each row b of a block: ``near_BM * weight_MS +
    far_BS``. ``null`` is the probability of no jump: the target word comes from the null word.
    """

    weight_MS: Tensor
    near_BM: Tensor
    far_BS: Tensor
    null: float

    def forth(self, start_BM: Tensor) -> Tensor:
        """[B, S]: for each end, the sum over all starts of ``start_BM`` times P(jump from the start to this end)."""
        near_BS = (start_BM * self.near_BM) @ self.weight_MS
        return near_BS + start_BM.sum(1, keepdim=True) * self.far_BS

    def back(self, end_BS: Tensor) -> Tensor:
        """[B, M]: for each start, the sum over all ends of P(jump from this start to the end) times ``end_BS``."""
        near_BM = self.near_BM * (end_BS @ self.weight_MS.T)
        return near_BM + (end_BS * self.far_BS).sum(1, keepdim=True)


class Chain:
    """The forward and backward recursions of a block. They are scaled so that the forward probabilities sum to 1 at
    each target position.

    ``word_TBS`` is the forward probability of a target word that comes from each source word. ``null_TBM`` is the
    forward probability of a target word that comes from the null word after source position m (0: none). ``norm_TB1``
    is p(y_t | y_<t, x). ``later_TBM`` is the backward probability after a jump to m, or after the null word at m.
    """

    def __init__(self, jumps: Transitions, emission_TBI: Tensor, real_TB1: Tensor) -> None:
        self.transitions, self.real_TB1 = jumps, real_TB1
        self.emission_TBS, self.null_TB1 = emission_TBI[..., 1:], emission_TBI[..., :1] * jumps.null
        self._forward(emission_TBI)
        self._backward()

    def _forward(self, emission_TBI: Tensor) -> None:
        T, B, M = emission_TBI.shape
        start_BM = emission_TBI.new_zeros(B, M)
        start_BM[:, 0] = 1.0
        starts, words, nulls, norms = [], [], [], []
        for t in range(T):
            word_BS = self.transitions.forth(start_BM) * self.emission_TBS[t]
            null_BM = start_BM * self.null_TB1[t]
            norm_B1 = word_BS.sum(1, keepdim=True) + null_BM.sum(1, keepdim=True)
            word_BS, null_BM = word_BS / norm_B1, null_BM / norm_B1
            starts.append(start_BM)
            start_BM = torch.nn.functional.pad(word_BS, (1, 0)) + null_BM
            words.append(word_BS)
            nulls.append(null_BM)
            norms.append(norm_B1)
        self.start_TBM, self.word_TBS = torch.stack(starts), torch.stack(words)
        self.null_TBM, self.norm_TB1 = torch.stack(nulls), torch.stack(norms)

    def _backward(self) -> None:
        later_BM = torch.ones_like(self.start_TBM[0])
        laters, ends = [], []
        for t in range(len(self.start_TBM) - 1, -1, -1):
            laters.append(later_BM)
            end_BS = self.emission_TBS[t] * later_BM[:, 1:] / self.norm_TB1[t]
            ends.append(end_BS)
            before_BM = self.transitions.back(end_BS) + later_BM * (self.null_TB1[t] / self.norm_TB1[t])
            later_BM = torch.where(self.real_TB1[t], before_BM, later_BM)
        self.later_TBM, self.end_TBS = torch.stack(laters[::-1]), torch.stack(ends[::-1])

    def statistics(self, model: Jumps, block: Block) -> tuple[Tensor, Tensor]:
        """The expected number of jumps of each width [W]; and the expected number of jumps that start at each position
        of sources of each length, [1 + longest S, 1 + longest S]. Uniform jumps do not count.
        """
        start_TBM = self.start_TBM * self.transitions.near_BM
        end_TBS = self.end_TBS * self.real_TB1
        jump_MS = start_TBM.flatten(0, 1).T @ end_TBS.flatten(0, 1) * self.transitions.weight_MS
        count_W = torch.zeros_like(model.weight)
        count_W.index_add_(0, model.widths(jump_MS.shape[1]).reshape(-1), jump_MS.reshape(-1))
        left_BM = (start_TBM * (end_TBS @ self.transitions.weight_MS.T)).sum(0)
        left_SM = left_BM.new_zeros(model.longest + 1, model.longest + 1)
        left_SM[:, : left_BM.shape[1]].index_add_(0, block.source.lengths, left_BM)
        return count_W, left_SM
