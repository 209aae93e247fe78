"""Linear chains: label sequences in which each label depends on the label before it, in log space.

Conditional random fields and hidden Markov models are chains. Viterbi and forward-backward are written here once.

B rows, T positions, L labels (I to the left of J), K sequences of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from transduce.errors import UserError
from transduce.types import real_mask

NEVER = float("-inf")


@dataclass(frozen=True)
class Trellis:
    """The scores of all L^T label sequences y of each row:

    s(y) = start(y_1) + sum_t unary_t(y_t) + sum_t transition(y_t-1, y_t) + end(y_T), and p(y) = exp s(y) / Z.

    ``unary`` [B, T, L] has ``lengths`` [B] real positions; T is at least 1. ``transition`` [L, L] goes from the label
    of the first axis to that of the second. ``start`` and ``end`` are [L]. A row of length 0 has one sequence, with
    score 0.
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
        """[B]: s(y) of one label sequence per row. Labels past a row's length are ignored."""
        places_T = torch.arange(labels_BT.shape[1], device=labels_BT.device)
        unary_BT = self.unary.gather(2, labels_BT[..., None])[..., 0]
        into_BT = torch.cat([self.start[labels_BT[:, :1]], self.transition[labels_BT[:, :-1], labels_BT[:, 1:]]], 1)
        end_BT = torch.where(places_T == self.lengths[:, None] - 1, self.end[labels_BT], 0.0)
        return (unary_BT + into_BT + end_BT).masked_fill(~self.mask, 0.0).sum(1)

    def own(self, target_BT: Tensor, lengths_B: Tensor) -> Tensor:
        """[B, T]: the target's labels, cut or padded with 0 to the trellis' T positions.

        Raises UserError if a row's number of labels (``lengths_B``) is not its length here.
        """
        check_lengths(self.lengths, lengths_B)
        positions = self.unary.shape[1]
        missing = max(0, positions - target_BT.shape[1])
        return nn.functional.pad(target_BT, (0, missing))[:, :positions]

    @cached_property
    def forward(self) -> Tensor:
        """[B, T, L]: alpha_t(j), the log-sum over all label prefixes that end with label j at time t, with its unary
        score.

        Values past a row's length have no meaning.
        """
        alpha_BL = self.start + self.unary[:, 0]
        found = [alpha_BL]
        for unary_BL in self.unary.unbind(1)[1:]:
            alpha_BL = (alpha_BL[:, :, None] + self.transition).logsumexp(1) + unary_BL
            found.append(alpha_BL)
        return torch.stack(found, 1)

    @cached_property
    def backward(self) -> Tensor:
        """[B, T, L]: beta_t(i), the log-sum over all label suffixes after label i at time t; 0 past a row's length.

        It has the end's score, but not the unary score at t.
        """
        last_B = self.lengths - 1
        beta_BL = torch.zeros_like(self.unary[:, 0])
        found = []
        for t in range(self.unary.shape[1] - 1, -1, -1):
            if t + 1 < self.unary.shape[1]:
                after_BL = (self.transition + (self.unary[:, t + 1] + beta_BL)[:, None]).logsumexp(2)
                beta_BL = torch.where(last_B[:, None] > t, after_BL, beta_BL)
            beta_BL = torch.where(last_B[:, None] == t, self.end, beta_BL)
            found.append(beta_BL)
        return torch.stack(found[::-1], 1)

    @cached_property
    def log_normaliser(self) -> Tensor:
        """[B]: log Z, the log-sum over all sequences; 0 for a row of length 0.

        If ``unary`` scores are log p(x | y) and the others are log-probabilities, this is log p(x).
        """
        last_B = (self.lengths - 1).clamp(min=0)
        alpha_BL = self.forward[torch.arange(len(last_B), device=last_B.device), last_B]
        return (alpha_BL + self.end).logsumexp(-1).masked_fill(self.lengths == 0, 0.0)

    def posteriors(self) -> Tensor:
        """[B, T, L]: log p(y_t = j | x) by the forward-backward algorithm; 0 past a row's length."""
        both_BTL = self.forward + self.backward - self.log_normaliser[:, None, None]
        return both_BTL.masked_fill(~self.mask[..., None], 0.0)

    def pair_posteriors(self) -> Tensor:
        """[B, T - 1, I, J]: log p(y_t-1 = i, y_t = j | x) for t = 2 to T; minus infinity past a row's length.

        The sum of their exponentials over t is the expected number of transitions from i to j.
        """
        follows_BTJ = self.unary[:, 1:] + self.backward[:, 1:]
        both_BTIJ = self.forward[:, :-1, :, None] + self.transition + follows_BTJ[:, :, None]
        both_BTIJ = both_BTIJ - self.log_normaliser[:, None, None, None]
        return both_BTIJ.masked_fill(~self.mask[:, 1:, None, None], NEVER)

    def conditionals(self, labels_BT: Tensor) -> Tensor:
        """[B, T, L]: log p(y_t = j | y_t-1, x) for each label j, where ``labels_BT`` give y_t-1; 0 past a row's length.

        A chain also has a left-to-right factorisation: log p(y) is the sum of these values at y.
        """
        after_BTL = self.unary + self.backward
        first_B1L = (self.start + after_BTL[:, :1]).log_softmax(-1)
        later_BTL = (self.transition[labels_BT[:, :-1]] + after_BTL[:, 1:]).log_softmax(-1)
        return torch.cat([first_B1L, later_BTL], 1).masked_fill(~self.mask[..., None], 0.0)

    def best(self, count: int = 1) -> tuple[Tensor, Tensor]:
        """The K = ``count`` best label sequences of each row, best first: labels [B, K, T] and scores [B, K].

        A score is minus infinity if a row has fewer sequences. The last label is repeated past a row's length. Each
        label keeps its K best predecessors; ``count`` 1 is Viterbi's algorithm (1967).
        """
        B, T, L = self.unary.shape
        rows_B1 = torch.arange(B, device=self.unary.device)[:, None]
        ways_BKL = torch.full((B, count, L), NEVER, dtype=self.unary.dtype, device=self.unary.device)
        ways_BKL[:, 0] = self.start + self.unary[:, 0]
        origins: list[Tensor] = []  # back-pointers [B, K, L] each: k * L + i, the rank and label of the predecessor
        for t in range(1, T):
            every_BNJ = (ways_BKL[..., None] + self.transition).view(B, count * L, L)
            reached_BKJ, origin_BKJ = every_BNJ.topk(count, 1)
            going_B11 = (t < self.lengths)[:, None, None]
            stay_KL = torch.arange(count * L, device=self.unary.device).view(count, L)
            ways_BKL = torch.where(going_B11, reached_BKJ + self.unary[:, t, None], ways_BKL)
            origins.append(torch.where(going_B11, origin_BKJ, stay_KL))
        score_BK, place_BK = (ways_BKL + self.end).view(B, count * L).topk(count)
        labels = [place_BK % L]
        for origin_BKL in reversed(origins):
            place_BK = origin_BKL.view(B, -1)[rows_B1, place_BK]
            labels.append(place_BK % L)
        empty_B1 = (self.lengths == 0)[:, None]
        first_K = torch.arange(count, device=self.unary.device) == 0
        score_BK = torch.where(empty_B1, torch.where(first_K, 0.0, NEVER).to(score_BK), score_BK)
        return torch.stack(labels[::-1], -1), score_BK


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
