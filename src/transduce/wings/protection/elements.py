"""The pieces of a source as elements to place: pairs of tags with the pieces inside, and pieces that stand together."""

from __future__ import annotations

from collections.abc import Sequence

from transduce.wings.protection.projection import Element
from transduce.wings.protection.text import BREAKING, Piece

BOUND = 3.0  # how much a neighbour counts that a piece touches, beside one that it does not


def elements_of(pieces: Sequence[Piece], gaps: Sequence[int]) -> list[Element]:
    """The elements, in order. ``gaps`` has the source gap of each piece."""
    return _elements(pieces, gaps, partners(pieces), 0, len(pieces))


def partners(pieces: Sequence[Piece]) -> dict[int, int]:
    """The index of the closing tag of each opening tag that has one, so that no two pairs cross. Of tags that cross,
    the pair that closes first counts; the others have no partner.
    """
    waiting, found = list[int](), dict[int, int]()
    for number, piece in enumerate(pieces):
        if piece.role == "open":
            waiting.append(number)
        elif piece.role == "close":
            level = next((n for n in reversed(range(len(waiting))) if pieces[waiting[n]].name == piece.name), None)
            if level is not None:
                found[waiting[level]] = number
                del waiting[level:]
    return found


def _elements(
    pieces: Sequence[Piece], gaps: Sequence[int], partner: dict[int, int], start: int, end: int
) -> list[Element]:
    found, place = list[Element](), start
    while place < end:
        last = partner.get(place, place)
        both = gaps[place], gaps[last]
        if both[0] < both[1]:
            inner = _elements(pieces, gaps, partner, place + 1, last)
            found.append(Element(both, [place, last], True, inner))
        else:
            some = list(range(place, last + 1))
            before = found[-1] if found and not found[-1].pair else None
            if before is not None and pieces[place].joined is not None:
                some = before.pieces + some
                found.pop()
            apart = all(pieces[number].name in BREAKING for number in some)
            found.append(Element(both, some, binds=_binds(pieces[some[0]], pieces[some[-1]]), apart=apart))
        place = last + 1
    return found


def _binds(first: Piece, last: Piece) -> tuple[float, float]:
    """How much the units before the first piece and after the last one count. A tag that opens belongs to the text
    after it, and one that closes to the text before it. Another piece belongs to a neighbour that it touches.
    """
    left, right = first.role == "close", last.role == "open"
    if first.role == last.role == "alone":
        left, right = not first.spaced[0], not last.spaced[1]
    return (BOUND if left and not right else 1.0), (BOUND if right and not left else 1.0)
