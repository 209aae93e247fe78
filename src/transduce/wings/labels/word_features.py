"""The features of a word in its sentence, as numbers: its spelling, its ends, and the words beside it.

B rows, S ids, N words of all rows, K features of a word. A feature is known by a number of 64 bits, its key, computed
from ids (see ngram_features.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.core.types import BOS, Padded
from transduce.wings.labels.ngram_features import BASE, SECOND, mixed, powers

ENDS = 5  # the longest beginning and the longest ending of a word, in pieces
NOTHING = -1  # stands for a beginning that is longer than its word
OUTSIDE = -2  # stands for a word before the first one or after the last one


@dataclass(frozen=True)
class Words:
    """The N words of B rows, in their order: the ``row_N`` and the place in it of each, ``count_B`` words in the rows,
    and the ``mark_N`` of each word. Its pieces are the ids from ``begin_N`` to before ``end_N``.
    """

    row_N: Tensor
    place_N: Tensor
    count_B: Tensor
    mark_N: Tensor
    begin_N: Tensor
    end_N: Tensor

    def beside(self, x_N: Tensor, by: int) -> Tensor:
        """The values of the words that stand ``by`` places after each word (before it, if negative)."""
        place_N = self.place_N + by
        inside_N = (place_N >= 0) & (place_N < self.count_B[self.row_N])
        return torch.where(inside_N, x_N.roll(-by), OUTSIDE)


def divided(source: Padded, alphabet: int) -> Words:
    """The words of a source, without the EOS of each row. A word begins with its mark (tokenizers "spelled"): BOS, or
    an id from ``alphabet`` on. In a source without marks each id is a word.
    """
    last_BS = torch.arange(source.values.shape[1], device=source.lengths.device) == source.lengths[:, None] - 1
    real_BS = source.mask & ~last_BS
    mark_BS = real_BS & ((source.values == BOS) | (source.values >= alphabet))
    marked = bool(mark_BS.any())
    row_N, begin_N = (mark_BS if marked else real_BS).nonzero(as_tuple=True)
    count_B = torch.bincount(row_N, minlength=len(source.lengths))
    place_N = torch.arange(len(row_N), device=row_N.device) - (count_B.cumsum(0) - count_B)[row_N]
    end_N = torch.where(place_N == count_B[row_N] - 1, source.lengths[row_N] - 1, begin_N.roll(-1))
    mark_N = source.values[row_N, begin_N]
    return Words(row_N, place_N, count_B, mark_N if marked else torch.full_like(mark_N, BOS), begin_N + marked, end_N)


def features(source: Padded, words: Words) -> Tensor:
    """The keys [N, K] of the features of each word."""
    found = list(_hashes(source, words))
    place_K = torch.arange(1, len(found) + 1, device=source.values.device)
    return mixed(torch.stack(found, 1) + place_K * SECOND)


def _hashes(source: Padded, words: Words) -> Iterator[Tensor]:
    """Yields hashes [N]: of the word, its beginnings and endings, the words and shapes beside it, and pairs of these.

    The first piece is the shape of a word if the unit has shapes.
    """
    whole_N, first, last = _whole(source, words), *_ends(source, words)
    known_N = _known(words, whole_N)
    yield known_N
    yield whole_N
    yield from first
    yield from last
    shape_N, ending_N = first[0], torch.where(last[2] == NOTHING, whole_N, last[2])
    before, after, second_before, second_after = (words.beside(known_N, by) for by in (-1, 1, -2, 2))
    ending_before, ending_after = (words.beside(ending_N, by) for by in (-1, 1))
    yield from (before, after, second_before, second_after, ending_before, ending_after)
    yield from (words.beside(shape_N, by) for by in (-1, 1))
    yield _pair(before, known_N)
    yield _pair(known_N, after)
    yield _pair(before, after)
    yield _pair(second_before, before)
    yield _pair(after, second_after)
    yield _pair(ending_before, ending_N)
    yield _pair(ending_N, ending_after)
    yield _pair(shape_N, _pair(ending_before, ending_after))


def words_and_hashes(source: Padded, alphabet: int) -> tuple[Words, Tensor]:
    """The words of a source, as ``divided``, and a hash [N] of each. The hash of a word that the unit knows is the same
    in all its spellings.
    """
    words = divided(source, alphabet)
    return words, mixed(_known(words, _whole(source, words)))


def _known(words: Words, whole_N: Tensor) -> Tensor:
    """The marks of known words, which are the same in large and small letters, and the hashes of all others."""
    return torch.where(words.mark_N == BOS, whole_N, words.mark_N)


def _pair(one_N: Tensor, other_N: Tensor) -> Tensor:
    return mixed(one_N) * BASE + other_N


def _whole(source: Padded, words: Words) -> Tensor:
    """A hash of all pieces of each word: a sum of the pieces, weighted by their places."""
    S = source.values.shape[1]
    weighted_BS = mixed(source.values) * powers(S, source.values)
    # the difference of two running sums, without the weight of where the word begins
    running_BS = torch.nn.functional.pad(weighted_BS.cumsum(1), (1, 0))
    sum_N = running_BS[words.row_N, words.end_N] - running_BS[words.row_N, words.begin_N]
    return mixed(sum_N * _inverses(S + 1, source.values)[words.begin_N] + (words.end_N - words.begin_N))


def _inverses(count: int, like: Tensor) -> Tensor:
    """BASE^0, BASE^-1, ... [count], modulo 2^64. BASE is odd, so it has an inverse."""
    inverse = pow(BASE, -1, 2**64)
    ones = like.new_full((count,), inverse - 2**64 if inverse >= 2**63 else inverse)
    ones[0] = 1
    return ones.cumprod(0)


def _ends(source: Padded, words: Words) -> tuple[list[Tensor], list[Tensor]]:
    """Hashes of the first 1, 2, ... ``ENDS`` pieces of each word, and of its last ones."""
    first, last = [], []
    first_N = last_N = torch.zeros_like(words.begin_N)
    for n in range(ENDS):
        whole_N = words.end_N - words.begin_N > n
        begin_N, end_N = (words.begin_N + n) * whole_N, (words.end_N - 1 - n) * whole_N
        first_N = mixed(first_N * BASE + source.values[words.row_N, begin_N])
        last_N = mixed(last_N * BASE + source.values[words.row_N, end_N])
        first.append(torch.where(whole_N, first_N, NOTHING))
        last.append(torch.where(whole_N, last_N, NOTHING))
    return first, last
