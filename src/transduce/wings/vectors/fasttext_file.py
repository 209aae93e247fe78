"""The structure of fastText's own format, which is checked before gensim reads the file.

gensim trusts the sizes in a file. A damaged one would make it wait for ever, claim all memory, or raise any error.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Final

import numpy as np

from transduce.core.errors import UserError
from transduce.core.finite import first_wrong

HEADER: Final = struct.Struct("<2i12id")  # magic, version, twelve settings and t
SIZES: Final = struct.Struct("<3i2q")  # entries, words, labels, tokens, pruned entries
ENTRY: Final = struct.Struct("<qb")  # after each word: its count and its type
MATRIX: Final = struct.Struct("<?2q")  # quantised, rows, columns
WIDEST: Final = 10_000  # most features of a vector
LONGEST_WORD: Final = 10_000  # bytes
LONGEST_NGRAM: Final = 100  # letters of a subword
BLOCK: Final = 1 << 22  # numbers that are checked at a time


def check(path: Path) -> None:
    """Raises UserError unless the file at ``path`` is a whole, unsupervised, unquantised fastText model with finite
    vectors. The message names the place in bytes. Reads the file once, and holds none of it.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            _check(path, data)
        except struct.error:
            raise UserError(f"{path} breaks off after {len(data):,} bytes; fetch it again") from None


def _check(path: Path, data: mmap.mmap) -> None:
    settings = HEADER.unpack_from(data)
    width, bucket, shortest, longest = settings[2], settings[10], settings[11], settings[12]
    if not (1 <= width <= WIDEST and bucket >= 0 and shortest >= 0 and longest <= LONGEST_NGRAM):
        raise UserError(
            f"{path} is damaged: its header has vectors of width {width}, {bucket} buckets and subwords of {shortest} "
            f"to {longest} letters; fetch it again"
        )
    entries, words, labels, _, pruned = SIZES.unpack_from(data, HEADER.size)
    if labels:
        raise UserError(f"{path} is a classifier of fastText with {labels} labels: give a model of word vectors")
    if not 1 <= entries == words:
        raise UserError(f"{path} is damaged: it has {entries} entries and {words} words; fetch it again")
    place = _after_words(path, data, HEADER.size + SIZES.size, words) + 8 * max(0, pruned)
    quantised, rows, columns = MATRIX.unpack_from(data, place)
    if quantised:
        raise UserError(f"{path} is a quantised model of fastText, which gensim does not read: give the .bin file")
    if (rows, columns) != (words + bucket, width):
        raise UserError(
            f"{path} is damaged: {rows} vectors of width {columns} at byte {place:,}, and its header says "
            f"{words + bucket} of {width}; fetch it again"
        )
    _check_numbers(path, data, place + MATRIX.size, rows * columns)


def _after_words(path: Path, data: mmap.mmap, place: int, words: int) -> int:
    """The place after the list of words."""
    for number in range(words):
        end = data.find(b"\0", place, place + LONGEST_WORD)
        if end < 0:
            raise UserError(
                f"{path} is damaged or breaks off: word {number + 1:,} of {words:,}, at byte {place:,}, has no end; "
                "fetch it again"
            )
        place = end + 1 + ENTRY.size
    return place


def _check_numbers(path: Path, data: mmap.mmap, place: int, count: int) -> None:
    """Raises UserError if the file ends before ``count`` numbers, or if one of them is not finite."""
    if len(data) < place + 4 * count:
        raise UserError(
            f"{path} breaks off after {len(data):,} bytes: {place + 4 * count:,} were expected; fetch it again"
        )
    for start in range(0, count, BLOCK):
        block = np.frombuffer(data[place + 4 * start : place + 4 * min(count, start + BLOCK)], "<f4")
        if (wrong := first_wrong(block)) is not None:
            raise UserError(
                f"{path} has the value {block[wrong]:g} at byte {place + 4 * (start + wrong):,}, which is not finite "
                "or too large; fetch it again"
            )
