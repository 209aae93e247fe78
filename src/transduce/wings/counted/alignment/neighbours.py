"""Single alignments of a block: their probabilities, their neighbours, and hill climbing.

An alignment has the source position of each target word, [B, T]: 0 for the null word and at padding. Its neighbours
differ by a move (one target word gets another source position) or by a swap (two target words exchange theirs); Brown
et al. (1993), section 5.2. B, S, T and I as in blocks.py, M = I as in jumps.py. F different fertilities, 0 to F - 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

GAIN = 1e-4  # a step must raise the log-probability by more than this
STEPS = 3  # for each target word, at most; a limit for safety


@dataclass(frozen=True)
class Neighbourhood:
    """The probabilities of an alignment ``alignment_BT`` and of its neighbours. Their sum is ``share_B`` [B]: 1, except
    in a union of several neighbourhoods of a sentence pair (pegging.py).

    ``own_B`` is the alignment's own probability. ``move_BTI`` has the probabilities of its moves. ``swap_BTT`` has the
    probabilities of its swaps: the earlier of the two target words is the row, the later one the column.
    ``log_total_B`` is the natural logarithm of the sum of the pair's probabilities before they were scaled to 1.
    """

    alignment_BT: Tensor
    own_B: Tensor
    move_BTI: Tensor
    swap_BTT: Tensor
    log_total_B: Tensor
    share_B: Tensor

    def posterior(self) -> Tensor:
        """[B, T, I]: the probability of each link."""
        T = self.alignment_BT.shape[1]
        both_BTT = self.swap_BTT + self.swap_BTT.transpose(1, 2)
        other_BTI = self.move_BTI.scatter_add(2, self.alignment_BT[:, None].expand(-1, T, -1), both_BTT)
        rest_BT1 = self.share_B[:, None, None] - other_BTI.sum(-1, keepdim=True)
        return other_BTI.scatter_add(2, self.alignment_BT[..., None], rest_BT1)

    def fertilities(self, most: int) -> Tensor:
        """[B, I, most + 1]: the probability of each fertility of each source position. The last is of ``most`` or more.

        A move changes two fertilities, a swap none. Column 0, the null word, has no meaning.
        """
        fertility_BI = fertilities(self.alignment_BT, self.move_BTI.shape[-1])
        more_BI = self.move_BTI.sum(1)
        less_BI = torch.zeros_like(more_BI).scatter_add(1, self.alignment_BT, self.move_BTI.sum(-1))
        found_BIF = more_BI.new_zeros(*more_BI.shape, most + 1)
        for step, share_BI in ((0, self.share_B[:, None] - more_BI - less_BI), (1, more_BI), (-1, less_BI)):
            place_BI1 = (fertility_BI + step).clamp(0, most)[..., None]
            found_BIF.scatter_add_(2, place_BI1, share_BI[..., None])
        return found_BIF


@dataclass(frozen=True)
class Landscape:
    """p(target, alignment | source) of all alignments of a block, as natural logarithms of its factors.

    ``emission_BTI`` has each target word given each source position; the null word's column includes the probability of
    choosing it. ``jump_BMS`` has the jumps. ``fertility_BIF`` has the fertilities of each source position, 0 for the
    null word; higher fertilities have the probability of the last one. ``real_BT`` is True at target words.
    """

    emission_BTI: Tensor
    jump_BMS: Tensor
    fertility_BIF: Tensor
    real_BT: Tensor

    def __getitem__(self, rows: Tensor) -> Landscape:
        """The pairs with these indices."""
        return Landscape(self.emission_BTI[rows], self.jump_BMS[rows], self.fertility_BIF[rows], self.real_BT[rows])

    def log_prob(self, alignment_BT: Tensor) -> Tensor:
        """[B]: log p(target, alignment | source)."""
        around = _Around(alignment_BT)
        emission_BT = self.emission_BTI.gather(2, alignment_BT[..., None])[..., 0].masked_fill(~self.real_BT, 0.0)
        fertility_BI = fertilities(alignment_BT, self.emission_BTI.shape[-1])
        return (emission_BT + self._jumps(around.before_BT, alignment_BT)).sum(-1) + self._fertility(fertility_BI).sum(
            -1
        )

    def climb(self, alignment_BT: Tensor, fixed_BT: Tensor | None = None) -> Tensor:
        """Hill climbing from an alignment [B, T]: goes to the most probable neighbour while that raises the
        log-probability by more than ``GAIN``, for at most ``STEPS`` * T steps. Returns the alignment that it reaches;
        ``alignment_BT`` is not changed. Target words where ``fixed_BT`` is True keep their source position.
        """
        fixed_BT = torch.zeros_like(self.real_BT) if fixed_BT is None else fixed_BT
        alignment_BT, climbing = alignment_BT.clone(), torch.arange(len(alignment_BT), device=alignment_BT.device)
        for _ in range(STEPS * alignment_BT.shape[1]):
            part, found_BT, stays_BT = self[climbing], alignment_BT[climbing], fixed_BT[climbing]
            moves_BTI = part.moves(found_BT).masked_fill(stays_BT[..., None], -torch.inf)
            swaps_BTT = part.swaps(found_BT).masked_fill(stays_BT[:, :, None] | stays_BT[:, None], -torch.inf)
            move_B, move = moves_BTI.flatten(1).max(1)
            swap_B, swap = swaps_BTT.flatten(1).max(1)
            better_B = torch.maximum(move_B, swap_B) > GAIN
            moved_B = move_B >= swap_B
            T, positions = self.emission_BTI.shape[1:]
            moved_BT = found_BT.scatter(1, (move // positions)[:, None], (move % positions)[:, None])
            words_B2 = torch.stack([swap // T, swap % T], 1)
            swapped_BT = found_BT.scatter(1, words_B2, found_BT.gather(1, words_B2.flip(1)))
            found_BT = torch.where(moved_B[:, None], moved_BT, swapped_BT)
            climbing = climbing[better_B]
            if not len(climbing):
                break
            alignment_BT[climbing] = found_BT[better_B]
        return alignment_BT

    def neighbourhood(self, alignment_BT: Tensor) -> Neighbourhood:
        """The probabilities of the alignment and of all its neighbours."""
        move_BTI = self.moves(alignment_BT).scatter(2, alignment_BT[..., None], -torch.inf)
        swap_BTT = self.swaps(alignment_BT)
        ratios = [torch.zeros_like(move_BTI[:, 0, :1]), move_BTI.flatten(1), swap_BTT.flatten(1)]
        log_total_B = torch.cat(ratios, 1).logsumexp(1)
        own_B = (-log_total_B).exp()
        return Neighbourhood(
            alignment_BT,
            own_B,
            (move_BTI - log_total_B[:, None, None]).exp(),
            (swap_BTT - log_total_B[:, None, None]).exp(),
            log_total_B + self.log_prob(alignment_BT),
            torch.ones_like(own_B),
        )

    def moves(self, alignment_BT: Tensor) -> Tensor:
        """[B, T, I]: how much the log-probability rises if target word t moves to source position i. It is 0 at the
        word's present position, and minus infinity at padding.
        """
        around, positions = _Around(alignment_BT), self.emission_BTI.shape[-1]
        word_BTS = self.jump_BMS.gather(1, around.before_BT[..., None].expand(-1, -1, positions - 1))
        after_BTI = self._jumps_to(around.after_BT)
        score_BTI = self.emission_BTI + after_BTI
        score_BTI[..., 1:] += word_BTS
        score_BTI[..., :1] += after_BTI.gather(2, around.before_BT[..., None]) - after_BTI[..., :1]
        fertility_BI = fertilities(alignment_BT, positions)
        more_BI = self._fertility(fertility_BI + 1) - self._fertility(fertility_BI)
        same_BI = self._fertility(fertility_BI) - self._fertility((fertility_BI - 1).clamp(min=0))
        score_BTI += more_BI[:, None]
        score_BTI.scatter_add_(2, alignment_BT[..., None], (same_BI - more_BI).gather(1, alignment_BT)[..., None])
        rise_BTI = score_BTI - score_BTI.gather(2, alignment_BT[..., None])
        return rise_BTI.masked_fill(~self.real_BT[..., None], -torch.inf)

    def swaps(self, alignment_BT: Tensor) -> Tensor:
        """[B, T, T]: how much the log-probability rises if target words t and u > t exchange their source positions.

        Minus infinity at padding, and where both have the same position.
        """
        T = alignment_BT.shape[1]
        first_BTT, last_BTT = alignment_BT[:, :, None].expand(-1, -1, T), alignment_BT[:, None].expand(-1, T, -1)
        around = _Around(alignment_BT)
        place_BTI = self.emission_BTI.gather(2, alignment_BT[:, None].expand(-1, T, -1))
        own_BT = place_BTI.diagonal(dim1=1, dim2=2)
        emission_BTT = place_BTI + place_BTI.transpose(1, 2) - own_BT[:, :, None] - own_BT[:, None]
        new_BTT, old_BTT = (self._path(around, *each) for each in ((last_BTT, first_BTT), (first_BTT, last_BTT)))
        earlier_TT = torch.ones(T, T, dtype=torch.bool, device=alignment_BT.device).triu(1)
        swapped_BTT = earlier_TT & (first_BTT != last_BTT) & self.real_BT[:, :, None] & self.real_BT[:, None]
        return (emission_BTT + new_BTT - old_BTT).masked_fill(~swapped_BTT, -torch.inf)

    def _path(self, around: _Around, one_BTT: Tensor, other_BTT: Tensor) -> Tensor:
        """[B, T, T]: the log-probability of the jumps that change if the source positions of target words t and u
        become ``one_BTT`` and ``other_BTT``. These are the jumps to and from t and u.

        Jumps between the words in the middle are left out: they do not change.
        """
        T = one_BTT.shape[1]
        places = torch.arange(T, device=one_BTT.device)
        middle_BTT = around.after_place_BT[:, :, None] < places
        start_BTT = around.before_BT[:, :, None].expand(-1, -1, T)
        left_BTT = torch.where(one_BTT > 0, one_BTT, start_BTT)
        enter_BTT = torch.where(middle_BTT, around.after_BT[:, :, None], 0)
        leave_BTT = torch.where(middle_BTT, around.before_BT[:, None], left_BTT)
        right_BTT = torch.where(other_BTT > 0, other_BTT, leave_BTT)
        end_BTT = around.after_BT[:, None].expand(-1, T, -1)
        steps = ((start_BTT, one_BTT), (left_BTT, enter_BTT), (leave_BTT, other_BTT), (right_BTT, end_BTT))
        return torch.stack([self._jumps(*step) for step in steps]).sum(0)

    def _jumps(self, start: Tensor, end: Tensor) -> Tensor:
        """The log-probability of each jump, in the shape of ``start`` and ``end``; 0 for a jump to the null word."""
        B, _, S = self.jump_BMS.shape
        place = (start * S + (end - 1).clamp(min=0)).reshape(B, -1)
        return self.jump_BMS.reshape(B, -1).gather(1, place).reshape(start.shape).masked_fill(end == 0, 0.0)

    def _jumps_to(self, end_BT: Tensor) -> Tensor:
        """[B, T, M]: the log-probability of the jump from each position to ``end_BT``; 0 where ``end_BT`` is 0 (no next
        linked word).
        """
        place_BTM = (end_BT - 1).clamp(min=0)[..., None].expand(-1, -1, self.jump_BMS.shape[1])
        return self.jump_BMS.transpose(1, 2).gather(1, place_BTM).masked_fill((end_BT == 0)[..., None], 0.0)

    def _fertility(self, fertility_BI: Tensor) -> Tensor:
        """[B, I]: the log-probability of each source position's fertility; 0 for the null word."""
        most = self.fertility_BIF.shape[-1] - 1
        return self.fertility_BIF.gather(2, fertility_BI.clamp(max=most)[..., None])[..., 0]


class _Around:
    """For each target word of alignments: the source position of the nearest linked word before it (``before_BT``, 0:
    the begin) and after it (``after_BT``, 0: none). ``after_place_BT`` is the index of the latter word in the target
    (T: none).
    """

    def __init__(self, alignment_BT: Tensor) -> None:
        T = alignment_BT.shape[1]
        places = torch.arange(T, device=alignment_BT.device)
        linked_BT = alignment_BT > 0
        before_BT = pad(torch.where(linked_BT, places + 1, 0).cummax(1).values, (1, 0))[:, :-1]
        self.before_BT = pad(alignment_BT, (1, 0)).gather(1, before_BT)
        after_BT = torch.where(linked_BT, places, T).flip(1).cummin(1).values.flip(1)
        self.after_place_BT = pad(after_BT, (0, 1), value=T)[:, 1:]
        self.after_BT = pad(alignment_BT, (0, 1)).gather(1, self.after_place_BT)


def fertilities(alignment_BT: Tensor, positions: int) -> Tensor:
    """[B, positions]: the number of target words that come from each source position. Target padding counts for the
    null word.
    """
    found_BI = alignment_BT.new_zeros(len(alignment_BT), positions)
    return found_BI.scatter_add_(1, alignment_BT, torch.ones_like(alignment_BT))
