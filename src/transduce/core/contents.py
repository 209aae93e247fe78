"""The kind of a file, from its first bytes: another form than text, a form of text, or the encoding of its text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

HEAD = 1 << 16  # bytes that are looked at
Typical = Callable[[str, list[str]], bool]


class Kind(NamedTuple):
    """A kind of content: its name with an article, and what a user can do with such a file."""

    name: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.name}; {self.remedy}"


PLAIN, TABLE, JSON_LINES = "plain text", "a tab-separated table", "JSON lines"  # the forms that data have
UNPACK = "unpack it first: {} FILE > NEW"
EXTRACT = "extract its text first"
SHEET = "save its sheet as tab-separated text in UTF-8 (.tsv)"
SIGNAL = "a text file has the paths of pictures and recordings, one a line"
MAGIC: tuple[tuple[bytes, Kind], ...] = (
    (b"\x1f\x8b", Kind("compressed by gzip twice", UNPACK.format("gzip -dc"))),
    (b"PK\x03\x04", Kind("a zip archive", UNPACK.format("unzip -p"))),
    (b"\xfd7zXZ\x00", Kind("compressed by xz", UNPACK.format("xz -dc"))),
    (b"\x28\xb5\x2f\xfd", Kind("compressed by zstd", UNPACK.format("zstd -dc"))),
    (b"BZh", Kind("compressed by bzip2", UNPACK.format("bzip2 -dc"))),
    (b"7z\xbc\xaf", Kind("a 7z archive", UNPACK.format("7z x -so"))),
    (b"\x04\x22\x4d\x18", Kind("compressed by lz4", UNPACK.format("lz4 -dc"))),
    (b"\xd0\xcf\x11\xe0", Kind("an old document of Microsoft Office", f"{EXTRACT}, or {SHEET}")),
    (b"%PDF-", Kind("a PDF document", f"{EXTRACT}: pdftotext FILE NEW")),
    (b"PAR1", Kind("a Parquet table", "give it as data.train.path with a name in .parquet, or as --pairs")),
    (b"\x89PNG", Kind("a PNG picture", SIGNAL)),
    (b"\xff\xd8\xff", Kind("a JPEG picture", SIGNAL)),
    (b"GIF8", Kind("a GIF picture", SIGNAL)),
    (b"RIFF", Kind("a recording or a picture (RIFF)", SIGNAL)),
    (b"fLaC", Kind("a FLAC recording", SIGNAL)),
    (b"OggS", Kind("an Ogg recording", SIGNAL)),
    (b"ID3", Kind("an MP3 recording", SIGNAL)),
    (b"SQLite format 3", Kind("an SQLite database", "write its rows to a .tsv or .jsonl file")),
    (b"\x93NUMPY", Kind("a NumPy array", "give a text file")),
    (b"\x7fELF", Kind("a program", "give a text file")),
)
OFFICE = (b"[Content_Types].xml", b"xl/", b"word/", b"mimetypeapplication/vnd.oasis.opendocument")
MARKS: tuple[tuple[bytes, str], ...] = (  # UTF-32's mark begins with UTF-16's
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


def binary(head: bytes) -> Kind | None:
    """The kind of a file with the first bytes ``head``, if they are no text in an encoding that keeps ASCII; otherwise
    None. UTF-16 and UTF-32 count as binary: all their lines would be wrong.
    """
    for mark, name in MARKS:
        if head.startswith(mark):
            return _wide(name)
    for magic, kind in MAGIC:
        if head.startswith(magic) and not _is_plain(head):
            if kind.name == "a zip archive" and any(name in head for name in OFFICE):
                return Kind("a document of an office program", f"{EXTRACT}, or {SHEET}")
            return kind
    nulls = head.count(0)
    if 4 * nulls >= len(head) > 0 and len(head) >= 4:
        wide = _without_mark(head)
        return Kind("binary data", "give a text file") if wide is None else _wide(wide)
    controls = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in head)
    if 10 * controls > len(head) and not _is_plain(head):
        return Kind("binary data", "give a text file")
    return None


def _wide(name: str) -> Kind:
    return Kind(f"text in {name}", f"convert it: iconv -f {name} -t UTF-8 FILE > NEW")


def _without_mark(head: bytes) -> str | None:
    """UTF-16 or UTF-32 with its byte order, from the places of the NUL bytes; None if they have another pattern."""
    whole = head[: len(head) // 4 * 4]
    nulls = [sum(byte == 0 for byte in whole[place::4]) * 4 / len(whole) for place in range(4)]
    few, most = 0.05, 0.4
    if min(nulls[1:]) > most and nulls[0] < few:
        return "UTF-32LE"
    if min(nulls[:3]) > most and nulls[3] < few:
        return "UTF-32BE"
    if min(nulls[1::2]) > most and max(nulls[::2]) < few:
        return "UTF-16LE"
    if min(nulls[::2]) > most and max(nulls[1::2]) < few:
        return "UTF-16BE"
    return None


def _is_plain(head: bytes) -> bool:
    """True if the bytes are UTF-8 without NUL. The last character may be cut."""
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.end == len(head) and error.reason == "unexpected end of data" and 0 not in head
    return 0 not in head


# ------------------------------------------------------------- forms of text

MARKUP: tuple[tuple[str, str], ...] = (
    ("<tmx", "TMX, a translation memory in XML"),
    ("<xliff", "XLIFF, a translation in XML"),
    ("<!doctype html", "HTML"),
    ("<html", "HTML"),
    ("<?xml", "XML"),
)


def form(head: bytes) -> Kind | None:
    """The form of a text that is no plain text or tab-separated text, from its first bytes: markup, JSON, or a table
    with commas or semicolons. None for any other text.
    """
    text = head.decode("utf-8-sig", "replace")
    start = text.lstrip()[:2000].lower()
    if start.startswith("<"):
        for mark, name in MARKUP:
            if mark in start:
                if mark == "<tmx":
                    return Kind(name, "give it a name in .tmx, and two languages as data.columns")
                return Kind(name, "write its texts to a .tsv file, a source and a target on each line")
    lines = [line for line in text.split("\n")[:-1] or [text] if line.strip()][:50]
    if lines and all(_is_json(line) for line in lines):
        return Kind(JSON_LINES, "give it a name in .jsonl, and its keys as data.columns")
    if start.startswith(("{\n", "[\n", "[{", "{\r", "[\r")):
        return Kind("a JSON document", "write it as JSON lines: one object on each line (.jsonl)")
    for separator in ",;":
        if "\t" not in text and len(lines) > 1 and _columns(lines, separator) > 1:
            return Kind(
                f"a CSV table, separated by '{separator}'", "give it a name in .csv, and its columns as data.columns"
            )
    return None


def is_table(lines: Sequence[str]) -> bool:
    """True if most of the lines have text before and after their first tab."""
    parts = (line.partition("\t") for line in lines)
    return 2 * sum(bool(source.strip() and rest.strip()) for source, _, rest in parts) > len(lines)


def _is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _columns(lines: list[str], separator: str) -> int:
    """The number of columns that all lines have; 0 if it differs. A separator inside double quotes separates
    nothing.
    """
    counts = {len(re.sub(r'"[^"]*"', "", line).split(separator)) for line in lines}
    return counts.pop() if len(counts) == 1 else 0


# ----------------------------------------------------------------- encodings


def likely_encoding(line: bytes) -> tuple[str, str]:
    """The most probable encoding of bytes that are not UTF-8, by iconv's name, and the bytes as text in it.

    A guess from few bytes may be wrong, so a message must show the text too.
    """
    in_runs = sum(len(run) for run in re.findall(rb"[\x80-\xff]{2,}", line))
    apart = 2 * in_runs < sum(byte > 127 for byte in line)  # letters with accents stand between ASCII letters
    for name, apart_too, typical in TYPICAL:
        try:
            text = line.decode(name)
        except UnicodeDecodeError:
            continue
        if (apart_too or not apart) and typical(text, [each for each in text if ord(each) > 127]):
            return name, text
    return WESTERN, line.decode(WESTERN, "replace")


def _mostly(pattern: str) -> Typical:
    """A test that most characters beyond ASCII match ``pattern``. No capital follows a small letter, and no ASCII
    letter stands beside such a character in words of lower case.
    """
    character = re.compile(pattern)

    def typical(text: str, beyond: list[str]) -> bool:
        mixed = any(
            one.islower() and other.isalpha() and (other.isupper() or one.isascii() != other.isascii())
            for one, other in pairwise(text)
        )
        return not mixed and sum(character.match(each) is not None for each in beyond) > 0.6 * len(beyond)

    return typical


def _common_hanzi(encoding: str, least: int, most: int) -> Typical:
    """A test that most characters beyond ASCII are frequent ones: their first byte is ``least`` to ``most``."""

    def typical(text: str, beyond: list[str]) -> bool:
        return sum(least <= each.encode(encoding)[0] <= most for each in beyond) > 0.6 * len(beyond)

    return typical


def _central_european(text: str, beyond: list[str]) -> bool:
    """True if all are letters, and not all are letters in the Western encoding."""
    western = text.encode("WINDOWS-1250").decode(WESTERN, "replace")
    return all(map(str.isalpha, beyond)) and not all(each.isalpha() for each in western if ord(each) > 127)


WESTERN = "WINDOWS-1252"
TYPICAL: tuple[tuple[str, bool, Typical], ...] = (
    ("SHIFT_JIS", True, _mostly("[\u3040-\u30ff]")),
    ("EUC-JP", False, _mostly("[\u3040-\u30ff]")),
    ("EUC-KR", False, _mostly("[\uac00-\ud7a3]")),
    ("WINDOWS-1251", False, _mostly("[\u0430-\u044f]")),
    ("KOI8-R", False, _mostly("[\u0430-\u044f]")),
    ("WINDOWS-1253", False, _mostly("[\u03ac-\u03ce]")),
    ("GB18030", False, _common_hanzi("GB18030", 0xB0, 0xD7)),
    ("BIG5", False, _common_hanzi("BIG5", 0xA4, 0xC6)),
    ("WINDOWS-1250", True, _central_european),
)
"""Encodings, whether their bytes may stand alone between ASCII letters, and a test that their text passes and the text
of others seldom."""
