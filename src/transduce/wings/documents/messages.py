"""Messages of programs as text files: JSON, ARB of Flutter, .properties of Java, .strings of Apple. Keys, comments and
order stay; the values are translated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial

from transduce.core.errors import DataError
from transduce.wings.documents.document import Document, Edit, Spliced, has_words, replaced
from transduce.wings.documents.encoded import decoded
from transduce.wings.documents.escapes import escaped, unescaped

STRING = r'"(?:[^"\\]|\\.)*"'
JSON = re.compile(rf"{STRING}|[\[\]{{}}:,]")
APPLE = re.compile(
    rf"/\*.*?\*/|//[^\n]*|(?:{STRING}|(?<![\w.\-])[\w.\-]{{1,200}})\s*=\s*(?P<value>{STRING})\s*;", re.DOTALL
)
PROPERTY = re.compile(
    r"^[ \t\f]*(?![#!\s])(?:[^\s=:\\]|\\.)+(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+)(?P<value>(?:[^\\\r\n]|\\(?:\r\n|.))*)",
    re.DOTALL | re.MULTILINE,
)
ALONE = re.compile("[\ud800-\udfff]")  # half of a letter, which no encoding has


def parse_json(content: bytes, name: str) -> Document:
    """The document of a JSON file: each text that is no key, at any depth. Raises DataError if it is no JSON."""
    return _json(content, name, apart=None)


def parse_arb(content: bytes, name: str) -> Document:
    """The document of an ARB file: as ``parse_json``, without the notes of keys that begin with "@"."""
    return _json(content, name, apart="@")


def parse_properties(content: bytes, name: str) -> Document:
    """The document of a .properties file: each value. A file of ASCII alone stays one: other letters become escapes."""
    text, encode = decoded(content, name)
    write = partial(_property, ascii_only=text.isascii())
    return Spliced(text, [*_values(PROPERTY.finditer(text), write, quotes=False)], encode)


def parse_strings(content: bytes, name: str) -> Document:
    """The document of a .strings file: each value. Raises DataError if the file has text and no value."""
    text, encode = decoded(content, name)
    found = [match for match in APPLE.finditer(text) if match["value"]]
    if not found and APPLE.sub("", text).strip():
        raise DataError(f'{name} has no line such as "key" = "text"; was a .strings file of Apple expected?')
    return Spliced(text, [*_values(iter(found), partial(escaped, signs='"\\'), quotes=True)], encode)


def _json(content: bytes, name: str, apart: str | None) -> Document:
    text, encode = decoded(content, name)
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        more = "; if each line is JSON of its own, name it .jsonl" if error.msg == "Extra data" else ""
        raise DataError(f"{name}:{error.lineno}: this is no JSON that can be read ({error.msg}){more}") from None
    except RecursionError:
        raise DataError(f"{name} has lists in lists, deeper than Python reads") from None
    escaped = text.isascii() and "\\u" in text

    def write(new: str) -> str:
        return json.dumps(new, ensure_ascii=escaped)[1:-1]

    return Spliced(text, [*_edits(text, apart, write)], encode)


def _edits(text: str, apart: str | None, write: Callable[[str], str]) -> Iterator[Edit]:
    """The edits of the values of JSON that is known to be right. What a key that begins with ``apart`` names stays."""
    left_out = 0  # depth of brackets within the value of such a key
    found = list(JSON.finditer(text))
    key = ""
    for place, match in enumerate(found):
        token = match[0]
        if token in "[{":
            left_out += bool(left_out or (apart and key.startswith(apart)))
            key = "" if token == "{" else key
        elif token in "]}":
            left_out = max(0, left_out - 1)
        elif token == ",":
            key = ""
        elif token != ":":
            if place + 1 < len(found) and found[place + 1][0] == ":":
                key = json.loads(token)
            elif not left_out and not (apart and key.startswith(apart)):
                value = json.loads(token)
                if has_words([value]) and not ALONE.search(value):
                    yield replaced(match.start() + 1, match.end() - 1, value, write)


def _values(found: Iterator[re.Match[str]], write: Callable[[str], str], quotes: bool) -> Iterator[Edit]:
    for match in found:
        start, end = match.start("value") + quotes, match.end("value") - quotes
        value = unescaped(match.string[start:end])
        if has_words([value]):
            yield replaced(start, end, value, write)


def _property(text: str, ascii_only: bool) -> str:
    written = escaped(text, "\\")
    return _units(written) if ascii_only else written


def _units(text: str) -> str:
    """The text with an escape for each 16 bits of a letter that is not ASCII."""
    halves = (letter.encode("utf-16-be").hex() for letter in text)
    return "".join(
        letter if letter.isascii() else "".join(f"\\u{hexed[at : at + 4]}" for at in range(0, len(hexed), 4))
        for letter, hexed in zip(text, halves, strict=True)
    )
