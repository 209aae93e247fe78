"""The largest of many scores. N rows, V vocabulary, B sources, C candidates, K of these."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.compute import choice
from transduce.core.types import BOS

BLOCK = 100  # columns of a block in ``largest`` and ``highest``
FEW = 50_000  # for fewer scores, one call of ``topk`` takes less time than a dozen small operators
ROWS = 8  # from this number of rows on, blocks are faster for ``highest``


def highest(scores_NV: Tensor) -> tuple[Tensor, Tensor]:
    """The largest value [N] of each row and its column [N]. If values are equal, it takes the first column.

    For many rows, it searches only the first block of columns with the largest maximum. PyTorch's search for a column
    takes three times as long as a search for a value.
    """
    N, V = scores_NV.shape
    if N < ROWS or V < 2 * BLOCK:
        return scores_NV.max(-1)
    padded_NV = nn.functional.pad(scores_NV, (0, -V % BLOCK), value=float("-inf")) if V % BLOCK else scores_NV
    in_blocks = padded_NV.view(N, -1, BLOCK)
    block_N1 = in_blocks.amax(-1).max(-1, keepdim=True).indices
    chosen = in_blocks.gather(1, block_N1[:, :, None].expand(N, 1, BLOCK))[:, 0]
    value_N, place_N = chosen.max(-1)
    return value_N, block_N1[:, 0] * BLOCK + place_N


def highest_log_probs(
    logits_NV: Tensor, forced_N: Tensor | None = None, first: int = BOS + 1, barred: int | None = None
) -> tuple[Tensor, Tensor] | None:
    """The most probable token [N] of each row, and its log-probability [N] among all tokens, in float64. One call of
    the compiled library computes both. Only tokens from ``first`` on can be chosen; the default leaves out PAD and BOS.
    If tokens are equally probable, it takes the first. If ``forced_N`` of a row is at least ``first``, it is the token
    instead. The token ``barred`` is chosen only if it is forced.

    None if the library was not built, or for other numbers than float32 on the CPU.
    """
    found = choice.highest(logits_NV, forced_N, first)
    if found is None:
        return None
    token_N, log_prob_N = found
    if barred is not None and bool((barred_N := token_N == barred).any()):
        rows = (barred_N if forced_N is None else barred_N & (forced_N != barred)).nonzero()[:, 0]
        others = logits_NV[rows]
        others[:, barred] = float("-inf")
        second = choice.highest(others, None, first)
        assert second is not None
        found = choice.highest(logits_NV[rows], second[0], first)  # among all tokens, as for other rows
        assert found is not None
        token_N[rows], log_prob_N[rows] = found
    return token_N, log_prob_N


def largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Like ``topk`` over the last axis: values and columns, the largest first. Returns all columns if there are fewer
    than ``count``.

    It searches only the ``count`` blocks of columns with the largest maxima, which must contain the result. A maximum
    takes a tenth of the time of ``topk``.
    """
    *rows, V = scores.shape
    blocks = V // BLOCK
    if count >= blocks or scores.numel() <= FEW:
        return scores.topk(min(count, V))
    in_blocks = scores[..., : blocks * BLOCK].view(*rows, blocks, BLOCK)
    block = in_blocks.amax(-1).topk(count).indices
    chosen = in_blocks.gather(-2, block[..., None].expand(*rows, count, BLOCK)).flatten(-2)
    value, place = torch.cat([chosen, scores[..., blocks * BLOCK :]], -1).topk(count)
    column = block.gather(-1, (place // BLOCK).clamp(max=count - 1)) * BLOCK + place % BLOCK
    return value, torch.where(place < count * BLOCK, column, place + (blocks - count) * BLOCK)


def first_largest(scores_BC: Tensor, count: int) -> Tensor:
    """The columns [B, K] of the ``count`` largest scores of each row, the largest first. If scores are equal, it takes
    the first columns in their order, unlike ``topk``.
    """
    least_B1 = scores_BC.topk(count).values[:, -1:]
    larger_BC, equal_BC = scores_BC > least_B1, scores_BC == least_B1
    missing_B1 = count - larger_BC.sum(1, keepdim=True)
    place_BK = (larger_BC | (equal_BC & (equal_BC.cumsum(1) <= missing_B1))).nonzero()[:, 1].view(-1, count)
    order_BK = scores_BC.gather(1, place_BK).sort(dim=1, descending=True, stable=True).indices
    return place_BK.gather(1, order_BK)
