"""Linear chains: label sequences in which each label depends on one or more labels before it, in log space.

Conditional random fields and hidden Markov models are chains. Viterbi and forward-backward are written here once.

B rows, T positions, L labels (I to the left of J), K sequences of a row. A history is the last n labels, where n is the
order of the chain. It is one number: its labels are the digits in base L, the oldest label first. There are H = L^n
histories. One step replaces the oldest label O of a history by a new last label J; the labels R = L^(n-1) between them
stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import BOS, real_mask

NEVER = float("-inf")
LARGEST = 690.0  # exp of it is finite in float64


@dataclass(frozen=True)
class Trellis:
    """The scores (logarithms) of all label sequences y of each row. T is here the row's own length:

    s(y) = start(y_1) + sum_t unary_t(y_t) + sum_t transition(y_t-n, ..., y_t-1, y_t) + end(y_T-n+1, ..., y_T), and p(y)
    = exp s(y) / Z. The sums over transitions begin at t = 2. Labels before the first one are BOS.

    ``unary`` [B, T, L] has ``lengths`` [B] real positions in its rows; its own T is at least 1. ``transition`` [H, L]
    goes from a history to the next label. It is [L, L] if a history has one label. ``start`` is [L], and ``end`` is
    [H]. A row of length 0 has one sequence, with score 0.
    """

    unary: Tensor
    lengths: Tensor
    transition: Tensor
    start: Tensor
    end: Tensor

    @property
    def mask(self) -> Tensor:
        """[B, T], True at real positions."""
        return real_mask(self.lengths, self.unary.shape[1])

    def score(self, labels_BT: Tensor) -> Tensor:
        """[B]: s(y) of one label sequence per row. Labels past a row's length do not count, but must be 0 to L - 1."""
        places_T = torch.arange(labels_BT.shape[1], device=labels_BT.device)
        history_BT = self.histories(labels_BT)
        unary_BT = self.unary.gather(2, labels_BT[..., None])[..., 0]
        into_BT = torch.cat([self.start[labels_BT[:, :1]], self.transition[history_BT[:, :-1], labels_BT[:, 1:]]], 1)
        end_BT = torch.where(places_T == self.lengths[:, None] - 1, self.end[history_BT], 0.0)
        return (unary_BT + into_BT + end_BT).masked_fill(~self.mask, 0.0).sum(1)

    def histories(self, labels_BT: Tensor) -> Tensor:
        """[B, T]: the number of the history that ends with each label. Labels before the first one are BOS."""
        longer_BT, history_BT = labels_BT, labels_BT.clone()
        weight = self._labels
        while weight < self._histories:
            longer_BT = nn.functional.pad(longer_BT[:, :-1], (1, 0), value=BOS)
            history_BT += weight * longer_BT
            weight *= self._labels
        return history_BT

    def own(self, target_BT: Tensor, lengths_B: Tensor) -> Tensor:
        """[B, T]: ``target_BT``, cut or padded with 0 to the T positions of this trellis.

        Raises UserError if a row's number of labels (``lengths_B``, without EOS) is not its length here.
        """
        check_lengths(self.lengths, lengths_B)
        positions = self.unary.shape[1]
        missing = max(0, positions - target_BT.shape[1])
        return nn.functional.pad(target_BT, (0, missing))[:, :positions]

    def clamped(self, labels_BT: Tensor, known_BT: Tensor) -> Trellis:
        """A new trellis of the sequences that have the label ``labels_BT`` wherever ``known_BT`` [B, T] is True.

        All other sequences have score minus infinity.
        """
        own_BTL = nn.functional.one_hot(labels_BT, self._labels).bool()
        return replace(self, unary=self.unary.masked_fill(known_BT[..., None] & ~own_BTL, NEVER))

    @cached_property
    def forward(self) -> Tensor:
        """[B, T, H]: alpha_t(h), the log-sum over all label prefixes that end with history h at time t, with the unary
        score at t.

        Values past a row's length have no meaning.
        """
        alpha_BH = self._begun()
        found = [alpha_BH]
        for unary_BL in self.unary.unbind(1)[1:]:
            reached_BRJ = log_product(alpha_BH.view(-1, *self._steps.shape[:2]), self._weights)
            alpha_BH = (reached_BRJ + unary_BL[:, None]).flatten(1)
            found.append(alpha_BH)
        return torch.stack(found, 1)

    @cached_property
    def backward(self) -> Tensor:
        """[B, T, H]: beta_t(h), the log-sum over all label suffixes after history h at time t; 0 past a row's length.

        It has the end's score, but not the unary score at t.
        """
        last_B = self.lengths - 1
        beta_BH = self.unary.new_zeros(len(self.unary), self._histories)
        weights_JRO = self._weights.transpose(0, 2)
        found = []
        for t in range(self.unary.shape[1] - 1, -1, -1):
            if t + 1 < self.unary.shape[1]:
                follows_BRJ = beta_BH.view(len(beta_BH), -1, self._labels) + self.unary[:, t + 1, None]
                after_BRO = log_product(follows_BRJ.transpose(1, 2), weights_JRO)
                after_BH = after_BRO.transpose(1, 2).flatten(1)
                beta_BH = torch.where(last_B[:, None] > t, after_BH, beta_BH)
            beta_BH = torch.where(last_B[:, None] == t, self.end, beta_BH)
            found.append(beta_BH)
        return torch.stack(found[::-1], 1)

    @cached_property
    def log_normaliser(self) -> Tensor:
        """[B]: log Z, the log-sum over all sequences; 0 for a row of length 0.

        If ``unary`` scores are log p(x | y) and the others are log-probabilities, this is log p(x).
        """
        last_B = (self.lengths - 1).clamp(min=0)
        alpha_BH = self.forward[torch.arange(len(last_B), device=last_B.device), last_B]
        return (alpha_BH + self.end).logsumexp(-1).masked_fill(self.lengths == 0, 0.0)

    def posteriors(self) -> Tensor:
        """[B, T, L]: log p(y_t = j | x) by the forward-backward algorithm; the value is 0 past a row's length."""
        both_BTH = self.forward + self.backward - self.log_normaliser[:, None, None]
        both_BTL = both_BTH.view(*self.unary.shape[:2], -1, self._labels).logsumexp(2)
        return both_BTL.masked_fill(~self.mask[..., None], 0.0)

    def transition_counts(self) -> Tensor:
        """[H, L], float64: the expected number of times that each label follows each history, over all rows."""
        real_N = self.mask[:, 1:].flatten()
        alpha_NH = self.forward[:, :-1].flatten(0, 1)[real_N].double()
        scale_N1 = alpha_NH.logsumexp(1, keepdim=True)
        total_N = self.log_normaliser[:, None].expand(-1, self.unary.shape[1] - 1).flatten()[real_N]
        follows_NRJ = self._follows().flatten(0, 1)[real_N].double() + (scale_N1 - total_N[:, None])[..., None]
        before_NOR = (alpha_NH - scale_N1).exp().view(-1, *self._steps.shape[:2])
        # where a product is not 0, follows is small enough; the limit keeps 0 times infinity away
        after_NRJ = follows_NRJ.clamp(max=LARGEST).exp()
        together_ORJ = torch.einsum("nor,nrj->orj", before_NOR, after_NRJ)
        return (together_ORJ * self._weights).flatten(0, 1)

    def counts(self) -> Tensor:
        """[1 + H, L + 1], float64: the expected number of times that each label, or the end (the last column), follows
        the begin (row 0) and each history, over all rows. Rows of length 0 count nothing.
        """
        counts_HL = self._weights.new_zeros(1 + self._histories, self._labels + 1)
        counts_HL[1:, :-1] = self.transition_counts()
        real_B = self.lengths > 0
        last_B, rows_B = (self.lengths - 1)[real_B], torch.arange(len(real_B), device=real_B.device)[real_B]
        total_B1 = self.log_normaliser[real_B, None]
        first_BH = self.forward[real_B, 0] + self.backward[real_B, 0] - total_B1
        counts_HL[0, :-1] = first_BH[:, self._first].double().exp().sum(0)
        counts_HL[1:, -1] = (self.forward[rows_B, last_B] + self.end - total_B1).double().exp().sum(0)
        return counts_HL

    def conditionals(self, labels_BT: Tensor) -> Tensor:
        """[B, T, L]: log p(y_t = j | y_<t, x) for each label j, where ``labels_BT`` give y_<t; 0 past a row's length.

        A chain also has a left-to-right factorisation: log p(y) is the sum of these values at y.
        """
        history_BT = self.histories(labels_BT)[:, :-1]
        first_BL = self.start + self.unary[:, 0] + self.backward[:, 0, self._first]
        rest_BT1L = (history_BT % (self._histories // self._labels))[..., None, None].expand(-1, -1, 1, self._labels)
        follows_BTL = self._follows().gather(2, rest_BT1L)[:, :, 0]
        later_BTL = self.transition[history_BT] + follows_BTL
        every_BTL = torch.cat([first_BL[:, None], later_BTL], 1).log_softmax(-1)
        return every_BTL.masked_fill(~self.mask[..., None], 0.0)

    def best(self, count: int = 1) -> tuple[Tensor, Tensor]:
        """The K = ``count`` best label sequences of each row, best first: labels [B, K, T] and scores [B, K].

        Scores are s(y), not log-probabilities. A score is minus infinity if a row has fewer sequences; its labels then
        have no meaning. The last label is repeated past a row's length. Each history keeps the K best prefixes that end
        with it; ``count`` 1 is Viterbi's algorithm (1967).
        """
        (_, R, L), (B, T, _) = self._steps.shape, self.unary.shape
        ways_BKH = self.unary.new_full((B, count, self._histories), NEVER)
        ways_BKH[:, 0] = self._begun()
        every = [ways_BKH]
        for t in range(1, T):
            each_BKORJ = ways_BKH.view(B, count, L, R, 1) + self._steps
            reached_BKRJ = highest(each_BKORJ.flatten(1, 2), count)
            reached_BKH = (reached_BKRJ + self.unary[:, t, None, None]).flatten(2)
            ways_BKH = torch.where((t < self.lengths)[:, None, None], reached_BKH, ways_BKH)
            every.append(ways_BKH)
        score_BK, place_BK = (ways_BKH + self.end).flatten(1).topk(count)
        labels = [place_BK % L]
        for t in range(T - 1, 0, -1):
            before_BK = self._origin(every[t - 1], place_BK)
            place_BK = torch.where((t < self.lengths)[:, None], before_BK, place_BK)
            labels.append(place_BK % L)
        empty_B1 = (self.lengths == 0)[:, None]
        first_K = torch.arange(count, device=score_BK.device) == 0
        score_BK = torch.where(empty_B1, torch.where(first_K, 0.0, NEVER).to(score_BK), score_BK)
        return torch.stack(labels[::-1], -1), score_BK

    def _origin(self, ways_BKH: Tensor, place_BK: Tensor) -> Tensor:
        """The places [B, K] in ``ways_BKH``, the scores at one position, from which the ways to ``place_BK`` at the
        next position come.

        A place is k * H + h: the rank k of a way among those that end with history h. Only the best sequences are
        traced back, so this takes less time than back-pointers for all histories.
        """
        (B, count, H), (L, R, _) = ways_BKH.shape, self._steps.shape
        rank_BK, history_BK = place_BK // H, place_BK % H
        rest_BK = history_BK // L
        ways_BKKL = ways_BKH.view(B, 1, count, L, R).expand(-1, count, -1, -1, -1)
        ways_BKKL = ways_BKKL.gather(4, rest_BK[..., None, None, None].expand(-1, -1, count, L, 1))[..., 0]
        steps_BKL = self._steps[:, rest_BK, history_BK % L].permute(1, 2, 0)
        found_BKK = (ways_BKKL + steps_BKL[:, :, None]).flatten(2).topk(count, 2).indices
        origin_BK = found_BKK.gather(2, rank_BK[..., None])[..., 0]
        return origin_BK * R + rest_BK

    @property
    def _labels(self) -> int:
        return len(self.start)

    @property
    def _histories(self) -> int:
        return len(self.end)

    @cached_property
    def _steps(self) -> Tensor:
        """[O, R, J]: the transition scores."""
        return self.transition.reshape(self._labels, -1, self._labels)

    @cached_property
    def _weights(self) -> Tensor:
        """[O, R, J], float64: exp of the transition scores."""
        return self._steps.double().exp()

    @property
    def _first(self) -> Tensor:
        """[L]: the history of each first label, which only BOS precedes."""
        return self.histories(torch.arange(self._labels, device=self.start.device)[:, None])[:, 0]

    def _begun(self) -> Tensor:
        """[B, H]: start and unary score of the first label of each history; minus infinity for histories that cannot
        stand at the first position.
        """
        alpha_BH = self.unary.new_full((len(self.unary), self._histories), NEVER)
        return alpha_BH.index_copy(1, self._first, self.start + self.unary[:, 0])

    def _follows(self) -> Tensor:
        """[B, T - 1, R, J]: for each label J at t = 2 to T, its unary score plus the log-sum over all label suffixes
        after it. It has no transition into J. Values past a row's length have no meaning.
        """
        B, T, _ = self.unary.shape
        return self.unary[:, 1:, None] + self.backward[:, 1:].reshape(B, T - 1, *self._steps.shape[1:])


def log_product(a_BOR: Tensor, weights_ORJ: Tensor) -> Tensor:
    """[B, R, J]: the log of the sum over o of exp(a(o, r)) weight(o, r, j).

    This is a matrix product for each r, in float64; the result has the type of a. An exp(a) below exp(-700) times the
    largest one of its row and r may count as 0.
    """
    largest_B1R = a_BOR.detach().amax(1, keepdim=True).clamp(min=torch.finfo(a_BOR.dtype).min)
    shifted_RBO = (a_BOR - largest_B1R).double().exp().permute(2, 0, 1)
    product_RBJ = shifted_RBO @ weights_ORJ.transpose(0, 1)
    never_RBJ = product_RBJ == 0
    log_RBJ = product_RBJ.masked_fill(never_RBJ, 1.0).log().masked_fill(never_RBJ, NEVER)  # no NaN in the gradient
    return log_RBJ.transpose(0, 1).to(a_BOR) + largest_B1R.transpose(1, 2)


def highest(scores_BN: Tensor, count: int) -> Tensor:
    """The ``count`` highest scores over the second axis N, highest first: [B, count, ...] of [B, N, ...]."""
    if count == 1:  # much faster than topk
        return scores_BN.amax(1, keepdim=True)
    return scores_BN.topk(count, 1).values


def check_lengths(own_B: Tensor, wanted_B: Tensor | None) -> None:
    """Raises UserError unless each row has as many labels (``wanted_B``) as its source has positions (``own_B``).

    Does nothing if ``wanted_B`` is None.
    """
    if wanted_B is None or torch.equal(own_B, wanted_B):
        return
    row = int((own_B != wanted_B).nonzero()[0])
    raise UserError(
        f"{int(wanted_B[row])} labels for a source of {int(own_B[row])} (row {row} of its batch): this model gives "
        'each source token one label; set data.lines.unequal = "error" to see the line, or "skip" to leave it out'
    )
