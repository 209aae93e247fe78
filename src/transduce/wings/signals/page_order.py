"""The order of characters on a page, where letters of Hebrew and Arabic run from right to left and numbers do not.

A text is stored in the order in which people read it. A line of a page has another order, from its left edge to its
right edge. Unicode's bidirectional algorithm (UAX 9) says which. ``embedding_levels`` has its rules W1 to W7, N0 to N2,
I1, I2 and L1; the invisible characters that control directions are left out.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Literal

Direction = Literal["rtl", "ltr"]

_CONTROLS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "BN"}
_MARKS = "\u061c\u200e\u200f"  # invisible letters with a direction
_SIDE = {"L": "L", "R": "R", "EN": "R", "AN": "R"}  # the direction that a number or a letter gives to signs beside it
_OPPOSITE = {"LEFT": "RIGHT", "RIGHT": "LEFT", "LESS": "GREATER", "GREATER": "LESS"}


@dataclass(frozen=True)
class Cell:
    """A character of a page with the marks on it: its start and its end in the text, and its picture as text."""

    start: int
    end: int
    drawn: str


def on_page(text: str, direction: Direction) -> str:
    """The characters of a text in the order of a page, from left to right. A bracket between letters that run from
    right to left is drawn as its opposite. The page has this ``direction``.
    """
    if direction == "ltr" and text.isascii():
        return text
    return "".join(cell.drawn for cell in page_cells(text, direction))


def as_read(line: str, direction: Direction) -> str:
    """A text that stands on a page as ``line``. Several texts can stand in the same way, such as "12 abc" and "abc 12"
    on a page from right to left; this is one of them.

    The rules depend on the characters that were read before. First they are applied to the line itself, and then to
    the line from its right edge. The first result that stands on a page as the line is taken.
    """
    first = on_page(line, direction)
    if direction == "ltr" or on_page(first, direction) == line:
        return first
    second = _read_from_right(line)
    return second if on_page(second, direction) == line else first


def page_cells(text: str, direction: Direction) -> list[Cell]:
    """The characters of a text in the order of a page, from left to right."""
    cells = _cells(text)
    levels = embedding_levels([cell.drawn[0] for cell in cells], direction)
    order = list(range(len(cells)))
    for level in range(max(levels, default=0), 0, -1):
        order = _turned_back(order, [each >= level for each in levels])
    return [_mirrored(cells[place]) if levels[place] % 2 else cells[place] for place in order]


def embedding_levels(letters: Sequence[str], direction: Direction) -> list[int]:
    """The level of each character: odd if it runs from right to left (UAX 9)."""
    base = int(direction == "rtl")
    outer = "R" if base else "L"
    given = [unicodedata.bidirectional(letter) or "L" for letter in letters]
    kinds = _weak(given, outer)
    _brackets(letters, kinds, outer)
    for start, end in _runs(kinds, {"ON", "WS", "B", "S"}):  # N1, N2
        before = _SIDE[kinds[start - 1]] if start else outer
        after = _SIDE[kinds[end]] if end < len(kinds) else outer
        kinds[start:end] = [before if before == after else outer] * (end - start)
    above = {"L": base, "R": 1 - base, "EN": 2 - base, "AN": 2 - base}  # I1, I2
    levels = [base + above[kind] for kind in kinds]
    at_end = True
    for place in reversed(range(len(levels))):  # L1: separators, and spaces before them and at the end
        at_end = given[place] in ("B", "S") or (at_end and given[place] == "WS")
        levels[place] = base if at_end else levels[place]
    return levels


@cache
def opposite(letter: str) -> str:
    """The character that a mirror shows, such as ")" for "("; the same one if there is none."""
    words = unicodedata.name(letter, "").replace("-", " - ").split()
    turned = " ".join(_OPPOSITE.get(word, word) for word in words).replace(" - ", "-")
    try:
        return unicodedata.lookup(turned) if unicodedata.mirrored(letter) else letter
    except KeyError:
        return letter


# --------------------------------------------------------------------- parts


def _cells(text: str) -> list[Cell]:
    """The characters of a text in its own order."""
    cells = list[Cell]()
    for place, letter in enumerate(text):
        kind = unicodedata.bidirectional(letter)
        if kind in _CONTROLS or letter in _MARKS:
            continue
        if kind == "NSM" and cells:
            last = cells.pop()
            cells.append(Cell(last.start, place + 1, last.drawn + letter))
        else:
            cells.append(Cell(place, place + 1, letter))
    return cells


def _turned_back(order: Sequence[int], turned: Sequence[bool]) -> list[int]:
    """The order after each run of places that are ``turned`` is reversed."""
    runs = [[*run] for _, run in groupby(order, turned.__getitem__)]
    return [place for run in runs for place in (reversed(run) if turned[run[0]] else run)]


def _mirrored(cell: Cell) -> Cell:
    return Cell(cell.start, cell.end, opposite(cell.drawn[0]) + cell.drawn[1:])


def _read_from_right(line: str) -> str:
    """The line from its right edge, with the characters that run from left to right turned back."""
    cells = _cells(line)[::-1]
    read = [_mirrored(cell) for cell in cells]
    numbers = [level > 1 for level in embedding_levels([cell.drawn[0] for cell in read], "rtl")]
    order = _turned_back(range(len(cells)), numbers)
    return "".join((cells if numbers[place] else read)[place].drawn for place in order)


def _weak(given: Sequence[str], outer: str) -> list[str]:
    """The kinds of characters after the rules W1 to W7: L, R, EN and AN (numbers), and signs."""
    kinds = list(given)
    strong = outer
    for place, kind in enumerate(kinds):
        if kind == "NSM":
            kinds[place] = kinds[place - 1] if place else outer
        elif kind in ("L", "R", "AL"):
            strong = kind
        elif kind == "EN" and strong == "AL":
            kinds[place] = "AN"
    kinds = ["R" if kind == "AL" else kind for kind in kinds]
    for place, (before, kind, after) in enumerate(zip(kinds, kinds[1:], kinds[2:], strict=False), 1):
        if before == after and (before, kind) in {("EN", "ES"), ("EN", "CS"), ("AN", "CS")}:
            kinds[place] = before
    for start, end in _runs(kinds, {"ET"}):
        if "EN" in (*kinds[max(0, start - 1) : start], *kinds[end : end + 1]):
            kinds[start:end] = ["EN"] * (end - start)
    strong = outer
    for place, kind in enumerate(kinds):
        if kind in ("L", "R"):
            strong = kind
        elif kind == "EN" and strong == "L":
            kinds[place] = "L"
        elif kind in ("ES", "CS", "ET"):
            kinds[place] = "ON"
    return kinds


def _brackets(letters: Sequence[str], kinds: list[str], outer: str) -> None:
    """Gives each pair of brackets the direction of the characters inside, in place (N0)."""
    for start, end in _pairs(letters, kinds):
        inside = {_SIDE[kind] for kind in kinds[start + 1 : end] if kind in _SIDE}
        if inside:
            before = next((_SIDE[kind] for kind in reversed(kinds[:start]) if kind in _SIDE), outer)
            kinds[start] = kinds[end] = outer if outer in inside else before


def _pairs(letters: Sequence[str], kinds: Sequence[str]) -> list[tuple[int, int]]:
    """The places of the brackets that belong together, by the place of the first (BD16)."""
    found, opened = list[tuple[int, int]](), list[int]()
    for place, letter in enumerate(letters):
        if kinds[place] != "ON" or not unicodedata.mirrored(letter):
            continue
        if unicodedata.category(letter) == "Ps":
            opened.append(place)
        elif unicodedata.category(letter) == "Pe":
            fitting = [depth for depth, start in enumerate(opened) if opposite(letters[start]) == letter]
            if fitting:
                found.append((opened[fitting[-1]], place))
                del opened[fitting[-1] :]
    return sorted(found)


def _runs(kinds: Sequence[str], wanted: set[str]) -> Iterator[tuple[int, int]]:
    """Yields the start and the end of each longest run of the wanted kinds."""
    end = 0
    for inside, run in groupby(list(kinds), wanted.__contains__):
        start, end = end, end + len([*run])
        if inside:
            yield start, end
