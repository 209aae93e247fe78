"""Subtitles (.srt, .vtt, .sbv, .ass): captions with their times. The lines of a caption are one text, which is divided
again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from transduce.core.errors import DataError
from transduce.wings.documents.document import Document, Edit, Parts, Role, Spliced, Tag, Unit, has_words, joined
from transduce.wings.documents.encoded import decoded

TIMES = re.compile(r"\s*(?:\d+:)?\d+:\d+[.,]\d+\s*-->\s*(?:\d+:)?\d+:\d+[.,]\d+|\d+:\d+:\d+\.\d+,\d+:\d+:\d+\.\d+\s*$")
DIALOGUE = re.compile(r"Dialogue:(?:[^,\n]*,){8}[^,\n]*,(?P<text>[^\r\n]+)", re.MULTILINE)  # of ASS: ten columns
TAG = re.compile(r"<(/?)([A-Za-z]\w*)[^<>\n]*>|\{\\[^}\n]*\}|<[\d:.]+>")
DRAWING = re.compile(r"\{[^}]*\\p[1-9]")
SPEAKER = re.compile(r"\s*(?:(?:<[^>]*>)*[-–—]\s*\S|<v[ .\t])")  # a line of another speaker begins
VOICE = re.compile(r"\s*<v(?:\.[\w.]+)?(?:\s[^<>]*)?>(?!.*</v>)", re.DOTALL)  # with no end


def parse(content: bytes, name: str) -> Document:
    """The document of subtitles. Raises DataError if there is no line with the times of a caption."""
    text, encode = decoded(content, name)
    edits, captions = list[Edit](), 0
    for start, lines in _captions(text):
        captions += 1
        edits += _edits(start, lines)
    if not captions and text.strip():
        raise DataError(f"{name} has no caption (00:00:01,000 --> 00:00:02,000 and its text): are these subtitles?")
    return Spliced(text, edits, encode)


def parse_ass(content: bytes, name: str) -> Document:
    """The document of subtitles of Advanced SubStation Alpha: the text of each dialogue. Drawings stay. Raises
    DataError if there is no dialogue.
    """
    text, encode = decoded(content, name)
    found = list(DIALOGUE.finditer(text))
    if not found and text.strip():
        raise DataError(f"{name} has no line that begins with Dialogue: and has ten columns: are these subtitles?")
    edits = list[Edit]()
    for match in found:
        raw = match["text"]
        parts = _parts(re.sub(r"\\[Nn]", "\n", raw))
        if has_words(parts) and not DRAWING.search(raw):
            edits.append(Edit(match.start("text"), match.end("text"), [_unit(parts, 1 + raw.count("\\N"), "\\N")]))
    return Spliced(text, edits, encode)


def _captions(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yields for each caption where its text begins, and its lines with their line ends."""
    place, timed, start, caption = 0, False, 0, list[str]()
    for line in [*text.splitlines(keepends=True), ""]:
        if timed and not line.strip():
            yield start, caption
            timed = False
        elif timed:
            caption.append(line)
        place += len(line)
        if TIMES.match(line):
            timed, start, caption = True, place, []


def _edits(start: int, lines: Sequence[str]) -> Iterator[Edit]:
    groups = list[list[str]]()
    for line in lines:
        if not groups or SPEAKER.match(line):
            groups.append([])
        groups[-1].append(line)
    for group in groups:
        raw = "".join(group)
        voice = VOICE.match(raw)
        named = 0 if voice is None else voice.end()
        body = raw.rstrip("\r\n")
        parts = _parts(body[named:])
        if has_words(parts):
            newline = "\r\n" if "\r\n" in raw else "\n"
            yield Edit(start + named, start + len(body), [_unit(parts, len(group), newline)])
        start += len(raw)


def _parts(text: str) -> list[str | Tag]:
    found, place = list[str | Tag](), 0
    for match in TAG.finditer(text):
        if match.start() > place:
            found.append(_line(text[place : match.start()]))
        role: Role = "alone" if match[2] is None else "close" if match[1] else "open"
        found.append(Tag(match[0], role, (match[2] or "").lower()))
        place = match.end()
    return [*found, *([_line(text[place:])] if text[place:] else [])]


def _line(text: str) -> str:
    return re.sub(r"[ \t]*[\r\n]+[ \t]*", " ", text)


def _unit(parts: Parts, lines: int, newline: str) -> Unit:
    return Unit(parts, lambda translated: newline.join(divided(joined(translated), lines)))


def divided(text: str, lines: int) -> list[str]:
    """The text in ``lines`` lines of about equal length, or in as many as it has words. Markup is not cut."""
    words = re.findall(r"(?:<[^<>]*>|\{[^}]*\}|\S)+", text)
    found, rest = list[str](), " ".join(words)
    for left in range(min(lines, len(words)), 1, -1):
        goal, line = len(rest) / left, ""
        while words[left - 1 :] and (not line or len(line) + len(words[0]) / 2 < goal):
            line = f"{line} {words.pop(0)}".strip()
        found.append(line)
        rest = " ".join(words)
    return [*found, rest]
