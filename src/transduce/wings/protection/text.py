"""A source with its protected spans: the text that the model reads, and where each span stood in it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from transduce.wings.protection.kinds import Span
from transduce_engine.phrases import UNSPACED

OPENING, CLOSING = "([{<«„“‚‘¿¡", ")]}>»“”‘’.,;:!?…%。，、！？；：）」』"
QUOTED = {
    "(": ")",
    "[": "]",
    '"': '"',
    "'": "'",
    "„": "“”",
    "“": "”",
    "«": "»",
    "»": "«",
    "‚": "‘’",
    "‘": "’",
    "`": "`",
}
VOID = {"br", "hr", "img", "input", "wbr", "area", "base", "col", "embed", "link", "meta", "source", "track"}
BREAKING = {"br", "hr", "p", "div", "li", "tr", "td", "th", "option", "img", "input"}
STRONG = {"**", "***", "~~"}  # of Markdown
_LETTER = re.compile(f"[{UNSPACED}]")
_SIGNS = re.compile(r"[\s,;:.!?/|+*=&–—-]*")
_APART_BEFORE = re.compile(r"\s?([,–—])\s?$")
_ENDING = re.compile(r"\s?[,;:.!?–—-]+(?=\s|$)")
_TAG = re.compile(r"(?:[<\[]|&lt;)(/?)([A-Za-z][\w:.\-]*|\d+).*?(/?)(?:[>\]]|&gt;)", re.DOTALL)


def units(text: str, cuts: Sequence[int] = ()) -> list[tuple[int, int]]:
    """The words of a text, as indices of first character and one past the last. A sign is a unit of its own, and so is
    a letter of a script without spaces. Words are also cut at the places ``cuts``.
    """
    found, word = list[tuple[int, int]](), -1
    for place, letter in enumerate(f"{text} "):
        kind = unicodedata.category(letter)
        apostrophe = word >= 0 and letter in "'’" and text[place + 1 : place + 2].isalnum()
        if apostrophe or ((letter.isalnum() or (kind[0] == "M" and word >= 0)) and not _LETTER.match(letter)):
            word = place if word < 0 else word
            continue
        if word >= 0:
            found.append((word, place))
            word = -1
        if (kind[0] == "M" or kind == "Cf") and found and found[-1][1] == place:  # a mark of the letter before it
            found[-1] = found[-1][0], place + 1
        elif not letter.isspace():
            found.append((place, place + 1))
    for cut in cuts:
        found = [part for start, end in found for part in _parts(start, end, cut)]
    return found


def _parts(start: int, end: int, cut: int) -> list[tuple[int, int]]:
    return [(start, cut), (cut, end)] if start < cut < end else [(start, end)]


@dataclass(frozen=True)
class Piece:
    """A span that is taken out of a source, with the signs that have nothing else beside them.

    ``at`` is the index in the text that the model reads before which it stood. ``role`` is open or close for a tag,
    otherwise alone. ``name`` is the name of a tag. ``spaced``: whether white space, or the end of the source, was
    before it and after it. ``beside`` are the characters before and after it, "" at an end.
    """

    span: Span
    text: str
    at: int
    role: str
    name: str
    spaced: tuple[bool, bool]
    beside: tuple[str, str]
    joined: str | None  # the text between the piece before this one and this one, if they stand together

    @property
    def offset(self) -> int:
        """The index of the span in ``text``."""
        return self.text.index(self.span.text)


@dataclass(frozen=True)
class ProtectedText:
    """A source and its spans, in order; they do not overlap."""

    source: str
    spans: Sequence[Span]

    @property
    def text(self) -> str:
        """The source without its spans: what the model reads. Empty if no word remains."""
        return self._taken[0]

    @property
    def pieces(self) -> list[Piece]:
        return self._taken[1]

    @cached_property
    def units(self) -> list[tuple[int, int]]:
        """The units of ``text``, cut where a piece stands."""
        return units(self.text, [piece.at for piece in self.pieces])

    @cached_property
    def _taken(self) -> tuple[str, list[Piece]]:
        text, pieces, place, source = "", list[Piece](), 0, self.source
        hulls, joined_before = self._hulls(), self._joined()
        for span, (start, end), joined in zip(self.spans, hulls, joined_before, strict=True):
            if joined is None:
                text = _join(text, source[place:start], pieces[-1] if pieces else None)
            before, after = source[start - 1 : start], source[end : end + 1]
            spaced = (not before or before.isspace(), not after or after.isspace())
            name, role = _tag(span, source)
            pieces.append(
                Piece(span, source[start:end], len(text.rstrip()), role, name, spaced, (before, after), joined)
            )
            place = end
        text = _join(text, source[place:], pieces[-1] if pieces else None)
        if not pieces:
            return source, []
        return (text.strip() if any(map(str.isalnum, text)) else ""), _moved(pieces, text)

    def _joined(self) -> list[str | None]:
        """For each span, the text between it and the span before, if they stand together; otherwise None. Between them
        is only space. Between two spans that are no tags, signs are allowed, without brackets and quotes.
        """
        found: list[str | None] = [None]
        for one, other in pairwise(self.spans):
            between = self.source[one.end : other.start]
            alone = _tag(one, self.source)[1] == _tag(other, self.source)[1] == "alone"
            together = not between.strip() or (alone and _SIGNS.fullmatch(between))
            found.append(between if together else None)
        return found[: len(self.spans)]

    def _hulls(self) -> list[tuple[int, int]]:
        """For each span, its start and its end with the signs that have nothing else beside them. These are brackets
        and quotes around spans that stand together, and signs after the spans that begin the source.
        """
        found, source = [(span.start, span.end) for span in self.spans], self.source
        joined = [*self._joined(), None]
        first = 0
        for last, span in enumerate(self.spans):
            if joined[last + 1] is not None:
                continue
            least = found[first - 1][1] if first else 0
            most = self.spans[last + 1].start if last + 1 < len(self.spans) else len(source)
            start, end = found[first][0], found[last][1]
            if _tag(self.spans[first], source)[1] == _tag(span, source)[1] == "alone":
                while start > least and end < most and source[end] in QUOTED.get(source[start - 1], ""):
                    start, end = start - 1, end + 1
                if (before := _APART_BEFORE.search(source, least, start)) and (
                    after := re.compile(rf"\s?{re.escape(before[1])}(?=\s)").match(source, end, most)
                ):  # as in "Herr Li, {name}, kommt"
                    start, end = before.start(), after.end()
                if not source[:start].strip() and (signs := _ENDING.match(source, end, most)):
                    end = signs.end()
            found[first] = start, found[first][1]
            found[last] = found[last][0], end
            first = last + 1
        return found


def _moved(pieces: list[Piece], text: str) -> list[Piece]:
    """The pieces, each before the first word that follows it in the stripped text."""
    lost = len(text) - len(text.lstrip())
    return [replace(piece, at=max(0, piece.at - lost)) for piece in pieces]


def _join(text: str, following: str, piece: Piece | None) -> str:
    """The text with the text that follows a piece which was taken out between them."""
    if piece is None or not following.strip():
        return text + following if piece is None else text
    here = following.lstrip()
    if not text:
        return here
    spaced = text[-1].isspace() or following[0].isspace()
    left, right = text.rstrip()[-1:], here[0]
    if spaced:
        gap = "" if (right in CLOSING and not right.isalnum()) or (left in OPENING) else " "
    elif piece.name in BREAKING:
        gap = " "
    elif piece.role != "alone":
        gap = ""
    else:
        gap = " " if left.isalnum() and right.isalnum() and not re.match(f"[{UNSPACED}]{{2}}", left + right) else ""
    return text.rstrip() + gap + here


def _tag(span: Span, source: str) -> tuple[str, str]:
    """The name of a tag, and whether it opens or closes something; "" and alone for anything else."""
    if span.kind == "markup" and span.text in STRONG:  # the second one closes what the first one opens
        return span.text, "close" if source.count(span.text, 0, span.start) % 2 else "open"
    if span.kind == "markup" and (span.text == "[" or span.text.startswith("](")):  # a link of Markdown
        return "](", "open" if span.text == "[" else "close"
    found = _TAG.fullmatch(span.text) if span.kind == "markup" else None
    if found is None:
        return "", "alone"
    closing, name, ended = found.groups()
    if ended or name.lower() in VOID:
        return name.lower(), "alone"
    return name, "close" if closing else "open"
