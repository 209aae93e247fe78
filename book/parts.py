"""The parts of a chapter's source: its sections, its cells, and the words of its idea."""

from __future__ import annotations

import re
from dataclasses import dataclass

from book import chapter

CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TAGS = re.compile(r"\A:tags: \[(.*?)\]\n(?::\w+: .*\n)*")


@dataclass(frozen=True)
class Cell:
    """A cell of code, and its tags, such as "hide-cell"."""

    code: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chapter:
    """A chapter. ``sections`` has the text of each section by its heading; the idea has the heading of the chapter."""

    name: str
    title: str
    sections: dict[str, str]

    @property
    def idea(self) -> str:
        """The prose of the idea, without its cells."""
        return CELL.sub("", self.sections[self.title]).strip()

    @property
    def cells(self) -> list[Cell]:
        return [cell for text in self.sections.values() for cell in cells(text)]


def cells(text: str) -> list[Cell]:
    """The cells of a text, in their order."""
    found = []
    for code in CELL.findall(text):
        tags = TAGS.match(code)
        found.append(Cell(TAGS.sub("", code).strip(), tuple(tags[1].split(", ")) if tags else ()))
    return found


def read(name: str) -> Chapter:
    """The chapter with this name, such as "15-edit-distance"."""
    return parsed(name, (chapter.FOLDER / f"{name}.md").read_text(encoding="utf-8"))


def parsed(name: str, text: str) -> Chapter:
    body = text.split("\n---\n", 1)[1]
    pieces = re.split(r"^(#{1,2}) (.*)$", _without_code(body), flags=re.MULTILINE)
    headings = pieces[2::3]
    starts = [match.start() for match in re.finditer(r"^#{1,2} .*$", _without_code(body), re.MULTILINE)]
    sections = {}
    for heading, start, end in zip(headings, starts, [*starts[1:], len(body)], strict=True):
        sections[heading.strip()] = body[start:end].partition("\n")[2]
    return Chapter(name, headings[0].strip(), sections)


def _without_code(text: str) -> str:
    """The text with blanks in place of its code, whose comments look like headings."""
    return re.sub(r"^```.*?^```$", lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.MULTILINE | re.DOTALL)
