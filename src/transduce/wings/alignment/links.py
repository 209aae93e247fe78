"""Links between source words and target words: a corpus' word alignment, its Pharaoh format and its symmetrisation.

L links, sorted by pair, then by target word, then by source word. Word numbers count from 0 in their sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from transduce.core.errors import UserError

Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]

Heuristic = Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]
NEIGHBOURS = np.array([(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)])  # target, source
NEVER = np.iinfo(np.int64).max
_LINK = re.compile(r"([0-9]{1,6})([-p])([0-9]{1,6})", re.ASCII)  # a longer sentence would be a line beyond any limit


@dataclass(frozen=True)
class Links:
    """The links of ``pairs`` sentence pairs: link l joins word ``source_L[l]`` and word ``target_L[l]`` of pair
    ``pair_L[l]``.

    All arrays are int64. Links are sorted by pair, target and source, and no link occurs twice: make them with ``of``.
    """

    pairs: int
    pair_L: Ids
    source_L: Ids
    target_L: Ids

    @classmethod
    def of(cls, pairs: int, pair_L: Ids, source_L: Ids, target_L: Ids) -> Links:
        """Makes ``Links`` of links in any order: sorts them, and removes repetitions."""
        columns = [np.asarray(column, np.int64) for column in (source_L, target_L, pair_L)]
        order = np.lexsort(columns)
        source, target, pair = (column[order] for column in columns)
        new = np.ones(len(order), bool)
        new[1:] = (np.diff(pair) != 0) | (np.diff(target) != 0) | (np.diff(source) != 0)
        return cls(pairs, pair[new], source[new], target[new])

    @classmethod
    def read(cls, lines: Iterable[str]) -> Links:
        """Links in Pharaoh format, such as ``0-0 1-2``: a line for each pair, source word first.

        An empty line is a pair without links. Raises UserError, with the number of the line, for anything else. A
        possible link (``1p2``) is an error too, unless its line also has the link as a sure one (``1-2``).
        """
        gold = Gold.read(lines)
        maybe = ~gold.possible.within(gold.sure)
        if maybe.any():
            pair, source, target = (
                int(column[maybe][0])
                for column in (gold.possible.pair_L, gold.possible.source_L, gold.possible.target_L)
            )
            raise UserError(
                f"line {pair + 1}: {source}p{target} is a possible link, and only gold alignments have these; write "
                f"{source}-{target}"
            )
        return gold.sure

    def write(self) -> list[str]:
        """A line in Pharaoh format for each pair; the line of a pair without links is empty."""
        texts = [f"{source}-{target}" for source, target in zip(self.source_L, self.target_L, strict=True)]
        return [" ".join(texts[first:last]) for first, last in pairwise(self.offsets.tolist())]

    @property
    def offsets(self) -> Ids:
        """[pairs + 1]: pair n has the links from index ``offsets[n]`` to ``offsets[n + 1]`` (exclusive)."""
        return np.searchsorted(self.pair_L, np.arange(self.pairs + 1)).astype(np.int64)

    def __len__(self) -> int:
        return len(self.pair_L)

    def __getitem__(self, keep_L: Mask) -> Links:
        """The links where the mask ``keep_L`` is True."""
        return Links(self.pairs, self.pair_L[keep_L], self.source_L[keep_L], self.target_L[keep_L])

    def of_pair(self, pair: int) -> list[tuple[int, int]]:
        """The links of pair number ``pair`` as (source, target), sorted by target word, then by source word."""
        first, last = np.searchsorted(self.pair_L, [pair, pair + 1])
        return list(zip(self.source_L[first:last].tolist(), self.target_L[first:last].tolist(), strict=True))

    def turned(self) -> Links:
        """The same links with source and target exchanged, sorted again."""
        return Links.of(self.pairs, self.pair_L, self.target_L, self.source_L)

    def within(self, others: Links) -> Mask:
        """[L]: True where ``others`` has the link too."""
        own, other = _keys([self, others])
        return np.isin(own, other, assume_unique=True)

    def check(self, source_lengths: Sequence[int] | Ids, target_lengths: Sequence[int] | Ids) -> None:
        """Raises UserError if the lengths are not as many as ``pairs``, or if a link leaves its sentence.

        ``source_lengths`` and ``target_lengths`` are the numbers of words of each pair [pairs].
        """
        if not self.pairs == len(source_lengths) == len(target_lengths):
            raise UserError(
                f"there are alignments of {self.pairs:,} pairs, and {len(source_lengths):,} source and "
                f"{len(target_lengths):,} target sentences; one line of links for each pair was expected"
            )
        for side, words_L, lengths in (
            ("source", self.source_L, source_lengths),
            ("target", self.target_L, target_lengths),
        ):
            length_L = np.asarray(lengths, np.int64)[self.pair_L]
            outside = np.flatnonzero(words_L >= length_L)
            if len(outside):
                link = outside[0]
                raise UserError(
                    f"line {self.pair_L[link] + 1}: the link {self.source_L[link]}-{self.target_L[link]} is outside "
                    f"its sentence: the {side} has {length_L[link]} words, numbered from 0; are the words split by the "
                    "same white space, and is the source first in each link?"
                )


@dataclass(frozen=True)
class Gold:
    """Links that people made (Och and Ney 2003, section 5.1). An aligner must find the ``sure`` links and may find the
    ``possible`` ones. ``possible`` includes the sure ones.
    """

    sure: Links
    possible: Links

    @classmethod
    def read(cls, lines: Iterable[str]) -> Gold:
        """Links in Pharaoh format: a line for each pair, ``0-0`` for a sure link and ``1p2`` for a possible one.

        Raises UserError, with the number of the line, for anything else.
        """
        rows, sure, pairs = [], [], 0
        for pair, line in enumerate(lines):
            pairs = pair + 1
            for text in line.split():
                found = _LINK.fullmatch(text)
                if found is None:
                    raise UserError(
                        f"line {pair + 1}: {text[:60]!r} is no link; links such as 0-2 were expected, or 0p2 for "
                        "possible ones: the numbers of a source word and a target word, from 0, separated by spaces"
                    )
                rows.append((pair, int(found[1]), int(found[3])))
                sure.append(found[2] == "-")
        columns_L3, sure_L = np.array(rows, np.int64).reshape(-1, 3), np.array(sure, bool)
        return cls(Links.of(pairs, *columns_L3[sure_L].T), Links.of(pairs, *columns_L3.T))


def _keys(every: Sequence[Links]) -> list[Ids]:
    """For each of several ``Links``, a number for each link [L], in the same order. Links that join the same words of
    the same pair have the same number; all others have different numbers.

    The number grows by 1 to the next source word, and by a fixed row to the next target word. A step to a neighbour
    that lies outside the sentence gives the number of no link.
    """
    width, height = (
        3 + max((int(column.max(initial=0)) for column in columns), default=0)
        for columns in ([links.source_L for links in every], [links.target_L for links in every])
    )
    return [(links.pair_L * height + links.target_L + 1) * width + links.source_L + 1 for links in every]


def symmetrise(forward: Links, backward: Links, heuristic: Heuristic = "grow-diag-final-and") -> Links:
    """Combines the links of two directions (Och and Ney 2003; Koehn et al. 2003, section 4.5).

    Both have source and target in the same order: turn the links of a model that was trained with exchanged sides
    (``turned``). ``grow-diag`` starts from the intersection. It visits links in order of their target and source words,
    and adds each of their 8 ``NEIGHBOURS`` that is in the union if at least one of its two words has no link; it
    repeats this until nothing is added. ``final`` then adds links of each direction, forward first, if at least one of
    their words has no link; ``final-and`` only if both have none. Raises UserError for an unknown heuristic and for
    different numbers of pairs.
    """
    if heuristic not in get_args(Heuristic):
        raise UserError(f"heuristic = {heuristic!r}: one of {', '.join(get_args(Heuristic))} was expected")
    if forward.pairs != backward.pairs:
        raise UserError(
            f"one direction has links of {forward.pairs:,} pairs, the other of {backward.pairs:,}: the same pairs, in "
            "the same order, were expected"
        )
    both_F = forward.within(backward)
    if heuristic == "intersection":
        return forward[both_F]
    union = Links.of(
        forward.pairs,
        *(
            np.concatenate([getattr(links, column) for links in (forward, backward)])
            for column in ("pair_L", "source_L", "target_L")
        ),
    )
    if heuristic == "union":
        return union
    growth = _Growth(union, union.within(forward[both_F]))
    growth.grow()
    for direction in (forward, backward) if "final" in heuristic else ():
        growth.finish(union.within(direction), both=heuristic.endswith("and"))
    return union[growth.taken_U]


class _Growth:
    """The links of a union [U] that are taken so far (True in ``taken_U``), and the words that have such links.

    All pairs advance together: a step adds the next link of every pair. The number of steps is the largest number of
    links that one pair gains.
    """

    def __init__(self, union: Links, taken_U: Mask) -> None:
        self.union, self.taken_U = union, taken_U.copy()
        (self.key_U,) = _keys([union])
        width, height = (int(words.max(initial=0)) + 1 for words in (union.source_L, union.target_L))
        self.source_word_U = union.pair_L * width + union.source_L
        self.target_word_U = union.pair_L * height + union.target_L
        self.source_linked, self.target_linked = (
            np.zeros(union.pairs * width, bool),
            np.zeros(union.pairs * height, bool),
        )
        self._take(np.flatnonzero(taken_U))

    def _take(self, links: Ids) -> None:
        self.taken_U[links] = True
        self.source_linked[self.source_word_U[links]] = True
        self.target_linked[self.target_word_U[links]] = True

    def _free(self, links_C: Ids, both: bool) -> Mask:
        """[C]: True where at least one of the words of a link (``both``: each of the two) has no taken link."""
        source_C: Mask = ~self.source_linked[self.source_word_U[links_C]]
        target_C: Mask = ~self.target_linked[self.target_word_U[links_C]]
        return source_C & target_C if both else source_C | target_C

    def grow(self) -> None:
        """Takes neighbours of taken links, in the order of these links and then of ``NEIGHBOURS``, if they are in the
        union and at least one of their words has no taken link. It makes passes until one takes nothing.

        A link that was just taken counts in the same pass if it comes later.
        """
        candidate_C = np.flatnonzero(~self.taken_U)
        last_P = np.full(self.union.pairs, -1)
        while len(candidate_C := candidate_C[self._free(candidate_C, both=False)]):
            order_CN = self._orders(candidate_C)
            pair_C = self.union.pair_L[candidate_C]
            later_C = np.where(order_CN > last_P[pair_C][:, None], order_CN, NEVER).min(1)
            pairs, first_C, next_P = _first(pair_C, later_C)
            found = next_P < NEVER
            self._take(candidate_C[first_C[found]])
            ended = np.zeros(self.union.pairs, bool)
            ended[pairs[~found & (last_P[pairs] < 0)]] = True
            last_P[pairs] = np.where(found, next_P, -1)
            candidate_C = candidate_C[~(self.taken_U[candidate_C] | ended[pair_C])]

    def _orders(self, candidate_C: Ids) -> Ids:
        """[C, 8]: for each candidate and each of ``NEIGHBOURS``, a number for when a pass would take the candidate as
        this neighbour of a taken link; ``NEVER`` if there is no such link. A smaller number is earlier.
        """
        step_N = NEIGHBOURS @ np.array([self._row, 1])
        key_CN = self.key_U[candidate_C][:, None] - step_N
        place_CN = np.searchsorted(self.key_U, key_CN).clip(max=len(self.key_U) - 1)
        there_CN = (self.key_U[place_CN] == key_CN) & self.taken_U[place_CN]
        return np.where(there_CN, place_CN * len(NEIGHBOURS) + np.arange(len(NEIGHBOURS)), NEVER)

    @property
    def _row(self) -> int:
        """The difference between the keys of a source word's links to neighbouring target words."""
        return 3 + int(self.union.source_L.max(initial=0))

    def finish(self, allowed_U: Mask, both: bool) -> None:
        """One pass over the links where ``allowed_U`` is True, in their order. Takes a link if at least one of its
        words has no taken link at that moment; with ``both``, only if neither has.
        """
        candidate_C = np.flatnonzero(allowed_U & ~self.taken_U)
        while len(candidate_C := candidate_C[self._free(candidate_C, both)]):
            _, first_C, _ = _first(self.union.pair_L[candidate_C], candidate_C)
            self._take(candidate_C[first_C])
            candidate_C = np.delete(candidate_C, first_C)


def _first(pair_C: Ids, order_C: Ids) -> tuple[Ids, Ids, Ids]:
    """The different pairs in the sorted ``pair_C``. For each of them also the index of its smallest order in
    ``order_C``, and this order.
    """
    start = np.flatnonzero(np.diff(pair_C, prepend=-1))
    smallest = np.minimum.reduceat(order_C, start)
    lengths = np.diff(start, append=len(pair_C))
    first_C = np.flatnonzero(order_C == np.repeat(smallest, lengths))
    first_C = first_C[np.flatnonzero(np.diff(pair_C[first_C], prepend=-1))]
    return pair_C[start], first_C, smallest
