"""Files of word vectors: word2vec text and binary, GloVe, and fastText .vec and .bin.

A reader keeps only the requested vectors, so its memory grows with their number and not with the file. The exception is
fastText's .bin, which the library gensim reads as a whole.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Literal

import numpy as np
from numpy.typing import NDArray

from transduce.core.errors import MissingPackageError, UserError
from transduce.core.files import write_file
from transduce.core.finite import first_wrong
from transduce.core.text_files import unpacked
from transduce.data import corpora
from transduce.wings.vectors import fasttext_file
from transduce.wings.vectors.table import Floats, Vectors

Format = Literal["text", "binary", "fasttext"]
FASTTEXT_MAGIC = struct.pack("<i", 793712314)  # the first bytes of fastText's own format
WIDEST = 10_000  # largest number of features, so that a damaged header does not claim all memory
LONGEST_WORD = 10_000  # bytes of a word in a binary file
GENSIM = "pip install 'transduce[vectors]', with Python 3.13 or earlier: gensim has no release for later ones"
HEADER = re.compile(rb"(\d{1,18}) (\d{1,18})\s*")


def load(
    path: str | Path,
    words: Collection[str] | None = None,
    limit: int | None = None,
    first_of_two: bool = False,
) -> Vectors:
    """The word vectors of a file. A name that ends with .gz is decompressed.

    The content tells the format. fastText's .bin has its own first bytes. In word2vec's binary format, the bytes after
    the header are no numbers. Otherwise the file is text, with a header "V D" (word2vec, fastText .vec) or without one
    (GloVe). ``words`` keeps only these words, in any case; None keeps all. ``limit`` keeps only the first words of the
    file, at most this number. A word that is not UTF-8 is left out. If ``first_of_two`` is True, the first vector of a
    word that occurs twice counts; by default it is an error.

    Raises UserError if a vector has another width than the first one or a value that is not a finite number, and if a
    word occurs twice. Raises it, too, if the file is empty, ends too early or has none of these formats. The message
    names the line or the number of the entry. Raises MissingPackageError if fastText's .bin is read without gensim.
    """
    path = Path(path).expanduser()
    if limit is not None and limit < 1:
        raise UserError(f"limit = {limit}: at least one word was expected")
    kind = format_of(path)
    if kind == "fasttext":
        return _fasttext(path, words, limit)
    entries = _text(path) if kind == "text" else _binary(path)
    return _collected(path, entries, words, limit, first_of_two)


def format_of(path: Path) -> Format:
    """The format of a file, from its first bytes. Raises UserError if it is missing or empty."""
    try:
        with _open(path) as file:
            start = file.read(1 << 16)
    except FileNotFoundError:
        raise UserError(f"no such file: {path}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    if not start.strip():
        raise UserError(f"{path} is empty: a file of word vectors was expected")
    if start.startswith(FASTTEXT_MAGIC):
        return "fasttext"
    first, _, rest = start.partition(b"\n")
    header = HEADER.fullmatch(first)
    if header is None:
        return "text"
    values = rest.partition(b"\n")[0].rstrip().split(b" ")[1:]
    return "text" if len(values) >= 1 and all(_is_number(value) for value in values[: int(header[2])]) else "binary"


def save(vectors: Vectors, path: str | Path) -> None:
    """Writes the vectors in word2vec's text format, or in its binary format if the name ends with .bin.

    A text file has the shortest decimal numbers that give exactly the same float32 numbers. Subwords are not written.
    Raises UserError if a word has a space or a line break, which these formats cannot hold.
    """
    path = Path(path)
    for word in vectors.words:
        if not word or re.search(r"[ \n\r]", word):
            raise UserError(f"the word {word!r} has white space, and a file of vectors cannot hold it: leave it out")
    matrix_VD = np.ascontiguousarray(vectors.matrix_VD, dtype="<f4")
    binary = path.suffix == ".bin"

    def fill(scratch: Path) -> None:
        with scratch.open("wb") as file:
            file.write(f"{len(vectors)} {vectors.width}\n".encode())
            for word, row_D in zip(vectors.words, matrix_VD, strict=True):
                values = row_D.tobytes() if binary else " ".join(map(str, row_D)).encode()
                file.write(word.encode() + b" " + values + b"\n")

    write_file(path, fill)


# ------------------------------------------------------------------- readers

Entry = tuple[str, bytes, "Floats | None"]  # the place for messages, the word, and its vector [D] if it could be read


def _text(path: Path) -> Iterator[tuple[str, bytes, list[bytes]]]:
    """Yields (place, word, values as text) for each line of a text file. The last D fields are the values, so a word
    may have spaces.
    """
    width = count = None
    number = found = 0
    for number, line in enumerate(corpora.lines(path), 1):
        fields = line.rstrip().split(b" ")
        if number == 1 and (header := HEADER.fullmatch(line)):
            count, width = int(header[1]), int(header[2])
            _check_width(path, width)
            continue
        if not fields[0] and len(fields) == 1:
            continue
        if width is None:
            width = len(fields) - 1
            _check_width(path, width)
        values = fields[-width:] if len(fields) > width else fields[1:]
        word = b" ".join(fields[: len(fields) - len(values)])
        if len(values) != width or (b" " in word and _is_number(word.rpartition(b" ")[2])):
            raise UserError(
                f"{path}:{number}: {_shown(fields[0])} has {len(fields) - 1} numbers, {width} expected as "
                f"{'the header says' if count is not None else 'in the first line'}; all vectors of a file have one "
                "width"
            )
        found += 1
        yield f"{path}:{number}", word, values
    if count is not None and found < count:
        raise UserError(f"{path} breaks off: its header promises {count} vectors, and it has {found}; fetch it again")


def _binary(path: Path) -> Iterator[tuple[str, bytes, Floats]]:
    """Yields (place, word, vector [D]) for each entry of a word2vec binary file."""
    try:
        with _open(path) as opened:
            file = io.BufferedReader(opened, 1 << 20)  # type: ignore[type-var]
            header = HEADER.fullmatch(file.readline(64))
            assert header is not None  # format_of has checked it
            count, width = int(header[1]), int(header[2])
            _check_width(path, width)
            for number in range(1, count + 1):
                word = _word(file)
                values = file.read(4 * width)
                if len(values) < 4 * width:
                    raise UserError(
                        f"{path} breaks off: its header promises {count} vectors, and it has {number - 1}; "
                        "fetch it again"
                    )
                yield f"{path}, entry {number}", word, np.frombuffer(values, "<f4")
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path}: {error}") from error


def _word(file: IO[bytes]) -> bytes:
    """The bytes before the next space; a line break before the word is left out."""
    word = bytearray()
    while (byte := file.read(1)) not in (b" ", b"") and len(word) < LONGEST_WORD:
        word += byte
    return bytes(word).lstrip(b"\n")


def _collected(
    path: Path,
    entries: Iterable[tuple[str, bytes, list[bytes] | NDArray[np.float32]]],
    words: Collection[str] | None,
    limit: int | None,
    first: bool,
) -> Vectors:
    """The requested entries as ``Vectors``. ``first`` is ``first_of_two`` of ``load``."""
    wanted = None if words is None else {word.upper() for word in words}
    rows, places = bytearray(), dict[str, str]()
    for place, raw, values in entries:
        try:
            word = raw.decode()
        except UnicodeDecodeError:
            continue
        if wanted is not None and word.upper() not in wanted:
            continue
        if word in places:
            if first:
                continue
            raise UserError(
                f"{place}: the word {word!r} has two vectors, the first at {places[word]}; remove one of them, or take "
                "the first (--first-of-two)"
            )
        places[word] = place
        rows += _vector(place, word, values).tobytes()
        if limit is not None and len(places) == limit:
            break
    if not places:
        raise UserError(f"{path} has none of the words that are wanted: give vectors of the same language and units")
    matrix_VD = np.frombuffer(rows, "<f4").reshape(len(places), -1)
    return Vectors(tuple(places), matrix_VD, name=str(path))


def _vector(place: str, word: str, values: list[bytes] | NDArray[np.float32]) -> Floats:
    try:
        row_D = np.asarray(values, dtype="S") if isinstance(values, list) else values
        row_D = row_D.astype("<f4")
    except ValueError:
        bad = next(value for value in values if not _is_number(value))
        raise UserError(f"{place}: {word!r} has {_shown(bad)} where a number was expected") from None
    if (wrong := first_wrong(row_D)) is not None:
        raise UserError(
            f"{place}: the vector of {word!r} has the value {row_D[wrong]:g}, which is not finite or too large"
        )
    return row_D


def _fasttext(path: Path, words: Collection[str] | None, limit: int | None) -> Vectors:
    """The vectors of a fastText .bin file, with its subwords. The whole file is in memory."""
    if path.suffix == ".gz":
        raise UserError(f"{path}: decompress it first, because gensim reads a fastText .bin file as it is")
    library = fasttext_library()
    fasttext_file.check(path)
    try:
        keyed = library.load_facebook_vectors(str(path))
    except Exception as error:  # gensim raises anything for a file that contradicts itself
        raise UserError(f"{path} cannot be read by gensim ({type(error).__name__}: {error}); fetch it again") from error
    every = list(keyed.index_to_key)[:limit]
    wanted = None if words is None else {word.upper() for word in words}
    kept = every if wanted is None else [word for word in every if word.upper() in wanted]
    if not kept:
        raise UserError(f"{path} has none of the words that are wanted: give vectors of the same language and units")
    matrix_VD = np.stack([keyed.get_vector(word) for word in kept])
    return Vectors(tuple(kept), matrix_VD, keyed.get_vector, str(path))


def fasttext_library() -> ModuleType:
    """gensim's module of fastText. Raises MissingPackageError, with the command to install it, if it is missing."""
    try:
        return import_module("gensim.models.fasttext")
    except ImportError as error:
        raise MissingPackageError(f"fastText's .bin needs gensim: {GENSIM}") from error


# --------------------------------------------------------------------- parts


def _open(path: Path) -> IO[bytes]:
    return unpacked(path.open("rb"), path.suffix.lower() == ".gz")


def _check_width(path: Path, width: int) -> None:
    if not 1 <= width <= WIDEST:
        raise UserError(
            f"{path}: vectors of width {width}; 1 to {WIDEST} numbers after each word were expected, separated by one "
            "space"
        )


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(raw: bytes) -> str:
    return repr(raw[:40].decode(errors="replace"))
