"""A document: units of text to translate, in order, and everything else, which does not change.

A format finds the units in the content of a file and says where their translations stand. All other characters are
copied, so the rest of the file is the same to the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

Role = Literal["open", "close", "alone"]


@dataclass(frozen=True)
class Tag:
    """Markup inside a unit, as the file writes it. A tag that opens has the ``name`` of the one that closes it."""

    raw: str
    role: Role = "alone"
    name: str = ""


Parts = Sequence[str | Tag]
"""Texts, as a reader sees them, and the markup between them."""


def joined(parts: Parts) -> str:
    """The parts as text, where nothing is escaped."""
    return "".join(part if isinstance(part, str) else part.raw for part in parts)


@dataclass(frozen=True, eq=False)
class Unit:
    """A text to translate. ``write`` makes of translated parts what stands in the file."""

    parts: Parts
    write: Callable[[Parts], str] = joined

    @property
    def text(self) -> str:
        """The text without markup."""
        return "".join(part for part in self.parts if isinstance(part, str))

    @property
    def tags(self) -> list[Tag]:
        return [part for part in self.parts if isinstance(part, Tag)]


@dataclass(frozen=True)
class Edit:
    """The replacement of the characters from ``start`` to ``end``: texts of the file, and units."""

    start: int
    end: int
    parts: Sequence[str | Unit]


Translations = Mapping[Unit, Parts]


class Document(Protocol):
    """The ``units`` of a file in the order of reading. ``kept`` counts the texts that have a translation already."""

    @property
    def units(self) -> Sequence[Unit]: ...

    @property
    def kept(self) -> int: ...

    def written(self, translations: Translations) -> bytes:
        """The content of the file with the translations of its units."""
        ...


@dataclass(frozen=True)
class Spliced:
    """A document whose content is text. ``edits`` do not overlap; ``encode`` makes bytes of the text."""

    content: str
    edits: Sequence[Edit]
    encode: Callable[[str], bytes]
    kept: int = 0
    units: Sequence[Unit] = field(init=False)

    def __post_init__(self) -> None:
        found = [part for edit in self.edits for part in edit.parts if isinstance(part, Unit)]
        object.__setattr__(self, "units", found)

    def written(self, translations: Translations) -> bytes:
        pieces, place = list[str](), 0
        for edit in sorted(self.edits, key=lambda edit: edit.start):
            pieces.append(self.content[place : edit.start])
            pieces += [
                part.write(translations.get(part, part.parts)) if isinstance(part, Unit) else part
                for part in edit.parts
            ]
            place = edit.end
        return self.encode("".join([*pieces, self.content[place:]]))


def replaced(start: int, end: int, text: str, escape: Callable[[str], str] = str) -> Edit:
    """The edit that puts the translation of a ``text`` without markup in its place. White space around it stays."""
    before, after = margins(text)
    body = text[before : len(text) - after]
    unit = Unit([body], lambda parts: escape(joined(parts)))
    return Edit(start, end, [escape(text[:before]), unit, escape(text[len(text) - after :])])


def margins(text: str) -> tuple[int, int]:
    """The number of white-space characters before and after a text."""
    before = len(text) - len(text.lstrip())
    return before, len(text) - before - len(text.strip())


def has_words(parts: Iterable[str | Tag]) -> bool:
    """True if there is something to translate: a letter."""
    return any(letter.isalpha() for part in parts if isinstance(part, str) for letter in part)
