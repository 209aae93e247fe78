"""Paragraphs of office documents in XML: runs of text, each with its format. Cells with text are such paragraphs too.

A stretch of text that no tab, line break, field or picture divides is one unit. The format that most of it has is the
format of the unit, and other formats are tags in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from transduce.wings.documents.document import Edit, Parts, Tag, Unit, has_words, margins, replaced
from transduce.wings.documents.inline import Run, shortened
from transduce.wings.documents.xml_tokens import Token, end_of, escape, text_of

PARAGRAPHS = {"p", "si", "is"}
AROUND = {"hyperlink", "ins", "smartTag"}  # elements around runs
MARKS = {"bookmarkStart", "bookmarkEnd", "commentRangeStart", "commentRangeEnd"}
IGNORED = {"proofErr", "lastRenderedPageBreak"}  # notes of a program about the old text
SKIPPED = {"pPr", "rPh", "del"}
FORMAT = "format"  # the name of tags for formats


@dataclass(frozen=True)
class _Words:
    """A run with nothing but text. ``opening`` is what stands before the text, and ``format`` tells equal formats."""

    start: int
    end: int
    opening: str
    format: str
    text: str


def paragraphs(text: str, every: Sequence[Token], kept: Collection[str] = ()) -> Iterator[Edit]:
    """Yields the edits of a file. Paragraphs whose whole text is in ``kept`` stay."""
    found, place, depth = list[_Words | Run](), 0, 0
    while place < len(every):
        token, end, breaks = every[place], place, True
        if token.name in PARAGRAPHS and token.kind in ("open", "close"):
            depth += 1 if token.kind == "open" else -1
        elif token.kind == "open" and token.name in SKIPPED:
            end = end_of(every, place)
        elif token.kind == "open" and token.name == "r" and depth:
            last = end_of(every, place)
            if (words := _words(text, every[place : last + 1])) is not None:
                found.append(words)
                end, breaks = last, False
        elif token.kind == "text" and depth and every[place - 1].name == "t":
            yield from _loose(text, token, kept)
        elif depth and (run := _tag(text, token)) is not None:
            found.append(run)
            breaks = False
        elif token.name in IGNORED or token.kind == "other":
            breaks = False
        if breaks and found:
            yield from _edit(found, kept)
            found = []
        place = end + 1


def _loose(text: str, token: Token, kept: Collection[str]) -> Iterator[Edit]:
    """The edit of a text beside other things in its run, or without a run."""
    words = text_of(text[token.start : token.end])
    if has_words([words]) and words not in kept:
        yield replaced(token.start, token.end, words, escape)


def _tag(text: str, token: Token) -> Run | None:
    raw = text[token.start : token.end]
    if token.name in MARKS and token.kind == "empty":
        return Run(token.start, token.end, Tag(raw))
    if token.name in AROUND and (token.kind == "open" or token.kind == "close"):
        return Run(token.start, token.end, Tag(raw, token.kind, token.name))
    return None


def _words(text: str, inner: Sequence[Token]) -> _Words | None:
    """The run, if it has nothing but its format and texts."""
    place, form = 1, ""
    if inner[place].name == "rPr":
        last = end_of(inner, place) if inner[place].kind == "open" else place
        form = text[inner[place].start : inner[last].end]
        place = last + 1
    words = list[str]()
    for token in inner[place:-1]:
        if token.kind in ("open", "empty") and token.name != "t" and token.name not in IGNORED:
            return None
        if token.kind == "text":
            words.append(text_of(text[token.start : token.end]))
    opening = text[inner[0].start : inner[0].end] + form
    return _Words(inner[0].start, inner[-1].end, opening, form, "".join(words))


def _edit(found: Sequence[_Words | Run], kept: Collection[str]) -> Iterator[Edit]:
    whole = "".join(each.text for each in found if isinstance(each, _Words))
    if not has_words([whole]) or whole in kept:
        return
    lengths = Counter[str]()
    for each in found:
        if isinstance(each, _Words):
            lengths[each.format] += len(each.text)
    usual = lengths.most_common(1)[0][0]
    opening = next(each.opening for each in found if isinstance(each, _Words) and each.format == usual)
    runs = shortened(_runs(found, usual))
    first, last = runs[0].part, runs[-1].part
    before = first[: margins(first)[0]] if isinstance(first, str) else ""
    after = last[len(last) - margins(last)[1] :] if isinstance(last, str) else ""
    parts = [run.part for run in runs]
    if isinstance(first, str):
        parts[0] = first[len(before) :]
    if isinstance(last, str):
        parts[-1] = str(parts[-1])[: len(str(parts[-1])) - len(after)]

    def write(parts: Parts) -> str:
        return _written([*([before] if before else []), *parts, *([after] if after else [])], opening)

    yield Edit(runs[0].start, runs[-1].end, [Unit(parts, write)])


def _runs(found: Sequence[_Words | Run], usual: str) -> list[Run]:
    """Texts and tags, in which neighbouring texts of one format are joined."""
    runs, form = list[Run](), usual
    for each in found:
        if isinstance(each, Run):
            if form != usual:
                runs.append(Run(each.start, each.start, Tag("", "close", FORMAT)))
            form = usual
            runs.append(each)
            continue
        if each.format != form:
            if form != usual:
                runs.append(Run(each.start, each.start, Tag("", "close", FORMAT)))
            if each.format != usual:
                runs.append(Run(each.start, each.start, Tag(each.opening, "open", FORMAT)))
            form = each.format
        last = runs[-1] if runs else None
        if last is not None and isinstance(last.part, str):
            runs[-1] = Run(last.start, each.end, last.part + each.text)
        else:
            runs.append(Run(each.start, each.end, each.text))
    if form != usual:
        runs.append(Run(found[-1].end, found[-1].end, Tag("", "close", FORMAT)))
    return runs


def _written(parts: Parts, usual: str) -> str:
    """The runs of a translation. The names of elements have the prefix that the first run has."""
    found = re.match(r"<([\w.\-]+:)?", usual)
    prefix = (found[1] or "") if found else ""
    space = "" if prefix == "a:" else ' xml:space="preserve"'
    pieces, opening = list[str](), usual
    for part in parts:
        if isinstance(part, str):
            text = f"{opening}<{prefix}t{space}>{escape(part)}</{prefix}t></{prefix}r>"
            pieces += [text] if part else []
        elif part.name == FORMAT:
            opening = part.raw if part.role == "open" else usual
        else:
            pieces.append(part.raw)
    return "".join(pieces)
