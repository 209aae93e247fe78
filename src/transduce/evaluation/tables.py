"""Rows of cells in columns, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from transduce.metrics.units import columns, padded


def aligned(rows: Sequence[Sequence[str]], align: str = ">", gap: int = 2, indent: int = 0) -> list[str]:
    """A line for each row; ``align`` has a < or > for each column, the last of which stands for all that follow."""
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    sides = align + align[-1] * (len(widths) - len(align))
    lines = (
        (" " * gap).join(padded(cell, width, side) for cell, width, side in zip(row, widths, sides, strict=True))
        for row in rows
    )
    return [" " * indent + line.rstrip() for line in lines]
