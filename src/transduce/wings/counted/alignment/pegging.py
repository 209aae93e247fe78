"""Pegging: further alignments of each pair, each reached by hill climbing with one link fixed, and the union of all
their neighbourhoods (Brown et al. 1993; Och and Ney 2003).

B, S, T and I as in blocks.py. K alignments of each pair; N = B * K rows, in which the K rows of a pair are adjacent.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from transduce.wings.counted.alignment.neighbours import Landscape, Neighbourhood

SEED = 1  # of the random codes
NOTHING = -(2**63)  # the code of an alignment without probability


def pegged(space: Landscape, best_BT: Tensor, posterior_BTI: Tensor, pegs: int) -> Tensor:
    """The alignments [B, K, T], K = 1 + ``pegs``: first ``best_BT``, then for each of the ``pegs`` links with the
    highest ``posterior_BTI`` outside of it the alignment that is climbed to while that link stays.
    """
    B, T, positions = posterior_BTI.shape
    others_BTI = posterior_BTI.scatter(2, best_BT[..., None], 0.0)
    link_BK = others_BTI.flatten(1).topk(min(pegs, T * positions), 1).indices
    word_N1, position_N1 = (each.reshape(-1, 1) for each in (link_BK // positions, link_BK % positions))
    K = link_BK.shape[1]
    rows_N = torch.arange(B, device=best_BT.device).repeat_interleave(K)
    fixed_NT = torch.zeros(B * K, T, dtype=torch.bool, device=best_BT.device).scatter(1, word_N1, True)
    # a pair with fewer other links has links of probability 0 here, at padding too: its best alignment stands for them
    possible_N1 = others_BTI.flatten(1).gather(1, link_BK).reshape(-1, 1) > 0
    start_NT = torch.where(possible_N1, best_BT[rows_N].scatter(1, word_N1, position_N1), best_BT[rows_N])
    climbed_NT = space[rows_N].climb(start_NT, fixed_NT)
    return torch.cat([best_BT[:, None], climbed_NT.view(B, K, T)], 1)


def union(space: Landscape, centre_BKT: Tensor) -> Neighbourhood:
    """The neighbourhoods of all alignments ``centre_BKT``, in N rows. An alignment in several neighbourhoods of a pair
    counts in one of them. The probabilities of the K rows of a pair sum to 1; each row has the pair's ``log_total_B``.
    """
    B, K, _ = centre_BKT.shape
    each = space[torch.arange(B, device=centre_BKT.device).repeat_interleave(K)].neighbourhood(centre_BKT.flatten(0, 1))
    largest_B = each.log_total_B.view(B, K).amax(1)
    scale_N = (each.log_total_B - largest_B.repeat_interleave(K)).exp()
    weights = [each.own_B[:, None], each.move_BTI.flatten(1), each.swap_BTT.flatten(1)]
    weight_NA = torch.cat(weights, 1) * scale_N[:, None]
    weight_NA = weight_NA * _first(_codes(each).masked_fill(weight_NA == 0, NOTHING).view(B, -1)).view(weight_NA.shape)
    total_B = weight_NA.view(B, -1).sum(1)
    weight_NA = weight_NA / total_B.repeat_interleave(K)[:, None]
    own_N1, move_NA, swap_NA = torch.split(weight_NA, [weight.shape[1] for weight in weights], 1)
    return replace(
        each,
        own_B=own_N1[:, 0],
        move_BTI=move_NA.view_as(each.move_BTI),
        swap_BTT=swap_NA.view_as(each.swap_BTT),
        log_total_B=(largest_B + total_B.log()).repeat_interleave(K),
        share_B=weight_NA.sum(1),
    )


def _codes(each: Neighbourhood) -> Tensor:
    """[N, 1 + T * I + T * T]: a number for each alignment itself, its moves and its swaps. Equal alignments of a pair
    have equal numbers. It is the sum of random numbers of all links.
    """
    T, positions = each.move_BTI.shape[1:]
    generator = torch.Generator().manual_seed(SEED)
    code_TI = torch.randint(-(2**62), 2**62, (T, positions), generator=generator).to(each.alignment_BT.device)
    place_NTI = code_TI.expand(len(each.own_B), -1, -1)
    own_NT = place_NTI.gather(2, each.alignment_BT[..., None])[..., 0]
    total_N = own_NT.sum(1)
    move_NTI = total_N[:, None, None] - own_NT[..., None] + place_NTI
    other_NTT = place_NTI.gather(2, each.alignment_BT[:, None].expand(-1, T, -1))  # t at the position of u
    swap_NTT = total_N[:, None, None] - own_NT[:, :, None] - own_NT[:, None] + other_NTT + other_NTT.transpose(1, 2)
    return torch.cat([total_N[:, None], move_NTI.flatten(1), swap_NTT.flatten(1)], 1)


def _first(code_BA: Tensor) -> Tensor:
    """[B, A]: True at the first of equal codes in a row."""
    ordered_BA, place_BA = code_BA.sort(dim=1, stable=True)
    new_BA = torch.ones_like(ordered_BA, dtype=torch.bool)
    new_BA[:, 1:] = ordered_BA[:, 1:] != ordered_BA[:, :-1]
    return torch.zeros_like(new_BA).scatter(1, place_BA, new_BA)
