"""The places of labels beside points, so that no label hides another one or a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels, from its left upper corner."""

    x: float
    y: float
    width: float
    height: float

    def meets(self, other: Box) -> bool:
        """True if the two have a point in common."""
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


def label_boxes(
    points: Sequence[tuple[float, float]], widths: Sequence[float], height: float, around: float, page: Box
) -> list[Box | None]:
    """The box of each point's label: right of it, left, above or below, whichever is free first. None if none is.

    ``widths`` are those of the labels, ``height`` is that of all. Labels keep ``around`` pixels from their point, and
    stay inside ``page``. Earlier points choose first.
    """
    marks = [Box(x - around / 2, y - around / 2, around, around) for x, y in points]
    taken: list[Box] = []
    found: list[Box | None] = []
    for (x, y), width in zip(points, widths, strict=True):
        choices = [
            Box(x + around, y - height / 2, width, height),
            Box(x - around - width, y - height / 2, width, height),
            Box(x - width / 2, y - around - height, width, height),
            Box(x - width / 2, y + around, width, height),
            Box(x + around, y - around - height, width, height),
            Box(x + around, y + around, width, height),
        ]
        free = next((each for each in choices if _inside(each, page) and not _any(each, [*taken, *marks])), None)
        found.append(free)
        if free is not None:
            taken.append(free)
    return found


def _any(box: Box, others: Sequence[Box]) -> bool:
    return any(box.meets(other) for other in others)


def _inside(box: Box, page: Box) -> bool:
    across = page.x <= box.x and box.x + box.width <= page.x + page.width
    return across and page.y <= box.y and box.y + box.height <= page.y + page.height
