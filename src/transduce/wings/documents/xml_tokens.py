"""The tags and texts of an XML file, each with its place. No entity is declared, and nothing outside is read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal
from xml.parsers import expat
from xml.sax.saxutils import escape as escape_text
from xml.sax.saxutils import unescape

from transduce.core.errors import DataError

DECLARED = re.compile(rb"""\A\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9_.:\-]+)["']""")
NAMED = {"&quot;": '"', "&apos;": "'"}
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # characters that XML cannot have
Kind = Literal["open", "close", "empty", "text", "other"]


@dataclass(frozen=True)
class Token:
    """A tag or a text from ``start`` to ``end``. ``name`` is the local name of an element; ``empty`` is <x/>.

    ``attributes`` have their local names. ``other`` is a comment, a declaration or an instruction.
    """

    kind: Kind
    start: int
    end: int
    name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


def tokens(content: str, name: str) -> list[Token]:
    """All tokens of a file, in order; they cover all of it. ``name`` stands for the file in messages. Raises DataError
    if it is no XML, or declares entities.
    """
    parser = expat.ParserCreate("utf-8", "}")
    events = list[tuple[int, Kind, str, Mapping[str, str]]]()
    data = content.encode("utf-8", "surrogatepass")

    def add(kind: Kind, name: str = "", attributes: Mapping[str, str] | None = None) -> None:
        events.append((parser.CurrentByteIndex, kind, name.rpartition("}")[2], attributes or {}))

    def start(name: str, attributes: Mapping[str, str]) -> None:
        add("open", name, {key.rpartition("}")[2]: value for key, value in attributes.items()})

    def refuse(*_: object) -> None:
        raise DataError(
            f"{name}: this XML declares entities, which may hide other files or fill the memory: remove them"
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: add("close", name)
    parser.CharacterDataHandler = lambda _: add("text")
    parser.EntityDeclHandler = refuse
    parser.StartCdataSectionHandler = lambda: add("other")
    parser.EndCdataSectionHandler = lambda: add("other")
    parser.DefaultHandler = lambda _: add("other")
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        why = expat.ErrorString(error.code)
        raise DataError(
            f"{name}:{error.lineno}: this is no XML that can be read ({why}): mend or export it again"
        ) from None
    return _covered(events, data)


def _covered(events: list[tuple[int, Kind, str, Mapping[str, str]]], data: bytes) -> list[Token]:
    found, place, last = list[Token](), 0, 0  # place in characters, last in bytes
    events.append((len(data), "other", "", {}))
    ended = False  # the token before is <x/>, whose close takes no room
    for (start, kind, name, attributes), (end, *_) in pairwise(events):
        if ended and kind == "close":
            ended = False
            continue
        ended = kind == "open" and data.startswith(b"/>", end - 2)
        kind = "empty" if ended else kind
        place += len(data[last:start].decode("utf-8", "surrogatepass"))
        length = len(data[start:end].decode("utf-8", "surrogatepass"))
        if kind in ("text", "other") and found and found[-1].kind == kind:
            found[-1] = Token(kind, found[-1].start, place + length)
        else:
            found.append(Token(kind, place, place + length, name, attributes))
        last, place = end, place + length
    return found


def end_of(every: Sequence[Token], start: int) -> int:
    """The index of the token that closes the element that begins at ``start``."""
    depth = 0
    for place in range(start, len(every)):
        depth += {"open": 1, "close": -1}.get(every[place].kind, 0)
        if not depth:
            return place
    raise AssertionError("the parser has seen that all elements are closed")


def text_of(raw: str) -> str:
    """The text that stands in a file as ``raw``."""
    numbered = re.sub(r"&#(x[0-9A-Fa-f]+|[0-9]+);", _character, raw)
    return unescape(numbered, NAMED)


def escape(text: str) -> str:
    """A text between tags."""
    return escape_text(FORBIDDEN.sub("\ufffd", text))


def _character(match: re.Match[str]) -> str:
    number = int(match[1][1:], 16) if match[1][0] == "x" else int(match[1])
    letter = chr(number)
    return {"&": "&amp;", "<": "&lt;"}.get(letter, letter)
