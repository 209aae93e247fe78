"""Letters that files of messages write with a backslash."""

from __future__ import annotations

import re
from collections.abc import Mapping

NAMES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
ESCAPE = re.compile(r"\\(?:\r?\n[ \t\f]*|[uU]([0-9A-Fa-f]{4})|(.))", re.DOTALL)


def unescaped(raw: str) -> str:
    """The text of a value: without the ends of lines that go on, and with the letters that escapes stand for."""
    text = ESCAPE.sub(_letter, raw)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two escapes make one letter


def escaped(text: str, signs: str, names: Mapping[str, str] = NAMES) -> str:
    """The text with a backslash before each of the ``signs``, and with the escapes of the letters in ``names``."""
    found = {letter: f"\\{name}" for name, letter in names.items()} | {sign: f"\\{sign}" for sign in signs}
    return "".join(found.get(letter, letter) for letter in text)


def _letter(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return NAMES.get(match[2], match[2]) if match[2] else ""
