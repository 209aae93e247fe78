"""The inputs of commands: lines, pairs of source and target, and examples to evaluate on."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from transduce.errors import UserError

if TYPE_CHECKING:
    from transduce.data.corpora import ColumnNames, Files
    from transduce.transducer import Transducer
    from transduce.types import Example


def lines(files: Sequence[Path] | None, longest: int | None = None) -> Iterator[str]:
    """The lines of the files, or of standard input. Bytes that are not UTF-8 become U+FFFD, so every line is answered.

    Raises DataError at a line of more than ``longest`` bytes (default ``corpora.LONGEST_LINE``).
    """
    return (line for _, line in _numbered_lines(files, longest))


def longest_line(transducer: Transducer) -> int | None:
    """The ``data.lines.max_bytes`` of the run's settings; None if they do not have it."""
    limit: int | None = transducer.settings.get("data", {}).get("lines", {}).get("max_bytes")
    return limit


def pairs(
    files: Sequence[Path] | None,
    source: Path | None = None,
    target: Path | None = None,
    conditional: bool = True,
    signal: bool = False,
    columns: int = 1,
) -> Iterator[tuple[str, str]]:
    """Pairs of source and target: the lines of ``source`` and ``target``, or the rows of TSV files or standard input.

    A row's source has at most ``columns`` columns. For a language model, which is not ``conditional``, every line is a
    target and the source is empty.
    """
    from transduce.data.corpora import Files

    check_sides(source is not None, target is not None, conditional)
    if target is None:
        return _tab_separated(_numbered_lines(files), columns) if conditional else (("", line) for line in lines(files))
    if files:
        raise UserError(
            f"{files[0]} would have both sides, and --source or --target are given: leave out one or the other"
        )
    given = Files(source=None if source is None else str(source), target=str(target))
    return ((example.source, example.references[0]) for example in examples_of(given, False, signal))


def source_columns(transducer: Transducer) -> int:
    """The number of columns that the model's source may have in a row: the text, and labels or features before it."""
    named = transducer.settings.get("data", {}).get("columns", {}).get("labels", ())
    return max(transducer.source_tokenizer.columns, len(named) + 1)


def check_sides(source: bool, target: bool, conditional: bool) -> None:
    """Raises UserError unless both sides are given or neither; a language model (not ``conditional``) has targets
    alone."""
    if source and not conditional:
        raise UserError("a language model has no source; give --target alone")
    if (source != target) and conditional:
        raise UserError("--source and --target go together: give both or neither")


def targets_only(files: Files, columns: ColumnNames | None = None) -> bool:
    """True if the files, or the columns of one file for both sides, have no source."""
    return files.targets_only or (files.path is not None and columns is not None and not columns.sources)


def examples_of(files: Files, grouped: bool, signal: bool = False, columns: ColumnNames | None = None) -> list[Example]:
    """An example for every line of the files; with ``grouped``, one for each source, with all its targets.

    The source of a ``signal`` is a path, relative to the folder of its file. ``columns`` are the columns of one file
    with both sides.
    """
    from transduce.data.preparation import examples
    from transduce.data.settings import Data, Lines, Units
    from transduce.data.tokenizers.text import Characters

    # If a line were left out, later answers would be compared with the wrong lines.
    lines = Lines(undecodable="replace", malformed="error")
    units = Units(source=None if targets_only(files, columns) else Characters(), target=Characters())
    data = Data(units=units, test=files, columns=columns, lines=lines, group_references=grouped)
    found = examples(data, "test", Path("."))
    return [replace(each, source=files.located(each.source)) for each in found] if signal else found


def _standard_input() -> IO[bytes]:
    if sys.stdin is None:  # it was closed: <&-
        raise UserError("there is nothing to read: standard input is closed, and no file is named; give one of them")
    return sys.stdin.buffer


def _numbered_lines(files: Sequence[Path] | None, longest: int | None = None) -> Iterator[tuple[str, str]]:
    """The place of each line, for messages, and the line."""
    from transduce.data import corpora

    longest = longest or corpora.LONGEST_LINE
    for path in files or []:
        path.stat()  # a missing file is reported before the lines of any other are answered
    if files:
        each = [(f"{path}, line", corpora.lines(path, longest)) for path in files]
    else:
        each = [("line", corpora.bounded_lines(_standard_input(), "standard input", longest))]
    for where, found in each:
        for number, line in enumerate(found, 1):
            yield f"{where} {number}", line.decode(errors="replace")


def _tab_separated(numbered: Iterable[tuple[str, str]], columns: int) -> Iterator[tuple[str, str]]:
    """Pairs of source and target: the last column is the target, and at most ``columns`` before it are the source."""
    before = "a source" if columns == 1 else f"a source, labels included, of at most {columns} columns"
    for place, line in numbered:
        source, tab, target = line.rpartition("\t")
        if not tab:
            raise UserError(f"{place} has one column: expected {before}, a tab and a target")
        if (count := line.count("\t") + 1) > columns + 1:
            raise UserError(
                f"{place} has {count} columns: expected {before}, a tab and a target; cut the others off, or where "
                "sources have tabs in them give --source and --target"
            )
        yield source, target
