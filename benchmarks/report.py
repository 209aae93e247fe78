"""Writes the result of a benchmark: a page for people, and a record for ``bash scripts/results``."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from transduce.compute.processor import model_name
from transduce.metrics.significance import Resampling, middle
from transduce.metrics.statistics import Statistics, mean_of_seeds
from transduce.runs import code
from transduce.wings.records.making import new_record, trained_model
from transduce.wings.records.provenance import command_line, today
from transduce.wings.records.record import PrintedTable, Record

script = Path(sys.argv[0])
if script.suffix and script.resolve().parent == Path(__file__).resolve().parent:  # a module would measure nothing
    sys.exit(f"write: python benchmarks {script.stem} …")


@dataclass
class Report:
    """The lines of a benchmark. They are printed, and written into the page ``out`` and the ``record``; None is none.

    All is written again after each line, because a benchmark may take hours. The record is made once, and its tables
    grow. ``threads`` are those of PyTorch, and ``split`` is what was measured.
    """

    out: Path | None = None
    record: Path | None = None
    threads: int = 1
    split: str = "test"
    lines: list[str] = field(default_factory=list)  # told until now
    runs: list[Path] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)  # the record's file, once it is written

    def tell(self, *lines: str, runs: Iterable[Path] = ()) -> None:
        """Prints lines, and writes the page with them. ``runs`` are the run directories that they measure."""
        print("\n".join(lines), flush=True)
        self.lines += lines
        self.runs += [run for run in runs if run not in self.runs]
        self._write()

    def show(self, lines: Sequence[str], runs: Iterable[Path] = ()) -> None:
        """Tells a whole page, which takes the place of the one before."""
        self.lines.clear()
        self.tell(*lines, runs=runs)

    def _write(self) -> None:
        if self.out is not None:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            self.out.write_text("\n".join(self.lines) + "\n", encoding="utf-8")
        found = tables(self.lines)
        if self.record is not None and any(each.rows for each in found):
            made = replace(self._empty_record, tables=tuple(found), models=tuple(map(trained_model, self.runs)))
            self.written[:] = [made.write(self.written[0] if self.written else self.record)]

    @cached_property
    def _empty_record(self) -> Record:
        return new_record(command(), self.split)


def cell(value: float, drawn_R: Any, sign: str = "", digits: int = 2) -> str:
    """A score and its 95 % interval by the scores [R] of the resamples. For a difference, ``sign`` is "+"."""
    form = f"{sign}.{digits}f"
    low, high = middle(drawn_R)
    return f"{value:{form}} ({low:{form}} to {high:{form}})"


Measured = Mapping[tuple[str, int], Statistics]  # by way and seed, without those that are not measured yet


def gain_rows(found: Mapping[int, Measured], ways: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """The lines of a table with the gains of some ways over the way "none", for each number of pairs in ``found``.

    A line has the number of pairs, the way, the seed, the score and the gain. After the lines of single seeds comes
    their mean.
    """
    return [line for pairs, measured in found.items() for line in _gains(f"{pairs:,}", measured, ways, seeds)]


def _gains(label: str, found: Measured, ways: Sequence[str], seeds: Sequence[int]) -> list[str]:
    lines, resampling = [], Resampling()
    for way in ("none", *ways):
        done = [seed for seed in seeds if (way, seed) in found]
        for group in [[seed] for seed in done] + ([done] if len(done) > 1 else []):
            own = mean_of_seeds([found[way, seed] for seed in group])
            drawn = resampling.bootstrap(own)
            gain = "–"
            if way != "none" and all(("none", seed) in found for seed in group):
                none = mean_of_seeds([found["none", seed] for seed in group])
                gain = cell(own.score - none.score, drawn - resampling.bootstrap(none), "+")
            name = f"{group[0]}" if len(group) == 1 else f"mean of {len(group)}"
            lines.append(f"| {label} | {way} | {name} | {cell(own.score, drawn)} | {gain} |")
    return lines


def command() -> str:
    """The command that is running."""
    return command_line("python", ["benchmarks", *sys.argv[1:]])


def titled(title: str) -> list[str]:
    """The lines that a page begins with: its title, and how it was measured."""
    return [f"# {title}", "", machine(), ""]


def row(cells: Iterable[object]) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def explained(docstring: str | None) -> Iterator[str]:
    """The paragraphs of a docstring after its first one, each in a line, with empty lines between them."""
    for number, paragraph in enumerate((docstring or "").replace("``", "`").strip().split("\n\n")[1:]):
        yield from [""] * bool(number)
        yield " ".join(paragraph.split())


def columns(names: str) -> list[str]:
    """The first two lines of a table, from the one with the names: "| system | BLEU |"."""
    return [names, "|" + "---|" * (names.count("|") - 1)]


def machine() -> str:
    """One line with the date, the machine, the versions, the commit and the command of a measurement."""
    commit = code.code().commit
    return (
        f"{today()}, {model_name()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}, torch {torch.__version__}, commit {commit}; `{command()}`"
    )


def tables(lines: Iterable[str]) -> list[PrintedTable]:
    """The tables of a page in Markdown, each with the heading above it."""
    found: list[PrintedTable] = []
    heading, rows = "", list[tuple[str, ...]]()
    for line in [*lines, ""]:
        if line.startswith("|"):
            rows.append(tuple(cell.strip() for cell in line.strip().strip("|").split("|")))
            continue
        if rows:
            found.append(PrintedTable(heading, rows[0], tuple(rows[2:])))  # the second row has dashes
            rows = []
        if line.startswith("#"):
            heading = line.lstrip("# ")
    return found
