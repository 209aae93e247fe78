"""Messages of programs as XML: resources of Android (.xml), .resx of .NET, .ts of Qt. Names and comments stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from transduce.core.errors import DataError
from transduce.wings.documents.document import Document, Edit, Spliced, Unit, has_words
from transduce.wings.documents.encoded import decoded
from transduce.wings.documents.escapes import escaped, unescaped
from transduce.wings.documents.inline import edit_of
from transduce.wings.documents.xliff import runs
from transduce.wings.documents.xml_tokens import DECLARED, Token, end_of, escape, text_of, tokens

Elements = Callable[[str, Sequence[Token]], Iterator[Edit]]
REFERENCE = re.compile(r"\s*[@?][\w:.+\-]*/?[\w.]*\s*")  # of Android, to another resource


def parse_android(content: bytes, name: str) -> Document:
    """The document of Android's resources: strings, and items of arrays and plurals. Strings with translatable="false"
    and references stay. Raises DataError if the root is not <resources>.
    """
    text, every, encode = _read(content, name, "resources", "resources of Android")
    return Spliced(text, [*_android(text, every)], encode)


def parse_resx(content: bytes, name: str) -> Document:
    """The document of .NET's resources: the values of data that are texts. The root must be <root>."""
    text, every, encode = _read(content, name, "root", "resources of .NET")
    return Spliced(text, [*_resx(text, every)], encode)


def parse_qt(content: bytes, name: str) -> Document:
    """The document of Qt Linguist: messages whose translation is empty get one, which stays marked as unfinished.
    Raises DataError if the root is not <TS>.
    """
    text, every, encode = _read(content, name, "TS", "messages of Qt Linguist")
    edits, kept = list[Edit](), 0
    for message in _elements(every, "message"):
        parts = {
            token.name: _whole(message, place) for place, token in enumerate(message) if token.kind in ("open", "empty")
        }
        source, target = parts.get("source"), parts.get("translation")
        if source is None or target is None or target[0].attributes.get("type") in ("vanished", "obsolete"):
            continue
        if has_words([_plain(text, target)]):
            kept += 1
        elif has_words([_plain(text, source)]):
            forms = [*_elements(target, "numerusform"), *([] if target[1:-1] else [target])]
            edits += [_filled(text, form, _plain(text, source)) for form in forms]
    return Spliced(text, edits, encode, kept)


def _read(content: bytes, name: str, root: str, expected: str) -> tuple[str, list[Token], Callable[[str], bytes]]:
    text, encode = decoded(content, name, DECLARED, "xmlcharrefreplace")
    every = tokens(text, name)
    found = next(token.name for token in every if token.kind in ("open", "empty"))
    if found != root:
        raise DataError(f"{name} is XML of another kind (<{found}>): {expected} (<{root}>) were expected")
    return text, every, encode


def _elements(every: Sequence[Token], *names: str) -> Iterator[Sequence[Token]]:
    """Yields the tokens of each element with one of these names, with its own tags."""
    for place, token in enumerate(every):
        if token.kind in ("open", "empty") and token.name in names:
            yield _whole(every, place)


def _whole(every: Sequence[Token], place: int) -> Sequence[Token]:
    return every[place : (place if every[place].kind == "empty" else end_of(every, place)) + 1]


def _plain(text: str, element: Sequence[Token]) -> str:
    """The text in an element and in those within it."""
    return "".join(text_of(text[token.start : token.end]) for token in element if token.kind == "text")


def _android(text: str, every: Sequence[Token]) -> Iterator[Edit]:
    for group in _elements(every, "string", "string-array", "plurals"):
        if group[0].attributes.get("translatable") == "false":
            continue
        for element in [group] if group[0].name == "string" else _elements(group, "item"):
            found = runs(text, element[1:-1], codes=("g",))  # <xliff:g> has what no one translates
            if REFERENCE.fullmatch(_plain(text, element)):
                continue
            found = [replace(run, part=_read_android(run.part)) if isinstance(run.part, str) else run for run in found]
            if (edit := edit_of(found, _written_android)) is not None:
                yield edit


def _read_android(raw: str) -> str:
    """The text of a string of Android. Quotes without a backslash only keep the spaces around it."""
    return unescaped(re.sub(r'(\\.)|"', lambda found: found[1] or "", raw))


def _written_android(text: str) -> str:
    written = escape(escaped(text, "\\'\""))
    return f"\\{written}" if written[:1] in ("@", "?") else written


def _resx(text: str, every: Sequence[Token]) -> Iterator[Edit]:
    for data in _elements(every, "data"):
        if {"type", "mimetype"} & set(data[0].attributes):
            continue
        for value in _elements(data, "value"):
            found = runs(text, value[1:-1])
            if (edit := edit_of(found, escape)) is not None:
                yield edit


def _filled(text: str, element: Sequence[Token], source: str) -> Edit:
    """The edit that writes the translation of a source into an element that is empty."""
    opening = re.sub(r"\s*/>\Z", ">", text[element[0].start : element[0].end])
    unit = Unit([source], lambda parts: escape("".join(str(part) for part in parts)))
    return Edit(element[0].start, element[-1].end, [opening, unit, f"</{element[0].name}>"])
