"""The scores of several runs, and their differences from some of them on the same examples.

    python benchmarks/differences.py RUN RUN [RUN ...] --from RUN [RUN] [--metrics item_error] [--split test]
                                     [--threads 1] [--out FILE.md] [--record FILE.json]

``--from`` names one or more of the runs: the table has each run's difference from these. Without ``--metrics``, the
first run's metrics are used. The figures in parentheses are 95 % intervals by bootstrap over the examples. Both runs of
a difference have the same resamples, as in `transduce compare`. That command tests all pairs, but its record keeps only
the scores.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from report import Report, add_options, cell, machine

import transduce
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import Statistics
from transduce.protocols import Metric
from transduce.records.making import effort_of
from transduce.runs.run import Run


@dataclass(frozen=True)
class Measured:
    """The result of a run by one metric, and its scores in each resample."""

    statistics: Statistics
    drawn_R: Any

    @classmethod
    def of(cls, statistics: Statistics) -> Measured:
        return cls(statistics, Resampling().bootstrap(statistics))

    def written(self) -> str:
        return cell(self.statistics.score, self.drawn_R)

    def minus(self, other: Measured) -> str:
        return cell(self.statistics.score - other.statistics.score, self.drawn_R - other.drawn_R, "+")


def measured(path: Path, split: str, metrics: Sequence[Metric]) -> list[Measured]:
    """The results of a run, one for each metric."""
    transducer = transduce.load(path, device="cpu")
    found = transducer.evaluate(Run.open(path).examples(split), metrics)
    return [Measured.of(statistics) for statistics in found.statistics]


def updates(path: Path) -> str:
    effort = effort_of(path)
    return "–" if effort is None else f"{effort.updates:,}"


def table(name: str, found: dict[Path, Measured], bases: Sequence[Path]) -> list[str]:
    """The lines of one metric's table."""
    columns = ["run", "updates", name, *(f"difference from {base.name}" for base in bases)]
    lines = ["", f"## {name}", f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for path, own in found.items():
        differences = ["–" if path == base else own.minus(found[base]) for base in bases]
        lines.append(f"| {' | '.join([path.name, updates(path), own.written(), *differences])} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--from", dest="bases", type=Path, nargs="+", required=True, metavar="RUN")
    parser.add_argument("--metrics", nargs="+", default=[])
    parser.add_argument("--split", default="test")
    parser.add_argument("--threads", type=int, default=1)
    add_options(parser)
    given = parser.parse_args()
    if unknown := [str(base) for base in given.bases if base not in given.runs]:
        parser.error(f"--from {' '.join(unknown)}: name runs that are measured, among {' '.join(map(str, given.runs))}")
    torch.set_num_threads(given.threads)
    metrics = [metric(name) for name in given.metrics or Run.open(given.runs[0]).settings["metrics"]]
    found = {path: measured(path, given.split, metrics) for path in given.runs}
    lines = ["# Differences between runs", "", machine()]
    for place, each in enumerate(metrics):
        lines += table(each.name, {path: results[place] for path, results in found.items()}, given.bases)
    print("\n".join(lines))
    Report.asked(given, given.split).write(lines, given.runs)


if __name__ == "__main__":
    main()
