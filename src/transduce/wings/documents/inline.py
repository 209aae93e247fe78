"""Units in markup: a stretch of text and inline tags, and the edit that replaces it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from transduce.wings.documents.document import Edit, Parts, Tag, Unit, has_words, margins


@dataclass(frozen=True)
class Run:
    """A text, or a tag, and where it stands in the file."""

    start: int
    end: int
    part: str | Tag


def partners(parts: Parts) -> dict[int, int]:
    """The index of the closing tag of each opening tag that has one, and the reverse. No two pairs cross."""
    waiting, found = list[int](), dict[int, int]()
    for number, part in enumerate(parts):
        if not isinstance(part, Tag):
            continue
        if part.role == "open":
            waiting.append(number)
        elif part.role == "close":
            level = next((n for n in reversed(range(len(waiting))) if parts[waiting[n]].name == part.name), None)  # type: ignore[union-attr]
            if level is not None:
                found |= {waiting[level]: number, number: waiting[level]}
                del waiting[level:]
    return found


def shortened(runs: Sequence[Run]) -> Sequence[Run]:
    """The runs without the tags around all of the text: those that stand alone, and pairs that enclose the rest."""
    runs = _without_margins(runs)
    while runs:
        paired = partners([run.part for run in runs])
        first, last = runs[0].part, runs[-1].part
        if isinstance(first, Tag) and paired.get(0) == len(runs) - 1:
            runs = runs[1:-1]
        elif isinstance(first, Tag) and (0 not in paired or paired[0] == 1):
            runs = runs[1 if 0 not in paired else 2 :]
        elif isinstance(last, Tag) and (len(runs) - 1 not in paired or paired[len(runs) - 1] == len(runs) - 2):
            runs = runs[: -1 if len(runs) - 1 not in paired else -2]
        else:
            return runs
        runs = _without_margins(runs)
    return runs


def edit_of(runs: Sequence[Run], escape: Callable[[str], str]) -> Edit | None:
    """The edit of a stretch of markup, in which the unit is as short as it can be; None if there is nothing to
    translate. White space in the texts becomes one space.
    """
    parts = [run.part for run in runs]
    if not has_words(parts):
        return None
    runs = shortened(runs)
    first, last = runs[0], runs[-1]
    before = margins(first.part)[0] if isinstance(first.part, str) else 0
    after = margins(last.part)[1] if isinstance(last.part, str) else 0
    opening = escape(str(first.part)[:before]) if before else ""
    closing = escape(str(last.part)[len(str(last.part)) - after :]) if after else ""

    def write(parts: Parts) -> str:
        return "".join(escape(part) if isinstance(part, str) else part.raw for part in parts)

    return Edit(first.start, last.end, [opening, Unit(spaced([run.part for run in runs]), write), closing])


def spaced(parts: Parts) -> list[str | Tag]:
    """The parts with one space for each white space, and none at either end."""
    found = [_one_space(part) if isinstance(part, str) else part for part in parts]
    if isinstance(found[0], str):
        found[0] = found[0].lstrip()
    if isinstance(found[-1], str):
        found[-1] = found[-1].rstrip()
    return found


def _one_space(text: str) -> str:
    inner = " ".join(text.split(None)) if text.strip() else ""
    before, after = margins(text)
    return " " * bool(before or (text and not inner)) + inner + " " * bool(after and inner)


def _without_margins(runs: Sequence[Run]) -> Sequence[Run]:
    """The runs without those at either end that are white space alone."""
    place, end = 0, len(runs)
    while place < end and isinstance(part := runs[place].part, str) and not part.strip():
        place += 1
    while end > place and isinstance(part := runs[end - 1].part, str) and not part.strip():
        end -= 1
    return runs[place:end]
