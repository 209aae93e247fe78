"""The encoding of a document: by its mark, by its own declaration, or UTF-8."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from pathlib import Path

from transduce.core.contents import binary
from transduce.core.errors import DataError
from transduce.core.text_files import undecodable

MOST = 100 * 2**20  # bytes of a document, and of the unpacked parts of an archive
MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
HEAD = 2048  # bytes that may name the encoding

Encode = Callable[[str], bytes]


def read(path: Path) -> bytes:
    """The content of a file. Raises DataError if it has more than ``MOST`` bytes."""
    with path.open("rb") as file:
        content = file.read(MOST + 1)
    if len(content) > MOST:
        raise DataError(f"{path} has more than {MOST // 2**20} MiB, the most that a document may have: divide it")
    return content


def decoded(
    content: bytes, name: str, declared: re.Pattern[bytes] | None = None, errors: str = "strict"
) -> tuple[str, Encode]:
    """The text of a document, and the function that encodes it again. ``declared`` finds the name of the encoding near
    the beginning. ``errors`` is for letters that the encoding does not have, as for ``str.encode``.

    Raises DataError, which names the line, for bytes that are not in this encoding.
    """
    mark, encoding = next(((mark, each) for mark, each in MARKS if content.startswith(mark)), (b"", ""))
    said = None if encoding or declared is None else declared.search(content[:HEAD])
    if not encoding:
        encoding = "utf-8" if said is None else said[1].decode("ascii", "replace")
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start + len(mark)) + 1
        raise DataError(f"{name}:{line}: {_wrong(error, encoding, name)}") from None
    except LookupError:
        raise DataError(
            f"{name} says that its encoding is {encoding!r}, which nobody knows: save it as UTF-8"
        ) from None

    def encode(text: str) -> bytes:
        try:
            return mark + text.encode(encoding, errors)
        except UnicodeEncodeError as error:
            letter = error.object[error.start]
            raise DataError(
                f"{name} is in {encoding}, which has no {letter!r}, and a translation has it: save the file as UTF-8"
            ) from None

    return text, encode


def _wrong(error: UnicodeDecodeError, encoding: str, name: str) -> str:
    if encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
        return f"byte 0x{error.object[error.start]:02x} is not {encoding}, which the file says it is"
    if (kind := binary(error.object[:HEAD])) is not None:
        return f"this is {kind.name}, and text was expected"
    start = error.object.rfind(b"\n", 0, error.start) + 1
    line = error.object[start : error.end + 40]
    short = UnicodeDecodeError("utf-8", line, error.start - start, error.end - start, error.reason)
    return f"{undecodable(short)}; convert the file: iconv -f ENCODING -t UTF-8 {name} > NEW"
