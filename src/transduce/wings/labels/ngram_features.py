"""The n-grams of texts as sparse features: of whole words, and of the pieces within words.

B rows, S ids, N words or places, M n-grams of a batch, K different n-grams of a row.

An n-gram is known by a number of 64 bits, its key, computed from its ids. Two of them have one key with a probability
of about 1 in 10^19, so a table of keys needs no texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.core.types import BOS, EOS, Padded

Range = tuple[int, int]
BASE, FIRST, SECOND = 0x5851F42D4C957F2D, -0x61C8864680B583EB, 0x14057B7EF767814F  # odd numbers of 64 bits


@dataclass(frozen=True)
class Bag:
    """The different n-grams of B rows: ``row_K`` is ascending, and each key of a row occurs ``count_K`` times in it."""

    row_K: Tensor
    key_K: Tensor
    count_K: Tensor


def bags(source: Padded, alphabet: int, words: Range, pieces: Range, apart: int = 0) -> tuple[Bag, Bag]:
    """The n-grams of words, and those of pieces, with the shortest and the longest n that ``words`` and ``pieces``
    name. To the n-grams of words come the pairs of words that stand 1 to ``apart`` places apart, where both ends of a
    source are words.

    A word begins with its mark (tokenizers "spelled"): BOS, or an id from ``alphabet`` on, and all marks are one here.
    EOS is a mark, too. The n-grams of pieces lie within a word and may have the mark before and the mark after it. A
    source without marks is one word.
    """
    real_BS = source.mask
    mark_BS = real_BS & ((source.values == BOS) | (source.values == EOS) | (source.values >= alphabet))
    id_BS = torch.where(mark_BS, BOS, source.values)
    return _word_grams(id_BS, mark_BS, real_BS, words, apart), _piece_grams(id_BS, mark_BS, real_BS, pieces)


def _piece_grams(id_BS: Tensor, mark_BS: Tensor, real_BS: Tensor, pieces: Range) -> Bag:
    S = id_BS.shape[1]
    symbol_BS, power_S = mixed(id_BS), powers(S, id_BS)
    inside_BS = torch.ones_like(mark_BS)  # no mark strictly between the first and the last id
    hash_BS, rows, keys = torch.zeros_like(id_BS), [], []
    for n in range(1, min(pieces[1], S) + 1):
        places = S - n + 1
        hash_BS = hash_BS[:, :places] + symbol_BS[:, n - 1 :] * power_S[n - 1]
        if n > 2:
            inside_BS = inside_BS[:, :places] & ~mark_BS[:, n - 2 : S - 1]
        if n >= pieces[0]:
            whole_BS = inside_BS[:, :places] & real_BS[:, n - 1 :]
            whole_BS = whole_BS & ~mark_BS if n == 1 else whole_BS
            rows.append(whole_BS.nonzero()[:, 0])
            keys.append(mixed(hash_BS[whole_BS] + n * SECOND))
    return bag_of(rows, keys, id_BS)


def _word_grams(id_BS: Tensor, mark_BS: Tensor, real_BS: Tensor, words: Range, apart: int) -> Bag:
    """Each word is a sum over its pieces, weighted by their places in it."""
    begins_BS = mark_BS.clone()
    begins_BS[:, 0] = True
    piece_BS = real_BS & ~mark_BS
    begins_BS &= real_BS
    word_BS = (begins_BS.flatten().cumsum(0) - 1).view(mark_BS.shape)  # over all rows
    row_N, place_N = begins_BS.nonzero(as_tuple=True)
    within_BS = torch.arange(id_BS.shape[1], device=id_BS.device) - place_N[word_BS.clamp(min=0)]
    weighted_BS = mixed(id_BS) * powers(id_BS.shape[1] + 1, id_BS)[within_BS.clamp(min=0)]
    hash_N = torch.zeros_like(row_N).index_add_(0, word_BS[piece_BS], weighted_BS[piece_BS])
    some_N = torch.zeros_like(row_N).index_add_(0, word_BS[piece_BS], torch.ones_like(word_BS[piece_BS])) > 0
    row_N, hash_N = row_N[some_N], mixed(hash_N[some_N])
    gram_N, rows, keys = torch.zeros_like(hash_N), [], []
    for n in range(1, min(words[1], len(hash_N)) + 1):
        places = len(hash_N) - n + 1
        gram_N = mixed(gram_N[:places] * BASE + hash_N[n - 1 :])
        if n >= words[0]:
            same_N = row_N[:places] == row_N[n - 1 :]
            rows.append(row_N[:places][same_N])
            keys.append(mixed(gram_N[same_N] - n * SECOND))
    for distance in range(1, apart + 1):
        row_M, key_M = word_pairs(row_N, hash_N, len(id_BS), distance)
        rows.append(row_M)
        keys.append(key_M)
    return bag_of(rows, keys, id_BS)


def word_pairs(row_N: Tensor, hash_N: Tensor, rows: int, distance: int) -> tuple[Tensor, Tensor]:
    """The row and the key of each two words of a row, or ends of it, that stand ``distance`` places apart."""
    row_R = torch.arange(rows, device=row_N.device)
    row_M = torch.cat([row_R, row_N, row_R])
    order = row_M.argsort(stable=True)  # the beginning of a row, its words, its end
    row_M = row_M[order]
    hash_M = torch.cat([torch.full_like(row_R, BOS), hash_N, torch.full_like(row_R, EOS)])[order]
    same_M = row_M[:-distance] == row_M[distance:]
    key_M = mixed(mixed(hash_M[:-distance]) * BASE + hash_M[distance:] + distance)
    return row_M[:-distance][same_M], key_M[same_M]


def bag_of(rows: Sequence[Tensor], keys: Sequence[Tensor], like: Tensor) -> Bag:
    """The bag of n-grams that are given by their rows and keys, in parts."""
    row_M, key_M = (torch.cat([like.new_empty(0), *parts]) for parts in (rows, keys))
    by_key = key_M.argsort(stable=True)
    order = by_key[row_M[by_key].argsort(stable=True)]
    row_M, key_M = row_M[order], key_M[order]
    first_M = torch.ones_like(row_M, dtype=torch.bool)
    first_M[1:] = (row_M[1:] != row_M[:-1]) | (key_M[1:] != key_M[:-1])
    begin_K = first_M.nonzero()[:, 0]
    end_K = torch.cat([begin_K[1:], begin_K.new_tensor([len(row_M)])[: len(begin_K)]])
    return Bag(row_M[begin_K], key_M[begin_K], end_K - begin_K)


def mixed(x: Tensor) -> Tensor:
    """A bijection of int64 that changes about half of the bits (after splitmix64)."""
    x = (x + 1) * FIRST
    x = (x ^ (x >> 29)) * SECOND
    return x ^ (x >> 32)


def powers(count: int, like: Tensor) -> Tensor:
    """BASE^0, BASE^1, ... [count], modulo 2^64."""
    ones = like.new_full((max(1, count),), BASE)
    ones[0] = 1
    return ones.cumprod(0)
