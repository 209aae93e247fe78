"""Phrases as numbers: a trie of word sequences up to a length.

N phrases, P places of a corpus (one for each word), W words of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Trie:
    """N phrases of one word to ``longest`` words, by number: shorter phrases first.

    ``keys`` [N], ascending, are (1 + number of the phrase without its last word) * ``words`` + its last word. A phrase
    of one word has 0 in place of the first factor. ``words`` is the size of the vocabulary.
    """

    keys: Ids
    words: int
    longest: int

    @classmethod
    def of(cls, ids_P: Ids, left_P: Ids, words: int, longest: int) -> tuple[Trie, Ids]:
        """All phrases of a corpus, and the number [P, longest] of the phrase of 1, 2, ... words at each place; -1 where
        the sentence is too short. ``left_P`` are the numbers of words from each place to the end of its sentence.
        """
        numbers = np.full((len(ids_P), longest), -1, np.int64)
        shorter_P, levels, known = np.full(len(ids_P), -1, np.int64), [], 0
        for length in range(longest):
            there = np.flatnonzero(left_P > length)
            keys, place = np.unique((1 + shorter_P[there]) * words + ids_P[there + length], return_inverse=True)
            numbers[there, length] = shorter_P[there] = known + place
            levels.append(keys)
            known += len(keys)
        return cls(np.concatenate(levels), words, longest), numbers

    @classmethod
    def merged(cls, tries: Sequence[Trie]) -> tuple[Trie, list[Ids]]:
        """The phrases of all tries; and for each trie, the new number of each of its phrases [N]."""
        bounds = [trie.bounds() for trie in tries]
        numbers = [np.zeros(1, np.int64) for _ in tries]  # 1 + the new number of each phrase, after 0 for the empty one
        levels, known = [], 0
        for length in range(tries[0].longest):
            found = []
            for trie, bound, number in zip(tries, bounds, numbers, strict=True):
                parent, word = np.divmod(trie.keys[bound[length] : bound[length + 1]], trie.words)
                found.append(number[parent] * trie.words + word)
            levels.append(np.unique(np.concatenate(found)))
            places = [1 + known + np.searchsorted(levels[-1], keys) for keys in found]
            numbers = [np.concatenate(both) for both in zip(numbers, places, strict=True)]
            known += len(levels[-1])
        whole = cls(np.concatenate(levels), tries[0].words, tries[0].longest)
        return whole, [number[1:] - 1 for number in numbers]

    def bounds(self) -> list[int]:
        """The numbers where the phrases of 1, 2, ... words begin, and where the longest ones end: ``longest`` + 1."""
        parent_N = self.keys // self.words  # 0, or 1 + the number of a phrase of the length before
        bounds = [0, int(np.searchsorted(parent_N, 1))]
        while len(bounds) <= self.longest:
            bounds.append(int(np.searchsorted(parent_N, 1 + bounds[-1])))
        return bounds

    def find(self, ids_P: Ids, left_P: Ids) -> Ids:
        """[P, longest]: the number of the phrase of 1, 2, ... words that begins at each place; -1 if the trie has no
        such phrase. ``of`` explains the arguments.
        """
        found, number_P = (np.full(shape, -1, np.int64) for shape in ((len(ids_P), self.longest), len(ids_P)))
        open_O = np.arange(len(ids_P))
        for length in range(self.longest):
            open_O = open_O[left_P[open_O] > length]
            if not len(open_O) or not len(self.keys):
                break
            key_O = (1 + number_P[open_O]) * self.words + ids_P[open_O + length]
            place_O = np.searchsorted(self.keys, key_O).clip(max=len(self.keys) - 1)
            seen_O = self.keys[place_O] == key_O
            open_O, place_O = open_O[seen_O], place_O[seen_O]
            number_P[open_O] = found[open_O, length] = place_O
        return found

    def spelled(self) -> tuple[Ids, Ids]:
        """The words of each phrase [N, longest], padded with 0, and their number [N]."""
        parent_N, word_N = np.divmod(self.keys, self.words)
        words, length_N = np.zeros((len(self.keys), self.longest), np.int64), np.ones(len(self.keys), np.int64)
        for length, (first, last) in enumerate(pairwise(self.bounds())):
            level = slice(first, last)
            if length:
                words[level] = words[parent_N[level] - 1]
            words[level, length] = word_N[level]
            length_N[level] = 1 + length
        return words, length_N

    def only(self, wanted: Ids) -> tuple[Trie, Ids]:
        """The trie of the phrases with the numbers ``wanted``, which also keeps their beginnings; and the new number
        [N] of each phrase, -1 if it is gone.
        """
        kept = np.zeros(1 + len(self.keys), bool)  # by 1 + number; the empty phrase is first
        kept[1 + np.asarray(wanted, np.int64)] = True
        parent_N, word_N = np.divmod(self.keys, self.words)
        for _ in range(self.longest):
            kept[parent_N[kept[1:]]] = True
        kept[0] = True
        number = np.cumsum(kept) - 1
        keys = (number[parent_N] * self.words + word_N)[kept[1:]]  # still ascending: numbers keep their order
        return Trie(keys, self.words, self.longest), np.where(kept, number - 1, -1)[1:]
