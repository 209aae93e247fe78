"""Edit distance with its whole table and all optimal alignments. Bulk distances use rapidfuzz."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Generic, Literal, NamedTuple, TypeVar

from transduce.core.errors import UserError
from transduce.metrics.units import split

U = TypeVar("U")
U_co = TypeVar("U_co", covariant=True)
MOST_CELLS = 1_000_000  # of a table
Kind = Literal["match", "substitute", "transpose", "delete", "insert"]
Alignment = tuple["Edit[U]", ...]
Rest = tuple["Edit[U]", "Rest[U]"] | None  # the edits after a cell, as a linked list


@dataclass(frozen=True)
class Costs:
    """The costs of edits. A match costs nothing. If ``transposition`` is None, transposition is not allowed.

    Raises UserError for a cost that is negative or not finite.
    """

    insertion: float = 1
    deletion: float = 1
    substitution: float = 1
    transposition: float | None = None

    def __post_init__(self) -> None:
        for name, cost in asdict(self).items():
            if cost is not None and not 0 <= cost < math.inf:
                raise UserError(f"{name} = {cost}: a cost is a number from 0 up, such as 1 or 0.5")


@dataclass(frozen=True)
class Edit(Generic[U_co]):
    """A step of an alignment. ``source`` has its source units (none for an insertion, two for a transposition),
    ``target`` its target units (none for a deletion). ``cost`` is 0 for a match.
    """

    kind: Kind
    source: tuple[U_co, ...]
    target: tuple[U_co, ...]
    cost: float


class _Move(NamedTuple):
    """An edit as a move in the table: how many rows down, how many columns right, and its cost in the table's integer
    unit.
    """

    kind: Kind
    down: int
    right: int
    cost: int


class EditTable(Generic[U_co]):
    """D[i, j]: the least cost of edits that turn the first i units of the source into the first j of the target.

        D[0, 0] = 0
        D[i, j] = min(D[i-1, j-1]                  if x_i = y_j              match
                      D[i-1, j-1] + substitution   if x_i ≠ y_j              substitute
                      D[i-2, j-2] + transposition  if x_i-1 x_i = y_j y_j-1  transpose
                      D[i-1, j]   + deletion                                 delete
                      D[i, j-1]   + insertion)                               insert

    (Levenshtein 1966; Wagner & Fischer 1974.) Only two different units are transposed. If transpositions are allowed,
    this is the optimal string alignment: transposed units are not edited again, so the triangle inequality may fail. An
    alignment is a path from D[0, 0] to the last cell, ``distance``. It is optimal if the sum of its costs equals
    ``distance``. Sums are exact (0.1 three times is 0.3), so ties are exact too.

    ``source`` and ``target`` are sequences of values that == compares. A string is a sequence of characters. Time and
    memory grow with the product of the lengths. Raises UserError for more than ``MOST_CELLS`` cells.
    """

    def __init__(self, source: Sequence[U_co], target: Sequence[U_co], costs: Costs | None = None) -> None:
        self.source, self.target = tuple(source), tuple(target)
        if (cells := (len(self.source) + 1) * (len(self.target) + 1)) > MOST_CELLS:
            raise UserError(
                f"the table of {len(self.source):,} and {len(self.target):,} units has {cells:,} cells, and at most "
                f"{MOST_CELLS:,} are computed, which takes about ten seconds: give shorter texts, or words as units. "
                "`transduce compare --metric cer` gives the distance of long texts without a table"
            )
        self.costs = costs or Costs()
        given = {name: Fraction(str(cost)) for name, cost in asdict(self.costs).items() if cost is not None}
        # the unit in which all costs are integers
        self._parts = math.lcm(*(cost.denominator for cost in given.values()))
        self._cost = {name: int(cost * self._parts) for name, cost in given.items()}
        self._table: list[list[int]] = []
        for i in range(len(self.source) + 1):
            self._table.append([])
            for j in range(len(self.target) + 1):
                self._table[i].append(min((self._total(i, j, move) for move in self._moves(i, j)), default=0))

    @property
    def distance(self) -> float:
        """The cost of each optimal alignment."""
        return self._table[-1][-1] / self._parts

    @property
    def distances(self) -> list[list[float]]:
        """D as ``len(source)`` + 1 rows of ``len(target)`` + 1 columns. Row 0 and column 0 stand for no units."""
        return [[cost / self._parts for cost in row] for row in self._table]

    @property
    def count(self) -> int:
        """The number of optimal alignments, computed without listing them."""
        return self.passing[-1][-1]

    @cached_property
    def passing(self) -> list[list[int]]:
        """For each cell, the number of optimal alignments through it: the optimal paths to it times those from it to
        the last cell. As in ``distances``, rows stand for the source.
        """
        before = [[0] * len(row) for row in self._table]
        after = [[0] * len(row) for row in self._table]
        before[0][0] = after[-1][-1] = 1
        cells = [(i, j) for i, row in enumerate(self._table) for j in range(len(row))]
        for i, j in cells[1:]:
            before[i][j] = sum(before[i - move.down][j - move.right] for move in self._best(i, j))
        for i, j in reversed(cells):
            if after[i][j]:
                for move in self._best(i, j):
                    after[i - move.down][j - move.right] += after[i][j]
        return [[one * other for one, other in zip(*rows, strict=True)] for rows in zip(before, after, strict=True)]

    def options(self, i: int, j: int) -> list[tuple[Edit[U_co], float]]:
        """All edits that lead to cell (i, j), each with the cost that the cell has if reached by it.

        The least of these costs is D[i, j]. Cell (0, 0) has none.
        """
        return [(self._edit(i, j, move), self._total(i, j, move) / self._parts) for move in self._moves(i, j)]

    def edits(self, i: int, j: int) -> list[Edit[U_co]]:
        """The back-pointers of cell (i, j): the edits that lead to it at its cost D[i, j].

        An edit's predecessor is ``len(edit.source)`` rows up and ``len(edit.target)`` columns to the left.
        """
        return [self._edit(i, j, move) for move in self._best(i, j)]

    def alignment(self) -> Alignment[U_co]:
        """One optimal alignment, in the order of the text.

        It is found from the end: a diagonal back-pointer is preferred to a deletion, and a deletion to an insertion.
        """
        return next(self.alignments())

    def alignments(self) -> Iterator[Alignment[U_co]]:
        """Yields all optimal alignments, the one that ``alignment`` returns first. There can be exponentially many."""
        unfinished: list[tuple[int, int, Rest[U_co]]] = [(len(self.source), len(self.target), None)]
        while unfinished:
            i, j, rest = unfinished.pop()  # the path after the cell as a linked list: (edit, rest)
            moves = self._best(i, j)
            for move in reversed(moves):
                unfinished.append((i - move.down, j - move.right, (self._edit(i, j, move), rest)))
            if not moves:
                yield tuple(_unrolled(rest))

    # --------------------------------------------------------------- details

    def _moves(self, i: int, j: int) -> Iterator[_Move]:
        """The moves that lead to a cell, in the order in which alignments prefer them."""
        x, y, cost = self.source, self.target, self._cost
        if i and j:
            same = x[i - 1] == y[j - 1]
            yield _Move("match", 1, 1, 0) if same else _Move("substitute", 1, 1, cost["substitution"])
            crossed = min(i, j) > 1 and not same and x[i - 2] == y[j - 1] and x[i - 1] == y[j - 2]
            if crossed and "transposition" in cost:
                yield _Move("transpose", 2, 2, cost["transposition"])
        if i:
            yield _Move("delete", 1, 0, cost["deletion"])
        if j:
            yield _Move("insert", 0, 1, cost["insertion"])

    def _total(self, i: int, j: int, move: _Move) -> int:
        return self._table[i - move.down][j - move.right] + move.cost

    def _best(self, i: int, j: int) -> list[_Move]:
        return [move for move in self._moves(i, j) if self._total(i, j, move) == self._table[i][j]]

    def _edit(self, i: int, j: int, move: _Move) -> Edit[U_co]:
        read, written = self.source[i - move.down : i], self.target[j - move.right : j]
        return Edit(move.kind, read, written, move.cost / self._parts)


def distance(
    source: str | Sequence[U],
    target: str | Sequence[U],
    units: str = "characters",
    insertion: float = 1,
    deletion: float = 1,
    substitution: float = 1,
    transposition: float | None = None,
) -> EditTable[object]:
    """The table of edit distances from source to target: ``distance("intention", "execution").distance`` is
    5.

    A string is split into ``units``, "characters" or "words" (between white space). Other sequences are used unchanged.
    Raises UserError for other units of a string, and for costs that are negative or not finite.
    """
    one, other = (split(given, units) if isinstance(given, str) else given for given in (source, target))
    return EditTable(one, other, Costs(insertion, deletion, substitution, transposition))


def _unrolled(rest: Rest[U]) -> Iterator[Edit[U]]:
    while rest is not None:
        edit, rest = rest
        yield edit
