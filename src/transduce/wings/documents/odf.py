"""Texts, slides and sheets of OpenDocument (.odt, .odp, .ods): archives of XML, of which the paragraphs change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from transduce.wings.documents.document import Document, Edit, Tag
from transduce.wings.documents.inline import Run, edit_of
from transduce.wings.documents.office import archive
from transduce.wings.documents.xml_tokens import Token, end_of, escape, text_of

FILES = re.compile(r"content\.xml|styles\.xml")  # styles.xml has the headers and footers
PARAGRAPHS = {"p", "h"}
INLINE = {"span", "a", "meta", "ruby", "ruby-base"}
BREAKS = {"tab", "line-break", "ruby-text"}
SKIPPED = {"tracked-changes", "annotation", "forms", "sequence-decls", "metadata"}
CELLS = {"table-cell", "covered-table-cell"}
STRING = re.compile(r"""\s[\w.\-]*:?string-value\s*=\s*("[^"]*"|'[^']*')""")


def parse(content: bytes, name: str) -> Document:
    """The document of a text, of slides or of sheets: paragraphs, headings, tables, notes, headers and footers. Cells
    with numbers, dates and formulas stay. Raises DataError as ``office.archive`` does.
    """
    return archive(content, name, FILES, "content.xml", paragraphs)


def paragraphs(text: str, every: Sequence[Token]) -> Iterator[Edit]:
    """Yields the edits of a file. A tab, a line break, a note or a frame divides a paragraph."""
    found, place, depth = list[Run](), 0, 0
    while place < len(every):
        token, end, run = every[place], place, None
        if token.name in PARAGRAPHS and token.kind in ("open", "close"):
            depth += 1 if token.kind == "open" else -1
        elif token.kind == "open" and (token.name in SKIPPED or _is_value(token)):
            end = end_of(every, place)
        elif token.kind == "open" and token.name in CELLS:
            yield from _second_text(text, token)
        elif depth:
            end, run = _run(text, every, place)
        if run is not None:
            found.append(run)
        elif found:
            yield from _edit(found)
            found = []
        place = end + 1


def _run(text: str, every: Sequence[Token], place: int) -> tuple[int, Run | None]:
    """The text or the tag at a place inside a paragraph, and the index of its last token; None if it divides the text.
    A field is one tag, with its content.
    """
    token = every[place]
    raw = text[token.start : token.end]
    if token.kind == "text":
        return place, Run(token.start, token.end, text_of(raw))
    if token.name == "s" and token.kind == "empty":  # spaces
        return place, Run(token.start, token.end, " ")
    if token.kind in ("open", "close") and token.name in INLINE:
        return place, Run(token.start, token.end, Tag(raw, token.kind, token.name))
    if token.name in BREAKS or token.kind == "close":
        return place, None
    if token.kind == "open":
        end = end_of(every, place)
        if any(each.name in PARAGRAPHS for each in every[place:end]):
            return place, None
        return end, Run(token.start, every[end].end, Tag(text[token.start : every[end].end]))
    return place, Run(token.start, token.end, Tag(raw))


def _is_value(token: Token) -> bool:
    """True for a cell whose paragraphs only show its value: a number, a date, or the result of a formula."""
    given = token.attributes
    return token.name in CELLS and ("formula" in given or given.get("value-type", "string") != "string")


def _second_text(text: str, cell: Token) -> Iterator[Edit]:
    """Yields the edit that takes a second copy of the text out of the tag of a cell: it would hide the translation."""
    for found in STRING.finditer(text, cell.start, cell.end):
        yield Edit(found.start(), found.end(), [])


def _edit(found: Sequence[Run]) -> Iterator[Edit]:
    runs = list[Run]()
    for run in found:
        before = runs[-1] if runs else None
        if before is not None and isinstance(before.part, str) and isinstance(run.part, str):
            runs[-1] = Run(before.start, run.end, before.part + run.part)
        else:
            runs.append(run)
    edit = edit_of(runs, escape)
    if edit is not None:
        yield edit
