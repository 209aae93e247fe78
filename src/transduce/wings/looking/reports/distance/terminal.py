"""An edit-distance table and its alignments for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from transduce.metrics.edit_distance import Alignment, Costs, Edit, EditTable, Kind
from transduce.metrics.units import columns, padded, shown

START = "·"  # the row and the column before the first unit
GAP = "-"  # the gap opposite a deleted or inserted unit
LETTERS: dict[Kind, str] = {"match": "=", "substitute": "s", "transpose": "t", "delete": "d", "insert": "i"}
ARROWS: dict[Kind, str] = {"match": "↖⇖", "substitute": "↖⇖", "transpose": "xX", "delete": "↑⇑", "insert": "←⇐"}
"""Two characters for each kind: the thin back-pointer, and the double one of optimal alignments."""


def prices(costs: Costs) -> dict[Kind, float]:
    """The cost of each kind of edit, by kind. Transpositions are left out if they are not allowed; a match is there
    with cost 0.
    """
    priced: dict[Kind, float | None] = {
        "match": 0,
        "substitute": costs.substitution,
        "transpose": costs.transposition,
        "delete": costs.deletion,
        "insert": costs.insertion,
    }
    return {kind: price for kind, price in priced.items() if price is not None}


def passed(alignment: Alignment[object]) -> list[tuple[int, int]]:
    """The cells (i, j) of the table that an alignment passes, in order, from (0, 0) to the last cell."""
    cells = [(0, 0)]
    for edit in alignment:
        i, j = cells[-1]
        cells.append((i + len(edit.source), j + len(edit.target)))
    return cells


def lines(table: EditTable[object]) -> list[str]:
    """The table and a legend as lines for the terminal: for each source unit a line of numbers, with a line of arrows
    above it.

    Arrows of optimal alignments are double. The cells of ``table.alignment()`` are in brackets.
    """
    numbers = [[f"{cost:g}" for cost in row] for row in table.distances]
    heads, margins = ([START, *map(shown, side)] for side in (table.target, table.source))
    width = max(map(columns, [*heads, *(number for row in numbers for number in row)]))
    margin = max(map(columns, margins))
    marked = set(passed(table.alignment()))
    drawn = [" " * (margin + 1) + "".join(f"  {padded(head, width, '>')} " for head in heads)]
    for i, row in enumerate(numbers):
        above, here = " " * (margin + 1), padded(margins[i], margin) + " "
        for j, number in enumerate(row):
            sign = _signs(table, i, j)
            diagonal = sign.get("match", sign.get("substitute", " "))
            above += sign.get("transpose", " ") + diagonal + f" {sign.get('delete', ''):>{width}}"
            opened, closed = "[]" if (i, j) in marked else "  "
            left = "]" if (i, j - 1) in marked else " "
            here += (left if j else " ") + sign.get("insert", " ") + f"{opened}{number:>{width}}"
        here += closed
        drawn += [above, here] if i else [here]
    return [line.rstrip() for line in [*drawn, "", _legend(table)]]


def alignment_lines(alignment: Alignment[object], width: int = 100) -> list[str]:
    """Blocks of three lines: source units, target units, and the letter of each edit (``LETTERS``).

    A block has at most ``width`` columns, unless a single unit is wider. An empty line separates two blocks.
    """
    stacks = [column for edit in alignment for column in _stacks(edit)]
    blocks: list[list[str]] = []
    for stack in stacks:
        wide = max(map(columns, stack))
        if not blocks or columns(blocks[-1][0]) + wide > width:
            blocks.append(["", "", ""])
        blocks[-1] = [line + padded(cell, wide) + " " for line, cell in zip(blocks[-1], stack, strict=True)]
    return [line.rstrip() for number, block in enumerate(blocks) for line in ([""] if number else []) + block]


def _signs(table: EditTable[object], i: int, j: int) -> dict[Kind, str]:
    """The arrows of cell (i, j) by kind of edit. An arrow on an optimal alignment is double."""
    return {edit.kind: ARROWS[edit.kind][table.passing[i][j] > 0] for edit in table.edits(i, j)}


def _legend(table: EditTable[object]) -> str:
    cost = {kind: f"{kind} {price:g}" for kind, price in prices(table.costs).items()}
    crossed = f"   x {cost['transpose']}" if "transpose" in cost else ""
    double = "⇐ ⇑ ⇖ X" if crossed else "⇐ ⇑ ⇖"
    single = f"← {cost['insert']}   ↑ {cost['delete']}   ↖ {cost['match']}, {cost['substitute']}{crossed}"
    return f"{single}   {double} on an optimal alignment   [ ] on the first"


def _stacks(edit: Edit[object]) -> Iterator[tuple[str, str, str]]:
    """The columns (source unit, target unit, letter) of an edit: two for a transposition, otherwise one."""
    pairs = zip_longest(map(shown, edit.source), map(shown, edit.target), fillvalue=GAP)
    yield from ((one, other, LETTERS[edit.kind]) for one, other in pairs)
