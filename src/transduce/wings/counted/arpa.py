"""n-grams as ARPA files, which other toolkits read and write (KenLM, SRILM). Logarithms in files have base 10.

U words of a file, V words of a vocabulary, M n-grams of one order N.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np

from transduce.core.errors import UserError
from transduce.core.files import write_file
from transduce.core.text_files import unpacked
from transduce.wings.counted.ngrams import Level, NGrams, ngrams_of, repeated

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
LONGEST_LINE = 100_000  # bytes
MOST_ORDERS = 100
MISSING = -100.0  # log10 p of <unk> in a file without it, as in KenLM
IMPOSSIBLE = -99.0  # the convention for a probability of 0
AT_A_TIME = 2**16  # n-grams that are written together
LOG10 = math.log(10)
_COUNT = re.compile(rb"ngram\s+(\d{1,9})\s*=\s*(\d{1,18})")


@dataclass(frozen=True)
class Arpa:
    """The content of an ARPA file: its ``words`` [U] in file order, and the n-grams of each order over word indices.
    ``path`` names the file in errors.
    """

    path: Path
    words: tuple[str, ...]
    levels: tuple[Level, ...]

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words in file order, without the begin, the end and the unknown word."""
        return tuple(word for word in self.words if _special(word) is None)

    def ngrams(self, vocabulary: Sequence[str]) -> tuple[NGrams, tuple[int, int]]:
        """The n-grams over the words of a vocabulary [V], whose first word is the unknown one; then come an end and a
        begin (``NGrams``).

        Also returns two counts: of words of the file that the vocabulary lacks, and of words of the vocabulary that the
        file lacks. n-grams with the former are left out. The latter get the probability of the unknown word, without
        history.
        """
        number = {word: index for index, word in enumerate(vocabulary)}
        number |= {UNKNOWN: 0, END: len(vocabulary), BEGIN: len(vocabulary) + 1}
        mapped_U = np.array([number.get(_special(word) or word, -1) for word in self.words])
        W = len(vocabulary) + 2
        unknown = np.flatnonzero(mapped_U == 0)
        log_prob_W = np.full(W, self.levels[0].log_prob[unknown[0]] if len(unknown) else MISSING * LOG10)
        back_off_W = np.zeros(W)
        there_U = mapped_U >= 0
        log_prob_W[mapped_U[there_U]] = self.levels[0].log_prob[there_U]
        back_off_W[mapped_U[there_U]] = self.levels[0].back_off[there_U]
        log_prob_W[-1] = -np.inf  # nothing is followed by a begin
        levels = [Level(np.arange(W, dtype=np.int32)[:, None], log_prob_W, back_off_W)]
        for level in self.levels[1:]:
            rows = mapped_U[level.rows].astype(np.int32)
            keep = (rows >= 0).all(1)
            levels.append(Level(rows[keep], level.log_prob[keep], level.back_off[keep]))
        lacking = W - len(np.unique(mapped_U[there_U])) - (not len(unknown))
        return ngrams_of(levels, W), (int((~there_U).sum()), lacking)


# ---------------------------------------------------------------------- reading


def read(path: Path) -> Arpa:
    """Reads an ARPA file, plain or gzipped.

    Raises UserError, with the line, for a file that is cut off, counts that do not match, an unknown section, a
    probability above 1 or that is no number, and a word or n-gram that occurs twice. Memory grows with the n-grams in
    the file, not with the counts that it declares.
    """
    with unpacked(path.open("rb")) as lines:
        try:
            return _Reader(path, lines).read()
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{path}: a gzipped file that is cut off or damaged ({error}); copy it again") from error


class _Reader:
    """Reads one file line by line. ``number`` is the number of the last line that was read."""

    def __init__(self, path: Path, file: IO[bytes] | BufferedReader) -> None:
        self.path, self.file, self.number = path, file, 0
        self.words = list[str]()
        self.numbers = dict[bytes, int]()  # of each word, as bytes of the file

    def read(self) -> Arpa:
        counts = self._counts()
        levels = list[Level]()
        for order, count in enumerate(counts, 1):
            levels.append(self._level(order, count, last=order == len(counts)))
        if (line := self._next()) != b"\\end\\":
            raise self._error(f"{_shown(line)}: \\end\\ was expected after the {len(counts)}-grams")
        for special in (BEGIN, END):
            if special not in self.words:
                raise UserError(
                    f"{self.path} has no word {special}, which begins or ends a sentence: estimate the model on text "
                    "with sentence ends, or add the word to the file"
                )
        return Arpa(self.path, tuple(self.words), tuple(levels))

    def _counts(self) -> list[int]:
        """The number of n-grams of each order, from the section \\data\\."""
        while (line := self._line()) is not None and line.strip() != b"\\data\\":
            pass  # a comment may stand before the data
        if line is None:
            raise UserError(f"{self.path} is no ARPA file: it has no line \\data\\")
        counts = list[int]()
        while (line := self._next(peek=True)) is not None and not line.startswith(b"\\"):
            found = _COUNT.fullmatch(line)
            if found is None or int(found[1]) != len(counts) + 1 or len(counts) == MOST_ORDERS:
                raise self._error(
                    f"{_shown(line)}: `ngram {len(counts) + 1}=COUNT` was expected, for at most {MOST_ORDERS} orders"
                )
            counts.append(int(found[2]))
            self._peeked = None
        if not counts:
            raise self._error("there are no counts (`ngram 1=COUNT`) after \\data\\")
        return counts

    def _level(self, order: int, count: int, last: bool) -> Level:
        title = b"\\%d-grams:" % order
        if (line := self._next()) != title:
            raise self._error(f"{_shown(line)}: the section {title.decode()} was expected")
        first, rows, numbers, weights = self.number + 1, array("i"), array("d"), array("d")
        while (line := self._line()) is not None and (fields := line.split()) and not line.startswith(b"\\"):
            if len(numbers) == count:
                raise self._error(f"there are more than the {count:,} {order}-grams that \\data\\ declares")
            self._append(fields, order, last, rows, numbers, weights)
        self._peeked = line.strip() if line is not None and line.strip() else None
        if line is None:
            raise UserError(f"{self.path} is cut off after line {self.number:,}, in the {order}-grams; copy it again")
        if len(numbers) < count:
            raise self._error(
                f"there are {len(numbers):,} {order}-grams, and \\data\\ declares {count:,}; is it cut off?"
            )
        level = Level(
            np.frombuffer(rows, np.int32).reshape(-1, order),
            np.frombuffer(numbers, np.float64) * LOG10,
            np.frombuffer(weights, np.float64) * LOG10,
        )
        self._check(level, first, order)
        return level

    def _append(
        self,
        fields: list[bytes],
        order: int,
        last: bool,
        rows: array[int],
        numbers: array[float],
        weights: array[float],
    ) -> None:
        """Adds an n-gram: its log-probability, its words and, if it has one, its back-off weight."""
        extra = len(fields) - order - 1
        if extra not in (0, 1):
            raise self._error(
                f"{_shown(b' '.join(fields))}: a log-probability, {order} words and perhaps a back-off weight were "
                "expected"
            )
        numbers.append(self._float(fields[0]))
        weights.append(self._float(fields[-1]) if extra else 0.0)
        if last and weights[-1]:
            raise self._error(f"the back-off weight {weights[-1]:g} of an n-gram of the highest order, which has none")
        if order == 1:
            rows.append(self._new_word(fields[1]))
            return
        try:
            rows.extend([self.numbers[word] for word in fields[1 : order + 1]])
        except KeyError as error:
            raise self._error(f"the word {_shown(error.args[0])} is not among the 1-grams") from None

    def _new_word(self, word: bytes) -> int:
        try:
            name = word.decode()
        except UnicodeDecodeError:
            raise self._error(f"{_shown(word)} is not UTF-8; convert the file, for example with iconv") from None
        if name == "<pad>":
            raise self._error('the word "<pad>" is the name of a special token, which no text can contain; rename it')
        if word in self.numbers or (_special(name) is not None and _special(name) in self.words):
            raise self._error(f"the word {_shown(word)} occurs twice")
        self.numbers[word] = len(self.words)
        self.words.append(_special(name) or name)
        return len(self.words) - 1

    def _float(self, text: bytes) -> float:
        try:
            return float(text)
        except ValueError:
            raise self._error(f"{_shown(text)}: a number was expected") from None

    def _check(self, level: Level, first: int, order: int) -> None:
        """Raises UserError for numbers that are no logarithms of probabilities, and for n-grams that occur twice."""
        for wrong, numbers, what in (
            (~(level.log_prob <= 0), level.log_prob, "log-probability {}: 0 or less was expected"),
            (~(level.back_off < np.inf), level.back_off, "back-off weight {}: a number was expected"),
        ):
            if wrong.any():
                index = int(wrong.argmax())
                self.number = first + index
                raise self._error(what.format(f"{numbers[index] / LOG10:g}"))
        if order > 1 and (again := repeated(level.rows)) is not None:
            self.number = first + again
            names = " ".join(self.words[word] for word in level.rows[again])
            raise self._error(f"the n-gram {_shown(names.encode())} occurs twice")

    _peeked: bytes | None = None

    def _next(self, peek: bool = False) -> bytes | None:
        """The next line that is not empty, without white space around it. If ``peek`` is True, the next call returns it
        again. Raises UserError at the end of the file.
        """
        line = self._peeked
        while not line:
            following = self._line()
            if following is None:
                raise UserError(f"{self.path} is cut off after line {self.number:,}; copy it again")
            line = following.strip()
        self._peeked = line if peek else None
        return line

    def _line(self) -> bytes | None:
        line = self.file.readline(LONGEST_LINE + 1)
        if not line:
            return None
        self.number += 1
        if len(line) > LONGEST_LINE:
            raise self._error(f"more than {LONGEST_LINE:,} bytes in a line; this is no ARPA file")
        return line

    def _error(self, problem: str) -> UserError:
        return UserError(f"{self.path}:{self.number}: {problem}")


def _special(word: str) -> str | None:
    """The name of a begin, an end or an unknown word, which may be in capitals; None for other words."""
    return word if word in (BEGIN, END, UNKNOWN) else UNKNOWN if word == UNKNOWN.upper() else None


def _shown(text: bytes | None) -> str:
    shown = repr((text or b"").decode(errors="replace"))
    return shown if len(shown) < 60 else f"{shown[:57]}..."


# ---------------------------------------------------------------------- writing


def write(ngrams: NGrams, names: Sequence[str], path: Path) -> None:
    """Writes an ARPA file, gzipped if its name ends with .gz. ``names`` [V] are the words, the unknown one first.

    White space in a word is written as "▁" (a space) or "<U+000A>". Raises UserError if two words then look alike.
    """
    words = [UNKNOWN, *map(written, names[1:]), END, BEGIN]
    if len(set(words)) < len(words):
        alike = next(word for word in words if words.count(word) > 1)
        raise UserError(f"two words of the vocabulary would both be {alike!r} in an ARPA file: use other units")

    def fill(scratch: Path) -> None:
        with scratch.open("wb") as raw:
            if path.suffix != ".gz":
                raw.writelines(line.encode() for line in _text(ngrams, words))
                return
            with gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0, compresslevel=6) as file:
                for line in _text(ngrams, words):
                    file.write(line.encode())

    write_file(path, fill)


def written(word: str) -> str:
    """A word in the form of an ARPA file, whose fields are separated by white space: a space becomes "▁", and a tab or
    a line break "<U+0009>" and the like.
    """
    return re.sub(r"[\t-\r\0]", lambda found: f"<U+{ord(found[0]):04X}>", word.replace(" ", "▁"))


def _text(ngrams: NGrams, words: Sequence[str]) -> Iterator[str]:
    """The text of an ARPA file, in parts of many lines."""
    yield "\\data\\\n" + "".join(f"ngram {n}={count}\n" for n, count in enumerate(ngrams.counts, 1))
    names, bounds = np.array(words, object), ngrams.bounds
    with np.errstate(divide="ignore"):
        log_prob, back_off = (
            (np.log(numbers) / LOG10).clip(min=IMPOSSIBLE) for numbers in (ngrams.probability, ngrams.back_off)
        )
    for n, (first, stop) in enumerate(pairwise(bounds), 1):
        yield f"\n\\{n}-grams:\n"
        for begin in range(first, stop, AT_A_TIME):
            part = slice(begin, min(begin + AT_A_TIME, stop))
            texts = map(" ".join, names[ngrams.rows(part.start, part.stop)].tolist())
            yield "".join(map(_line_of, log_prob[part].tolist(), texts, back_off[part].tolist()))
    yield "\n\\end\\\n"


def _line_of(log_prob: float, text: str, back_off: float) -> str:
    return f"{log_prob:.9g}\t{text}\t{back_off:.9g}\n" if back_off else f"{log_prob:.9g}\t{text}\n"
