"""Translation memories (.tmx) as documents: each unit with a text of the source language, and none of the other one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transduce.core.errors import DataError
from transduce.wings.documents.document import Document, Edit, Spliced, has_words
from transduce.wings.documents.encoded import decoded
from transduce.wings.documents.inline import edit_of
from transduce.wings.documents.xliff import runs
from transduce.wings.documents.xml_tokens import DECLARED, Token, end_of, escape, tokens


@dataclass(frozen=True)
class _Variant:
    """The text of a unit in a language: the tokens of its <tuv>, and those of its <seg>. ``language`` is in lower case,
    and ``spelled`` as in the file.
    """

    language: str
    spelled: str
    every: Sequence[Token]
    segment: Sequence[Token]


def parse_tmx(content: bytes, name: str, column: str | None = None) -> Document:
    """The document of a TMX file. The texts of its source language (``srclang``) are translated into the other
    language, which is the ``column`` or the only other one that the file has.

    Raises DataError if the file is no TMX, or if one of the two languages is not known.
    """
    text, encode = decoded(content, name, DECLARED, "xmlcharrefreplace")
    every = tokens(text, name)
    root = next(token for token in every if token.kind in ("open", "empty"))
    if root.name != "tmx":
        raise DataError(f"{name} is XML of another kind ({root.name}), and a TMX file was expected")
    found = [(_source(every, token), _variants(every, place)) for place, token in _units(every)]
    source, target = _languages(found, column, name)
    edits, kept = list[Edit](), 0
    for own, variants in found:
        given = [each for each in variants if each.language == (own or source) and _plain(text, each)]
        there = [each for each in variants if each.language == target.lower()]
        if given and any(_plain(text, each) for each in there):
            kept += 1
        elif given and (edit := _edit(text, given[0], there, target)) is not None:
            edits.append(edit)
    return Spliced(text, edits, encode, kept)


def _units(every: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    return ((place, token) for place, token in enumerate(every) if token.kind == "open" and token.name == "tu")


def _source(every: Sequence[Token], unit: Token) -> str:
    """The source language that a unit, or the header, names; empty if none does."""
    header = next((token for token in every if token.name == "header"), None)
    said = unit.attributes.get("srclang") or (header.attributes.get("srclang", "") if header else "")
    return "" if said == "*all*" else said.lower()


def _variants(every: Sequence[Token], place: int) -> list[_Variant]:
    found, end = list[_Variant](), end_of(every, place)
    for number in range(place, end):
        if every[number].kind == "open" and every[number].name == "tuv":
            inner = every[number : end_of(every, number) + 1]
            start = next((n for n, token in enumerate(inner) if token.name == "seg"), None)
            if start is not None:
                last = start if inner[start].kind == "empty" else end_of(inner, start)
                language = inner[0].attributes.get("lang", "")
                found.append(_Variant(language.lower(), language, inner, inner[start : last + 1]))
    return found


def _languages(units: Sequence[tuple[str, Sequence[_Variant]]], column: str | None, name: str) -> tuple[str, str]:
    """The source language in lower case, and the other one as it is written."""
    every = sorted({each.language for _, variants in units for each in variants})
    known = ", ".join(every) or "none"
    sources = sorted({own for own, _ in units if own}) or (
        [each for each in every if each != (column or "").lower()] * (len(every) < 3)
    )
    if len(sources) != 1:
        raise DataError(
            f"{name}: its source language is not known (srclang; languages: {known}): set srclang in <header>"
        )
    others = [each for each in every if each != sources[0]]
    if column is None and len(others) != 1:
        raise DataError(
            f"{name}: the language to translate into is not known (languages: {known}): name it with --column LANGUAGE"
        )
    spelled = (each.spelled for _, variants in units for each in variants if each.language == others[0])
    target = next(spelled) if column is None else column
    if target.lower() == sources[0] or not re.fullmatch(r"[A-Za-z]{1,8}([-_][A-Za-z0-9]{1,8})*", target):
        raise DataError(f"{name}: --column {target} is no language other than its source language, {sources[0]}")
    return sources[0], target


def _plain(text: str, variant: _Variant) -> bool:
    found = runs(text, variant.segment[1:-1])
    return has_words(run.part for run in found)


def _edit(text: str, source: _Variant, there: Sequence[_Variant], language: str) -> Edit | None:
    """The edit that writes the text of the other language: into the empty one that is there, or after the source."""
    edit = edit_of(runs(text, source.segment[1:-1]), escape)
    if edit is None:
        return None
    inner = source.segment[1:-1]
    parts = [text[inner[0].start : edit.start], *edit.parts, text[edit.end : inner[-1].end]]
    if there:
        start, end = there[0].segment[0].start, there[0].segment[-1].end
        return Edit(start, end, ["<seg>", *parts, "</seg>"])
    place = source.every[-1].end
    indent = re.search(r"\s*\Z", text[: source.every[0].start])
    opening = f'{indent[0] if indent else ""}<tuv xml:lang="{language}"><seg>'
    return Edit(place, place, [opening, *parts, "</seg></tuv>"])
