"""What commands read: lines, pairs of a source and a target, examples to be measured on."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from transduce.types import Example


def lines(files: Sequence[Path] | None) -> Iterator[str]:
    """Lines of the files, or of standard input; what is not UTF-8 becomes U+FFFD, so that every line has its answer."""
    with ExitStack() as stack:
        opened: list[BinaryIO] = [stack.enter_context(path.open("rb")) for path in files or []]
        for file in opened or [sys.stdin.buffer]:
            for line in file:
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode(errors="replace")


def pairs(
    files: Sequence[Path] | None, source: Path | None = None, target: Path | None = None
) -> Iterator[tuple[str, str]]:
    """The lines of ``source`` and ``target``, where given, else the rows of the TSV files, or of standard input."""
    parallel = both(source, target)
    if parallel is None:
        return _tab_separated(lines(files))
    return ((example.source, example.references[0]) for example in examples_of(*parallel, grouped=False))


def both(source: Path | None, target: Path | None) -> tuple[Path, Path] | None:
    """``--source`` and ``--target``, or neither; ValueError where only one is given."""
    if source is not None and target is not None:
        return source, target
    if source is None and target is None:
        return None
    raise ValueError("--source and --target go together: give both or neither")


def examples_of(source: Path, target: Path, grouped: bool) -> list[Example]:
    """Two parallel files, every line kept; the targets of equal sources together, if ``grouped``."""
    from transduce.data.corpora import Files
    from transduce.data.preparation import examples
    from transduce.data.settings import Data, Lines, Units
    from transduce.data.tokenizers import Characters

    files = Files(source=str(source), target=str(target))
    lines = Lines(undecodable="replace")  # a line more or less would set the answers against the wrong lines
    data = Data(units=Units(joint=Characters()), test=files, lines=lines, group_references=grouped)
    return examples(data, "test", Path("."))


def _tab_separated(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        source, tab, target = line.rpartition("\t")  # further columns are labels of the source
        if not tab:
            raise ValueError(f"line {number} has one column: expected a source, a tab and a target")
        yield source, target
