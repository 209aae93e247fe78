"""Markup inside a paragraph of Markdown: emphasis, links, pictures, code, HTML tags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from transduce.wings.documents.document import Role, Tag
from transduce.wings.documents.inline import Run

MARKUP = re.compile(
    r"""
    (?P<text>\\[^\w\s])
    | (?P<alone>(?<!`)(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)  # code
        | <(?:https?|ftp|mailto):[^<>\s]*> | <!--.*?-->
        | \[\^[^\]\s]+\]  # a note
        | \{[\#.:][^{}\n]*\})  # a name and classes
    | (?P<html></?[A-Za-z][^<>]*>)
    | (?P<bracket>!?\[)
    | (?P<end>\](?:\((?:[^()\n]|\([^()\n]*\))*\)|\[[^\[\]]*\])?)
    | (?P<mark>\*{1,3}|_{1,3}|~~)
    """,
    re.VERBOSE | re.DOTALL,
)
VOID = re.compile(r"<(?:br|img|hr|wbr|input)\b|.*/>\Z", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class _Open:
    """A sign that may open a pair, by its index among the signs."""

    number: int
    raw: str


def inline(text: str) -> list[Run]:
    """The texts and the markup of a paragraph. Signs that belong to no pair are text."""
    signs = list(MARKUP.finditer(text))
    runs, place = list[Run](), 0
    for number, tag in sorted(_tags(text, signs).items()):
        start, end = signs[number].span()
        if place < start:
            runs.append(Run(place, start, text[place:start]))
        runs.append(Run(start, end, tag))
        place = end
    return [*runs, *([Run(place, len(text), text[place:])] if place < len(text) else [])]


def _tags(text: str, signs: Sequence[re.Match[str]]) -> dict[int, Tag]:
    """The tags by the index of their sign."""
    found, waiting = dict[int, Tag](), list[_Open]()

    def pair(opened: int, number: int) -> None:
        name = f"#{number}"
        first, last = signs[waiting[opened].number][0], signs[number][0]
        found[waiting[opened].number], found[number] = Tag(first, "open", name), Tag(last, "close", name)
        del waiting[opened:]

    for number, sign in enumerate(signs):
        raw = sign[0]
        if sign.lastgroup in ("alone", "ticks"):
            found[number] = Tag(raw)
        elif sign["html"]:
            name = re.sub(r"\W.*", "", raw.strip("</>"), flags=re.DOTALL).lower()
            role: Role = "alone" if VOID.match(raw) else "close" if raw.startswith("</") else "open"
            found[number] = Tag(raw, role, name)
        elif sign["bracket"]:
            waiting.append(_Open(number, "["))
        elif sign["end"]:
            opened = _last(waiting, "[")
            if opened is not None and len(raw) > 1:
                pair(opened, number)
            elif opened is not None:
                del waiting[opened]
        elif sign["mark"]:
            opens, closes = _flanks(text, sign)
            opened = _last(waiting, raw) if closes else None
            if opened is not None:
                pair(opened, number)
            elif opens:
                waiting.append(_Open(number, raw))
    return found


def _last(waiting: Sequence[_Open], raw: str) -> int | None:
    """The index of the last open sign like this one, outside of no link that is still open."""
    for place in reversed(range(len(waiting))):
        if waiting[place].raw == raw:
            return place
        if waiting[place].raw == "[" and raw != "[":
            return None
    return None


def _flanks(text: str, sign: re.Match[str]) -> tuple[bool, bool]:
    """Whether emphasis can begin, and end, with this sign."""
    before, after = text[: sign.start()][-1:], text[sign.end() :][:1]
    opens, closes = bool(after) and not after.isspace(), bool(before) and not before.isspace()
    if sign[0][0] == "_":
        return opens and not before.isalnum(), closes and not after.isalnum()
    return opens, closes
