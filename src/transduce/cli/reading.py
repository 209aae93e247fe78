"""What commands read: lines, pairs of a source and a target, examples to be measured on."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transduce.data.corpora import Files
    from transduce.types import Example


def lines(files: Sequence[Path] | None) -> Iterator[str]:
    """Lines of the files, or of standard input; what is not UTF-8 becomes U+FFFD, so that every line has its answer."""
    from transduce.data import corpora

    for path in files or []:
        path.stat()  # one that is missing is told before the lines of those before it are answered
    for line in chain.from_iterable(map(corpora.lines, files)) if files else _standard_input():
        yield line.decode(errors="replace")


def pairs(
    files: Sequence[Path] | None,
    source: Path | None = None,
    target: Path | None = None,
    conditional: bool = True,
    signal: bool = False,
) -> Iterator[tuple[str, str]]:
    """The lines of ``source`` and ``target``, where given, else the rows of the TSV files, or of standard input; where
    models are not ``conditional``, lines that are targets."""
    from transduce.data.corpora import Files

    check_sides(source is not None, target is not None, conditional)
    if target is None:
        return _tab_separated(lines(files)) if conditional else (("", line) for line in lines(files))
    given = Files(source=None if source is None else str(source), target=str(target))
    return ((example.source, example.references[0]) for example in examples_of(given, False, signal))


def check_sides(source: bool, target: bool, conditional: bool) -> None:
    """ValueError unless both sides are given or neither; where models are not ``conditional``, targets alone."""
    if source and not conditional:
        raise ValueError("a language model has no source; give --target alone")
    if (source != target) and conditional:
        raise ValueError("--source and --target go together: give both or neither")


def examples_of(files: Files, grouped: bool, signal: bool = False) -> list[Example]:
    """Every line of the files; the targets of equal sources together, if ``grouped``. The source of a ``signal`` is a
    path, given from the folder of the file."""
    from transduce.data.preparation import examples
    from transduce.data.settings import Data, Lines, Units
    from transduce.data.text import Characters

    # a line more or less would set the answers against the wrong lines
    lines = Lines(undecodable="replace", malformed="error")
    units = Units(source=None if files.targets_only else Characters(), target=Characters())
    data = Data(units=units, test=files, lines=lines, group_references=grouped)
    found = examples(data, "test", Path("."))
    return [replace(each, source=files.located(each.source)) for each in found] if signal else found


def _standard_input() -> Iterator[bytes]:
    """As ``corpora.lines`` has those of a file."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        yield text.removesuffix(b"\n").removesuffix(b"\r")


def _tab_separated(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        source, tab, target = line.rpartition("\t")  # further columns are labels of the source
        if not tab:
            raise ValueError(f"line {number} has one column: expected a source, a tab and a target")
        yield source, target
