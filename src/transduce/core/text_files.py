"""Text that comes from outside, the same for all commands: UTF-8, plain or gzipped, in lines that end with "\\n".

A byte order mark is dropped, and "\\r\\n" ends a line too. U+2028, form feeds and similar characters are text. Anything
else than UTF-8 is an error that names its place and a command that converts it. A reader that leaves lines out, or
replaces bytes, reads ``bounded_lines`` and says so itself.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from transduce.core.contents import HEAD, JSON_LINES, PLAIN, TABLE, Kind, binary, form, likely_encoding
from transduce.core.errors import DataError

LONGEST_LINE = 1_000_000  # bytes; the default of data.lines.max_bytes
GZIP = b"\x1f\x8b"
STDIN = "standard input"
NAMED = ((JSON_LINES, ".json"), ("a CSV table", ".csv"), ("TMX", ".tmx"))  # forms of data that have the right name
NEAR = 30  # bytes around a wrong one that a message shows


# --------------------------------------------------------------------- bytes


class _Unzipped(gzip.GzipFile):
    """Reads the gzip data of an open file, and closes both together."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._zipped = file

    def close(self) -> None:
        super().close()
        self._zipped.close()


def unpacked(file: IO[bytes], zipped: bool = False) -> IO[bytes]:
    """The content of an open file. It is decompressed if ``zipped`` is True, or if it begins as gzip data do.

    The returned file has the method ``peek``. Its ``close`` also closes ``file``.
    """
    buffered: Any = file if hasattr(file, "peek") else io.BufferedReader(file, HEAD)
    if zipped or buffered.peek(HEAD)[:2] == GZIP:
        return _Unzipped(buffered)  # type: ignore[return-value]
    return buffered  # type: ignore[no-any-return]


def head(file: Any) -> bytes:
    """The first bytes of what ``unpacked`` returns, at most ``HEAD``. They stay unread."""
    return bytes(file.peek(HEAD)[:HEAD])


def bounded_lines(file: IO[bytes], name: str, longest: int = LONGEST_LINE, zipped: bool = False) -> Iterator[bytes]:
    """Yields the lines of an open file, as bytes without line ends and without the file's byte order mark. They need
    not be UTF-8. gzip data are decompressed: those that begin as such, and all if ``zipped`` is True.

    Holds at most one line in memory. Raises DataError at a line of more than ``longest`` bytes, not counting its line
    end, before the rest of it is read. Raises it, too, for content that is no text (a picture, UTF-16), for lines that
    end with "\\r" alone, and for damaged gzip data. ``name`` stands for the file in messages.
    """
    number = 0
    try:
        content = unpacked(file, zipped)
        _check_head(head(content), name)
        while line := content.readline(longest + len(codecs.BOM_UTF8) + len(b"\r\n")):
            number += 1
            text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            text = text.removesuffix(b"\n").removesuffix(b"\r")
            if len(text) > longest:
                raise _too_long(name, number, longest)
            yield text
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{name}: the gzip data break off or are damaged after line {number} ({error}): fetch it again"
        ) from error


def _check_head(start: bytes, name: str) -> None:
    kind = binary(start)
    if kind is None and b"\r" in start.rstrip(b"\r") and b"\n" not in start:
        kind = Kind("text whose lines end with a carriage return alone", r"convert it: tr '\r' '\n' < FILE > NEW")
    if kind is not None:
        raise DataError(f"{name} is {kind.name}, and UTF-8 text was expected: {_of(name, kind.remedy)}")


def _of(name: str, remedy: str) -> str:
    """The remedy with the name of the file in its command. Standard input and gzip data are piped through it."""
    if name == STDIN:
        return remedy.replace(" < FILE", "").replace(" FILE", "").replace(" > NEW", "")
    if name.lower().endswith(".gz"):
        return remedy.replace(": ", f": gzip -dc {name} | ", 1).replace(" < FILE", "").replace(" FILE", "")
    return remedy.replace("FILE", name)


def _too_long(name: str, number: int, longest: int) -> DataError:
    return DataError(
        f"{name}:{number}: the line has more than {longest:,} bytes; divide it into several lines, remove it, or raise "
        "the limit, data.lines.max_bytes"
    )


# ---------------------------------------------------------------------- text


def texts(lines: Iterator[bytes], name: str) -> Iterator[str]:
    """Yields the ``lines`` of the file ``name`` as text. Raises DataError at the first one that is not UTF-8, with its
    number, the offset of the byte, and the probable encoding.
    """
    plain = True  # nothing but ASCII until now
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{name}:{number}: {undecodable(error)}; {_remedy(error, name, plain)}") from error
        plain = plain and text.isascii()
        yield text


def undecodable(error: UnicodeDecodeError) -> str:
    """Describes the first byte that is not UTF-8, and shows the text around it in the encoding that it may have."""
    encoding, _ = likely_encoding(error.object)
    near = error.object[max(0, error.start - NEAR) : error.start + NEAR].decode(encoding, "ignore")
    return f"byte 0x{error.object[error.start]:02x} at {error.start} is not UTF-8; as {encoding} the text is {near!r}"


def _remedy(error: UnicodeDecodeError, name: str, plain: bool) -> str:
    encoding, _ = likely_encoding(error.object)
    if plain and error.object.decode("utf-8", "ignore").isascii():
        return _of(name, f"convert it: iconv -f {encoding} -t UTF-8 FILE > NEW")
    return _of(name, "the rest is UTF-8, so mend this line, or drop such bytes: iconv -c -f UTF-8 -t UTF-8 FILE > NEW")


def kind_of(path: Path) -> Kind:
    """The kind of a file or folder, from its content, with a remedy for a user who wants to train on it."""
    if path.is_dir():
        if (path / "config.toml").is_file():
            return Kind("a run directory", f"give its settings, {path / 'config.toml'}, or a recipe to train")
        return Kind("a folder", "give a file in it, or a pattern as data.train.path, such as 'FOLDER/*.tsv'")
    with reading(path) as content:
        start = head(content)
    found = binary(start) or form(start)
    as_data = f"transduce train RECIPE --set data.train.path={path}"
    suffixes = "".join(path.suffixes).lower()
    if found is not None and any(found.name.startswith(name) and suffix in suffixes for name, suffix in NAMED):
        return Kind(found.name, as_data)
    if found is not None:
        return Kind(found.name, found.remedy.replace("FILE", str(path)))
    if b"\t" in start:
        return Kind(TABLE, as_data)
    return Kind(
        PLAIN,
        f"transduce train RECIPE --set data.train.source={path} and --set data.train.target=OTHER, line by "
        "line, or for a language model --set data.train.path=FILE.txt",
    )


# --------------------------------------------------------------- small files


def read_text(path: Path) -> str:
    """The text of a file of this package or of a user, as a whole. Raises DataError if it is not UTF-8 text, and
    OSError if it cannot be read.
    """
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{line}: byte 0x{error.object[error.start]:02x} is not UTF-8: the file is damaged or of another "
            "kind; take a copy of it, or save it as UTF-8"
        ) from error


def read_json(path: Path) -> Any:
    """The value in a JSON file. Raises DataError if the file is not JSON in UTF-8, and OSError if it cannot be read."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of too many digits
        raise DataError(f"{path} is not JSON ({error}): the file is damaged; take a copy of it") from error


@contextmanager
def reading(path: Path) -> Iterator[IO[bytes]]:
    """A context with the content of a file: decompressed, if it is gzip data. Raises DataError if these are damaged or
    break off.
    """
    try:
        with path.open("rb", buffering=HEAD) as file:
            yield unpacked(file, path.suffix.lower() == ".gz")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: the gzip data break off or are damaged ({error}): fetch it again") from error
