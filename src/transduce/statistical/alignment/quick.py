"""Links of a corpus by IBM model 1 in both directions: rough, and ready in seconds."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from transduce.data.pairs import Ragged
from transduce.statistical.alignment.blocks import Words, blocks
from transduce.statistical.alignment.lexicon import LexicalCounts
from transduce.statistical.links import Heuristic, Links, symmetrise


def quick_links(source: Ragged, target: Ragged, heuristic: Heuristic = "grow-diag-final-and", passes: int = 5) -> Links:
    """Links of all pairs by IBM model 1 (Brown et al. 1993, section 4.1), trained in both directions on the same pairs
    and then symmetrised.

    Both sides end with EOS, which is not linked. ``passes`` are of expectation maximisation.
    """
    sides = Words.of_ragged(source), Words.of_ragged(target)
    forward = _one_direction(*sides, passes)
    return symmetrise(forward, _one_direction(*sides[::-1], passes).turned(), heuristic)


def _one_direction(source: Words, target: Words, passes: int) -> Links:
    parts = list(blocks(source, target))
    lexicon = LexicalCounts(parts)
    for _ in range(passes):
        for number in range(len(parts)):
            emission_BTI = lexicon.emission(number)
            lexicon.add(number, emission_BTI / emission_BTI.sum(-1, keepdim=True))
        lexicon.maximise()
    best = [lexicon.emission(number).argmax(-1) for number in range(len(parts))]
    return chosen_links(
        len(source.length_N), [(part.rows_B, best_BT, part.real_BT) for part, best_BT in zip(parts, best, strict=True)]
    )


def chosen_links(pairs: int, chosen: list[tuple[np.ndarray, Tensor, Tensor]]) -> Links:
    """Links from, for each block, its rows [B], the position in I of each target word [B, T], and the mask of real
    target words [B, T]. Position 0, the null word, makes no link.
    """
    columns = [np.zeros((3, 0), np.int64)]
    for rows_B, best_BT, real_BT in chosen:
        row, target = torch.nonzero(real_BT & (best_BT > 0), as_tuple=True)
        columns.append(np.stack([rows_B[row.numpy()], best_BT[row, target].numpy() - 1, target.numpy()]))
    return Links.of(pairs, *np.concatenate(columns, 1))
