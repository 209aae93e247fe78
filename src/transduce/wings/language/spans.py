"""Random spans of tokens, which the objectives of masked language models and denoising autoencoders hide.

B rows, T positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.types import Batch

MULTIPLIER, PLACES, RANGE = 2654435761, 40503, 1 << 20  # of the hash that replaces random numbers in validation
SALT, WORD = 0x9E3779B1, 0xFFFFFFFF
MIXERS = ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1))

Decode = Callable[[Sequence[int]], str]


def check_same_text(batch: Batch) -> None:
    """Raises UserError unless the source of each pair is its target."""
    source_BT, ids_BT = batch.source.values, batch.target.values
    if source_BT.shape != ids_BT.shape or not torch.equal(source_BT, ids_BT):
        raise UserError(
            "the source and the target of a masked language model or a denoising autoencoder are one text, and here "
            "they differ: read the same column twice, data.columns = {source = 0, target = 0}, with joint units"
        )


def uniform(ids_BT: Tensor, training: bool, salt: int = 0) -> Tensor:
    """Numbers [B, T] from 0 to less than 1. In training they are random. Otherwise each depends only on the token's id,
    its position and the ``salt``, so that validation gives a text the same numbers in any batch.
    """
    if training:
        return torch.rand(ids_BT.shape, device=ids_BT.device)
    places_T = torch.arange(ids_BT.shape[1], device=ids_BT.device)
    hash_BT = ids_BT * MULTIPLIER + places_T * PLACES
    if salt:  # the mixer of MurmurHash3, so that the numbers of two salts are unrelated
        hash_BT = (hash_BT + salt * SALT) & WORD
        for shift, mixer in MIXERS:
            hash_BT = ((hash_BT ^ (hash_BT >> shift)) * mixer) & WORD
    return (hash_BT % RANGE) / RANGE


def covered(begins_BT: Tensor, length_BT: Tensor) -> Tensor:
    """A mask [B, T]: True at the positions of a span. A span begins where ``begins_BT`` is True, and ``length_BT`` has
    its length there. Spans may overlap, and end at the end of the row at the latest.
    """
    B, T = begins_BT.shape
    ends_BT = (torch.arange(T, device=begins_BT.device) + length_BT).clamp(max=T)
    change_BT = torch.cat([begins_BT.long(), begins_BT.new_zeros(B, 1, dtype=torch.long)], 1)
    return change_BT.scatter_add(1, ends_BT, -begins_BT.long()).cumsum(1)[:, :T] > 0


def lengths(draw_BT: Tensor, cumulative_K: Sequence[float]) -> Tensor:
    """Random lengths [B, T] from uniform numbers by inverse transform sampling. A length is the first k with
    P(length <= k) = ``cumulative_K[k]`` above the number, and at most K - 1.
    """
    thresholds_K = torch.tensor(cumulative_K, device=draw_BT.device)
    return torch.searchsorted(thresholds_K, draw_BT, right=True).clamp(max=len(cumulative_K) - 1)


def beginning(share: float, cumulative_K: Sequence[float]) -> float:
    """The probability that a span begins at a position, so that spans cover a ``share`` of the positions.

    A position is free if no span covers it. So the product over k of 1 - q P(length > k) must be 1 - ``share``.
    Bisection finds q. Raises UserError if spans of these lengths cannot cover this share.
    """

    def free(q: float) -> float:
        return math.prod(1 - q * (1 - below) for below in cumulative_K)

    if free(1.0) > 1 - share:
        raise UserError(f"share = {share}: spans of this length cover at most {1 - free(1.0):.2f}; set a longer span")
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if free(middle) > 1 - share else (low, middle)
    return low


def word_indices(ids_BT: Tensor, decode: Decode) -> Tensor:
    """The index [B, T] of each token's word in its row, from 0. A word is a token that begins a word, with all tokens
    up to the next such token. A token begins a word if it is or contains white space, or is written after white space.
    So a token that is a space belongs to the word after it.
    """
    known_U, place_BT = torch.unique(ids_BT, return_inverse=True)
    pairs = [decode([token, token]) for token in known_U.tolist()]
    begins_U = [not pair.strip() or len(pair.split()) > 1 for pair in pairs]
    begins_BT = torch.tensor(begins_U, device=ids_BT.device)[place_BT].long()
    begins_BT[:, 0] = 1
    return begins_BT.cumsum(1) - 1


def no_decoder(tokens: Sequence[int]) -> str:
    raise UserError("this objective knows words or sentences by their text: give it the decoder, reading(decode)")
