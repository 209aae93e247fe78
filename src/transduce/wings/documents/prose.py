"""Plain text and Markdown: each paragraph is a unit. Empty lines, lists, headings and code stay."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from transduce.wings.documents.document import Document, Edit, Spliced, Tag, has_words, replaced
from transduce.wings.documents.encoded import decoded
from transduce.wings.documents.inline import edit_of
from transduce.wings.documents.markdown_inline import inline

FENCE = re.compile(r"\s*(```+|~~~+)")
MARK = re.compile(  # of a quotation, an item, a heading, an explanation, a note
    r"(?:[ \t]*>)*[ \t]*(?:(?:[-*+]|\d+[.)])[ \t]+(?:\[[ xX]\][ \t]+)?|#{1,6}[ \t]+|(?::|\[\^[^\]\s]+\]:)[ \t]+)?"
)
RULE = re.compile(r"[\s\-=*_|:+]*")
# HTML, addresses of links, formulas, code, signs around boxes, what a program fills in
APART = re.compile(
    r"\s*(?:<[/!?A-Za-z]|\[(?!\^)[^\]]+\]:|\$\$|:::|\{\{[<%].*[>%]\}\}\s*\Z|\{%.*%\}\s*\Z)|    |\t|"
    r"(?:[ \t]*>)+[ \t]*\[!\w+\][+\-]?\s*\Z"
)


def parse_text(content: bytes, name: str) -> Document:
    """The document of a plain text: each line is a paragraph."""
    text, encode = decoded(content, name)
    edits, place = list[Edit](), 0
    for line in text.split("\n"):
        if has_words([line]):
            edits.append(replaced(place, place + len(line), line))
        place += len(line) + 1
    return Spliced(text, edits, encode)


def parse_markdown(content: bytes, name: str) -> Document:
    """The document of a Markdown text. The lines of a paragraph become one line; the cells of tables are units."""
    text, encode = decoded(content, name)
    return Spliced(text, [*_blocks(text)], encode)


def _blocks(text: str) -> Iterator[Edit]:
    place, fence, start, end, quoted = 0, "", -1, -1, False
    front = text.startswith("---\n") and "\n---" in text[3:]
    for number, line in enumerate(text.split("\n")):
        begin, place = place, place + len(line) + 1
        marked, apart = MARK.match(line), front or fence or APART.match(line) or RULE.fullmatch(line)
        if found := FENCE.match(line):
            fence, apart = ("" if fence and found[1].startswith(fence) else fence or found[1]), found
        if front and number and line.startswith("---"):
            front = False
        body = begin + (marked.end() if marked else 0)
        mark = (marked[0] if marked else "").strip()
        if start >= 0 and (apart or mark.replace(">", "") or (mark and not quoted) or line.lstrip().startswith("|")):
            if not (APART.match(line) and line.startswith((" ", "\t"))):
                yield from _paragraph(text, start, end)
                start = -1
            else:  # a continued line may be indented
                end = place - 1
                continue
        if apart:
            continue
        if line.lstrip().startswith("|"):
            for cell in re.finditer(r"(?:\\.|[^|\\])+", line):
                yield from _paragraph(text, begin + cell.start(), begin + cell.end())
        elif mark.endswith("#"):  # a heading is one line
            yield from _paragraph(text, body, place - 1)
            start = -1
        elif start < 0:
            start, end, quoted = body, place - 1, ">" in mark
        elif text[start:end].endswith(("  ", "\\")):  # the author wants a new line here
            yield from _paragraph(text, start, end - text[start:end].endswith("\\"))
            start, end = body, place - 1
        else:
            end = place - 1
    if start >= 0:
        yield from _paragraph(text, start, end)


def _paragraph(text: str, start: int, end: int) -> Iterator[Edit]:
    raw = text[start:end]
    if has_words([raw]):
        body = raw.strip()
        before = raw[: raw.index(body)]
        offset = start + len(before)
        runs = [
            replace(run, start=run.start + offset, end=run.end + offset, part=_one_line(run.part))
            for run in inline(body)
        ]
        if (edit := edit_of(runs, str)) is not None:
            yield edit


def _one_line(part: str | Tag) -> str | Tag:
    return re.sub(r"\s*\n[ >]*", " ", part) if isinstance(part, str) else part
