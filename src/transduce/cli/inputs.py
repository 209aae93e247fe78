"""The inputs of commands: lines, pairs of source and target, and examples to evaluate on."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from stat import S_ISREG
from typing import IO, TYPE_CHECKING, TypeVar, cast

from transduce.core.errors import UserError
from transduce.core.pipes import Pipe

if TYPE_CHECKING:
    from transduce.answers.answer import ReadsLines
    from transduce.core.types import Example
    from transduce.data.corpora import ColumnNames, Files

log = logging.getLogger("transduce")
LINKS = re.compile(r" *(\d+[-p]\d+ *)*")
FIRST = 100  # lines of a file that tell whether it is a table
T = TypeVar("T")


def lines(files: Sequence[Path] | None, longest: int | None = None) -> Iterator[str]:
    """The lines of the files in order, or of standard input if there are none.

    Raises DataError for text that is not UTF-8, and for a line of more than ``longest`` bytes (default
    ``corpora.LONGEST_LINE``). An error in a file is raised before the first line, and any other error at its line.
    """
    return checked_first(files, lambda: (line for _, line in _numbered_lines(files, longest)))


def checked_first(
    files: Sequence[Path] | None, read: Callable[[], Iterator[T]], check: Callable[[], Iterator[object]] | None = None
) -> Iterator[T]:
    """Yields what ``read`` reads of the files. Before that, all is read once, by ``check`` if it is given. So a mistake
    in any line is raised before the first line is answered. A pipe or standard input (no files) can be read only once.
    """
    regular = [S_ISREG(path.stat().st_mode) for path in files or ()]  # also raises for a missing file
    if regular and all(regular):
        for _ in (check or read)():
            pass
    yield from read()


def sources(files: Sequence[Path] | None, transducer: ReadsLines) -> Iterator[str]:
    """The lines of the files, or of standard input, as sources of a model.

    Raises UserError for rows of a table, if the model's sources have one column: the targets would be read as part of
    the sources. Warns of markup and JSON. Raises DataError as ``lines`` does.
    """
    from transduce.core.types import SPECIALS

    found = lines(files, longest_line(transducer))
    for path in files or []:
        if path.is_file():
            _warn_of_form(path)
    tokenizer = transducer.source_tokenizer
    if source_columns(transducer) > 1 or "\t" in tokenizer.entries or len(tokenizer) <= len(SPECIALS):
        return found
    return _checked_columns(files, found)


def _warn_of_form(path: Path) -> None:
    from transduce.core.contents import form
    from transduce.core.text_files import head, reading

    with reading(path) as content:
        kind = form(head(content))
    if kind is not None and (not kind.name.startswith("a CSV") or ".csv" in path.name.lower()):
        log.warning(f"{path}: its content is {kind.name}, and each of its lines is read as a source; {kind.remedy}")


def _checked_columns(files: Sequence[Path] | None, found: Iterator[str]) -> Iterator[str]:
    """The lines that are ``found``. Raises UserError if most of the first lines of a file are rows, or if the first
    line of standard input is one.
    """
    from transduce.core.contents import is_table
    from transduce.data import corpora

    for path in files or []:
        if S_ISREG(path.stat().st_mode) and is_table(list(islice(corpora.text_lines(path), FIRST))):
            raise _table(str(path))
    line = next(found, None)
    if line is None:
        return
    if not files and is_table([line]):
        raise _table("standard input")
    yield from chain([line], found)


def _table(name: str) -> UserError:
    cut = "cut -f1" if name == "standard input" else f"cut -f1 {name}"
    return UserError(
        f"{name} is a table with tabs, and each line would be a source of this model, all columns together: give the "
        f"column of the sources alone ({cut}), or replace the tabs by spaces (tr '\\t' ' ')"
    )


def longest_line(transducer: ReadsLines) -> int | None:
    """The most bytes that a line of input may have: ``data.lines.max_bytes`` of the run's settings, or None if the run
    was trained before that setting existed.
    """
    limit: int | None = transducer.settings.get("data", {}).get("lines", {}).get("max_bytes")
    return limit


def pairs(
    files: Sequence[Path] | None,
    source: Path | None = None,
    target: Path | None = None,
    conditional: bool = True,
    signal: bool = False,
    columns: int = 1,
    longest: int | None = None,
    links: bool = False,
) -> Iterator[tuple[str, str]]:
    """Pairs (source, target): line by line from the files ``source`` and ``target``, otherwise from the rows of
    ``files``.

    ``files`` are TSV files; without any, the rows come from standard input. The last column of a row is the target. The
    columns before it, at most ``columns``, are the source, with the tabs between them. If ``columns`` is 1, further
    columns are not read, and a warning says so; with ``links``, a third column of links such as 0-0 needs no warning.
    If ``signal`` is True, a line of ``source`` is a path relative to that file's folder. For a language model
    (``conditional`` is False), every line is a target and the source is "".

    Raises UserError if ``files`` are given with ``source`` or ``target``, if one side is missing, or for a row with a
    wrong number of columns. Raises DataError as ``lines`` does. All of a file is checked before its first row.
    """
    from transduce.data.corpora import Files

    check_sides(source is not None, target is not None, conditional)
    if target is None:
        if not conditional:
            return (("", line) for line in lines(files, longest))

        def read(told: bool = True) -> Iterator[tuple[str, str]]:
            return _tab_separated(_numbered_lines(files, longest), columns, links, told)

        return checked_first(files, read, lambda: read(told=False))
    if files:
        raise UserError(
            f"{files[0]} would have both sides, and --source or --target are given: leave out one or the other"
        )
    given = Files(source=None if source is None else str(source), target=str(target))
    found = examples_of(given, False, signal, longest=longest)
    return ((example.source, example.references[0]) for example in found)


def rows(files: Sequence[Path], wanted: int) -> Iterator[list[str]]:
    """The columns of each line of TSV files. Raises UserError, which names the place, for a row with another number of
    columns than ``wanted``.
    """

    def read() -> Iterator[list[str]]:
        for place, line in _numbered_lines(files):
            columns = line.split("\t")
            if len(columns) != wanted:
                noun = "column" if len(columns) == 1 else "columns"
                raise UserError(f"{place} has {len(columns)} {noun}, separated by tabs: expected {wanted}")
            yield columns

    return checked_first(files, read)


def source_columns(transducer: ReadsLines) -> int:
    """The most columns that a source may have in a row: labels or features, and the text after them."""
    named = transducer.settings.get("data", {}).get("columns", {}).get("labels", ())
    return max(transducer.source_tokenizer.columns, len(named) + 1)


def check_sides(source: bool, target: bool, conditional: bool) -> None:
    """Raises UserError unless the given files suit the model. ``source`` and ``target`` say whether a file of that side
    is given.

    A language model (``conditional`` is False) must have no source. Any other model needs both sides or neither.
    """
    if source and not conditional:
        raise UserError("a language model has no source; give --target alone")
    if (source != target) and conditional:
        raise UserError("--source and --target go together: give both or neither")


def targets_only(files: Files, columns: ColumnNames | None = None) -> bool:
    """True if the files have no source, or if ``columns`` names no source. ``columns`` is for a single file with both
    sides.
    """
    return files.targets_only or (files.path is not None and columns is not None and not columns.sources)


def examples_of(
    files: Files, grouped: bool, signal: bool = False, columns: ColumnNames | None = None, longest: int | None = None
) -> list[Example]:
    """Reads examples from files: one for every line or, if ``grouped`` is True, one for each source with all its
    targets as references.

    If ``signal`` is True, a source is a path relative to the folder of its file, and becomes relative to the working
    directory. ``columns`` names the columns of a single file with both sides. No line is left out: one that is not
    UTF-8, is malformed or has more than ``longest`` bytes (default ``corpora.LONGEST_LINE``) raises DataError.
    """
    from transduce.data.corpora import LONGEST_LINE
    from transduce.data.notices import notices
    from transduce.data.preparation import examples
    from transduce.data.settings import Data, Lines, Units
    from transduce.data.tokenizers.text import Characters

    # If a line were left out, later answers would be compared with the wrong lines.
    lines = Lines(undecodable="error", malformed="error", max_bytes=longest or LONGEST_LINE)
    units = Units(source=None if targets_only(files, columns) else Characters(), target=Characters())
    data = Data(units=units, test=files, columns=columns, lines=lines, group_references=grouped)
    for notice in notices(data, None, files):
        log.warning(notice)
    found = examples(data, "test", Path("."))
    return [replace(each, source=files.located(each.source)) for each in found] if signal else found


def _standard_input() -> IO[bytes]:
    if sys.stdin is None:  # it was closed: <&-
        raise UserError("there is nothing to read: standard input is closed, and no file is named; give one of them")
    return cast("IO[bytes]", _pipe()) or sys.stdin.buffer


def _pipe() -> Pipe | None:
    """Standard input, if its lines may come slowly: a pipe, a terminal or a connection. None if it is a file."""
    try:
        number = -1 if sys.stdin is None else sys.stdin.fileno()
        return None if S_ISREG(os.fstat(number).st_mode) else _opened(number)
    except OSError:  # it has no descriptor
        return None


@cache
def _opened(number: int) -> Pipe:
    """One object for all readers of a descriptor, because it holds the bytes that have been read ahead."""
    return Pipe(number)


def piped(files: Sequence[Path] | None) -> bool:
    """True if the input is standard input, and this is no file."""
    return not files and _pipe() is not None


def arriving(items: Iterable[T], pause: float) -> Iterable[T]:
    """The ``items`` that are read from standard input, a pipe: a window of them ends when nothing comes for ``pause``
    seconds.
    """
    from transduce.answers.paused_input import Arrivals

    pipe = _pipe()
    return items if pipe is None else Arrivals(items, partial(pipe.ready, pause))


def _numbered_lines(files: Sequence[Path] | None, longest: int | None = None) -> Iterator[tuple[str, str]]:
    """Pairs (place, line). The place is for messages: the file and the number of the line, counted from 1."""
    from transduce.core.text_files import STDIN, bounded_lines, texts
    from transduce.data import corpora

    longest = longest or corpora.LONGEST_LINE
    if files:
        each = [(f"{path}, line", corpora.text_lines(path, longest)) for path in files]
    else:
        each = [("line", texts(bounded_lines(_standard_input(), STDIN, longest), STDIN))]
    for where, found in each:
        for number, line in enumerate(found, 1):
            yield f"{where} {number}", line


def _tab_separated(
    numbered: Iterable[tuple[str, str]], columns: int, links: bool, told: bool
) -> Iterator[tuple[str, str]]:
    """Pairs (source, target) from pairs (place, line). The last column is the target, the 1 to ``columns`` before it
    the source. If ``columns`` is 1, columns after the first two are not read, as in training. If ``told`` is True, a
    warning says so once.

    Raises UserError, which names the place, for a row with one column, and for one with too many if ``columns`` is more
    than 1, because it is unclear which ones are labels.
    """
    before = "a source" if columns == 1 else f"a source, labels included, of at most {columns} columns"
    further = not told
    for place, line in numbered:
        fields = line.split("\t")
        if len(fields) == 1:
            raise UserError(f"{place} has one column: expected {before}, a tab and a target")
        if len(fields) > columns + 1 > 2:
            raise UserError(
                f"{place} has {len(fields)} columns: expected {before}, a tab and a target; cut the others off, or "
                "where sources have tabs in them give --source and --target"
            )
        if len(fields) > columns + 1 and not further and not (links and LINKS.fullmatch("\t".join(fields[2:]))):
            further = True
            log.warning(
                f"{place} has {len(fields)} columns: only the first two are read, a source and a target, here and in "
                "later lines; if texts have tabs in them, give --source and --target"
            )
        *source, target = fields[: columns + 1]
        yield "\t".join(source), target
