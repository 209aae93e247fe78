"""What two sentences share, and what only one of them has, as sparse features.

B pairs, N words, M entries, K different features of a pair. A feature is known by a number of 64 bits, its key
(ngram_features.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.core.types import Padded
from transduce.wings.labels.encoders.siamese import both
from transduce.wings.labels.ngram_features import BASE, SECOND, Bag, bag_of, mixed, word_pairs
from transduce.wings.labels.word_features import words_and_hashes

NOTHING = -1  # stands beside a word for which the other sentence has none
MOST = 8  # the largest number of words, or difference, that has a feature of its own


@dataclass(frozen=True)
class Compared:
    """The K different keys of B pairs, ``row_K`` ascending: how often each key occurs in both sentences (the smaller
    count), and how much more often in the first or in the second one.
    """

    row_K: Tensor
    key_K: Tensor
    shared_K: Tensor
    first_K: Tensor
    second_K: Tensor


def pair_bags(pair: Padded, alphabet: int, apart: int, crossed: int) -> tuple[Bag, ...]:
    """The features of pairs of sentences, in seven bags. 1: words and pairs of words that both sentences share. 2: the
    words that only the first one has. 3: the words that only the second one has. 4: the words of bags 2 and 3. 5: each
    word of bag 2 with each of bag 3. 6: the same without their order. 7: numbers of words.

    The two words of a pair stand 1 to ``apart`` places apart, and both ends of a sentence count as words. A pair of
    sentences with more than ``crossed`` words in bag 2 or 3 has nothing in bags 5 and 6. Raises UserError as ``both``.
    """
    sentences = both(pair)
    B = len(pair.lengths)
    words, hash_N = words_and_hashes(sentences, alphabet)
    alone = compared(words.row_N, hash_N, B)
    rows, keys = [words.row_N], [hash_N]
    for distance in range(1, apart + 1):
        row_M, key_M = word_pairs(words.row_N, hash_N, 2 * B, distance)
        rows.append(row_M)
        keys.append(key_M)
    grams = compared(torch.cat(rows), torch.cat(keys), B)
    first, second = (_counted(alone.row_K, alone.key_K, count_K) for count_K in (alone.first_K, alone.second_K))
    either = Bag(*(torch.cat([getattr(first, name), getattr(second, name)]) for name in ("row_K", "key_K", "count_K")))
    row_M, one_M, other_M = _crossed(first, second, B, crossed)
    ordered = bag_of([row_M], [mixed(one_M) * BASE + other_M], hash_N)
    known_M = (one_M != NOTHING) & (other_M != NOTHING)
    least_M, most_M = torch.minimum(one_M, other_M)[known_M], torch.maximum(one_M, other_M)[known_M]
    unordered = bag_of([row_M[known_M]], [mixed(least_M) * BASE + most_M], hash_N)
    numbers = bag_of(*_numbers(alone, B), hash_N)
    kinds = (
        _counted(grams.row_K, grams.key_K, grams.shared_K),
        first,
        second,
        _merged(either),
        ordered,
        unordered,
        numbers,
    )
    return tuple(Bag(bag.row_K, mixed(bag.key_K + kind * SECOND), bag.count_K) for kind, bag in enumerate(kinds, 1))


def compared(row_M: Tensor, key_M: Tensor, pairs: int) -> Compared:
    """Compares the keys of the first sentences, which have the rows from 0 to ``pairs`` - 1, with those of the second
    ones, which have the rows from ``pairs`` on.
    """
    second_M = row_M >= pairs
    row_M = row_M - second_M.long() * pairs
    by_key = key_M.argsort(stable=True)
    order = by_key[row_M[by_key].argsort(stable=True)]
    row_M, key_M, second_M = row_M[order], key_M[order], second_M[order].long()
    starts_M = torch.ones_like(row_M, dtype=torch.bool)
    starts_M[1:] = (row_M[1:] != row_M[:-1]) | (key_M[1:] != key_M[:-1])
    group_M = starts_M.cumsum(0) - 1
    groups = int(starts_M.sum())
    in_second_K = second_M.new_zeros(groups).index_add_(0, group_M, second_M)
    in_first_K = second_M.new_zeros(groups).index_add_(0, group_M, 1 - second_M)
    shared_K = torch.minimum(in_first_K, in_second_K)
    return Compared(row_M[starts_M], key_M[starts_M], shared_K, in_first_K - shared_K, in_second_K - shared_K)


def _counted(row_K: Tensor, key_K: Tensor, count_K: Tensor) -> Bag:
    """The keys with a count above 0."""
    is_K = count_K > 0
    return Bag(row_K[is_K], key_K[is_K], count_K[is_K])


def _merged(bag: Bag) -> Bag:
    """A bag whose rows are in order. No key of a row is there twice."""
    order = bag.row_K.argsort(stable=True)
    return Bag(bag.row_K[order], bag.key_K[order], bag.count_K[order])


def _crossed(first: Bag, second: Bag, pairs: int, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """The row [M], a key of the first bag and a key of the second, for all two keys of a pair. NOTHING is a key of
    either bag. Pairs with more than ``most`` keys in a bag are left out.
    """
    row_R = torch.arange(pairs, device=first.row_K.device)
    sides, counts = [], []
    for bag in (first, second):
        row_K = torch.cat([bag.row_K, row_R])
        order = row_K.argsort(stable=True)
        sides.append((row_K[order], torch.cat([bag.key_K, torch.full_like(row_R, NOTHING)])[order]))
        counts.append(torch.bincount(row_K, minlength=pairs))
    few_R = (counts[0] <= most + 1) & (counts[1] <= most + 1)
    (row_F, key_F), (_, key_S) = sides
    kept_F = few_R[row_F]
    row_F, key_F = row_F[kept_F], key_F[kept_F]
    times_F = counts[1][row_F]
    row_M, one_M = row_F.repeat_interleave(times_F), key_F.repeat_interleave(times_F)
    within_M = torch.arange(len(row_M), device=row_M.device) - (times_F.cumsum(0) - times_F).repeat_interleave(times_F)
    begin_R = counts[1].cumsum(0) - counts[1]
    return row_M, one_M, key_S[begin_R[row_M] + within_M]


def _numbers(alone: Compared, pairs: int) -> tuple[list[Tensor], list[Tensor]]:
    """The rows and keys of numbers: how many words only the first and only the second sentence have, and both numbers
    at once; the share of words that are shared, in tenths; and the difference of the lengths.
    """
    shared_R, first_R, second_R = (
        torch.zeros(pairs, dtype=torch.long, device=alone.row_K.device).index_add_(0, alone.row_K, count_K)
        for count_K in (alone.shared_K, alone.first_K, alone.second_K)
    )
    few_R, other_R = first_R.clamp(max=MOST), second_R.clamp(max=MOST)
    share_R = 10 * shared_R // (shared_R + first_R + second_R).clamp(min=1)
    longer_R = (first_R - second_R).clamp(-MOST, MOST) + MOST
    found = (few_R, other_R, few_R * (MOST + 1) + other_R, share_R, longer_R)
    row_R = torch.arange(pairs, device=alone.row_K.device)
    return [row_R] * len(found), list(_told(found))


def _told(found: tuple[Tensor, ...]) -> Iterator[Tensor]:
    """Yields a key for each number, another one for the same number of another kind."""
    for kind, number_R in enumerate(found, 1):
        yield mixed(number_R + kind * 1000)
