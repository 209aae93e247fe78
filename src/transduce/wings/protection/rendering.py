"""Writes the pieces of a source into an output at the places that were found for them, with the right spaces."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from transduce.wings.protection.projection import Element, Range
from transduce.wings.protection.text import CLOSING, OPENING, Piece
from transduce_engine.phrases import UNSPACED

_DENSE = re.compile(f"[{UNSPACED}\u3000-\u303f\uff00-\uffef]")


@dataclass(frozen=True)
class Unit:
    """A unit of the output, with its number."""

    number: int


Item = Unit | int  # an int is the number of a piece


def sequence(elements: Sequence[Element], units: Range) -> list[Item]:
    """The units and the pieces in the order of the text. An element stands in its ``place`` and inside its parent."""
    items, unit = list[Item](), units[0]

    def key(number: int) -> tuple[int, bool, int]:
        low, high = elements[number].place or units
        return low, low < high, number

    for number in sorted(range(len(elements)), key=key):
        each = elements[number]
        low, high = each.place or units
        items += map(Unit, range(unit, low))
        unit = max(unit, high)
        if each.pair:
            items += [each.pieces[0], *sequence(each.inner, (low, high)), each.pieces[1]]
        else:
            items += each.pieces
    return [*items, *map(Unit, range(unit, units[1]))]


def write(text: str, units: Sequence[Range], items: Sequence[Item], pieces: Sequence[Piece]) -> tuple[str, list[int]]:
    """The text with its pieces. Also, for each unit, the number of characters before it in the new text; and for
    each piece.
    """
    written, starts, run, last = "", [0] * len(pieces), list[int](), -1
    for item in [*items, None]:
        if isinstance(item, int):
            run.append(item)
            continue
        end = units[last][1] if last >= 0 else 0
        start = len(text) if item is None else units[item.number][0]
        between = text[end:start]
        if run:
            following = None if item is None else text[slice(*units[item.number])]
            spaces = _spaces(written, between, [pieces[number] for number in run], following)
            for number, space in zip(run, spaces, strict=False):
                written += space
                starts[number] = len(written)
                written += pieces[number].text
            between, run = spaces[-1], []
        written += between
        if item is not None:
            written += text[slice(*units[item.number])]
            last = item.number
    return written, starts


def _spaces(before: str, between: str, run: Sequence[Piece], following: str | None) -> list[str]:
    """The white space before each piece of a run, and after the last one. ``before`` is the text before the run,
    ``between`` what the output has in its place, and ``following`` the unit after it.
    """
    gap = (between[:1] or " ") if before and following is not None and between.isspace() else ""
    left, right = before[-1:], (following or "")[:1]
    tight_left, tight_right = _tight(left, gap, OPENING), _tight(right, gap, CLOSING)
    dense = not gap and bool(_DENSE.match(left) or _DENSE.match(right))
    space = gap or " "
    found = ["" if not left else _beside(run[0], 0, left, gap, tight_left or dense, following is None)]
    for one, other in itertools.pairwise(run):
        found.append(_amid(one, other, gap, space))
    found.append("" if not right else _beside(run[-1], 1, right, gap, tight_right or dense, not before))
    if all(piece.role != "alone" for piece in run) and gap and not any(found):
        found[0 if run[0].role == "open" else -1] = gap  # the words stay apart
    return found


def _tight(letter: str, gap: str, signs: str) -> bool:
    """True if a sign touched the unit beside it: a comma after a word, a bracket before it."""
    return not gap and letter in signs


def _beside(piece: Piece, side: int, letter: str, gap: str, tight: bool, at_end: bool) -> str:
    """The white space between a piece and the ``letter`` before it (``side`` 0) or after it (1)."""
    inward, outward = ("open", "close") if side == 0 else ("close", "open")
    spaced, touched = piece.spaced[side], piece.beside[side]
    if piece.role == inward:
        return gap or (" " if at_end and spaced else "")
    if piece.role == outward:
        return gap if spaced and touched else ""
    if spaced or not touched:
        return "" if tight else gap or " "
    tight = tight or bool(piece.name) or letter in (OPENING, CLOSING)[side]  # a name: a tag
    return "" if touched.isalnum() == letter.isalnum() or tight else gap or " "


def _amid(one: Piece, other: Piece, gap: str, space: str) -> str:
    """The space between two pieces: the source's own if they stood together there."""
    if other.joined is not None and one.at == other.at:
        return other.joined
    if one.role == "open" or other.role == "close":
        return ""
    if one.role == "close" or other.role == "open":
        return gap
    return space
