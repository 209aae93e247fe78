"""How much memory does ``transduce predict`` take for many lines? A process for each figure.

    python benchmarks/many_lines.py RUN [--lines 10000 100000 1000000] [--window 4096] [--batch-size 256]
                                    [--picture docs/pictures/many-lines.png] [--out FILE.md] [--record FILE.json]

The lines are sources of the run's validation split, drawn with a fixed seed. Each process searches greedily with one
thread and writes a file with ``--out``. The peak is the largest resident set of the process; it includes Python, torch
and the model.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import Report, add_options, machine

from transduce.pages import plots
from transduce.runs.run import Run

SEED = 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--lines", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--window", type=int, default=4096)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="draw the peaks: .png, .svg or .pdf")
    add_options(parser)
    given = parser.parse_args()
    sources = [example.source for example in Run.open(given.run).examples("valid")]
    told = [
        f"# Memory of `predict` for many lines: {given.run.name}",
        "",
        machine(),
        "",
        f"Greedy search, one thread, batches of {given.batch_size}, {given.window:,} lines in memory at a time.",
        "",
        "| lines | peak memory (MB) | lines per second |",
        "|---|---|---|",
    ]
    print("\n".join(told), flush=True)
    report, peaks = Report.asked(given, "valid"), list[float]()
    for count in given.lines:
        peak, seconds = measured(given.run, sources, count, given.window, given.batch_size)
        peaks.append(peak)
        told.append(f"| {count:,} | {peak:,.0f} | {count / seconds:,.0f} |")
        print(told[-1], flush=True)
        report.write(told, [given.run])
    if given.picture is not None:
        draw(given.lines, peaks, given.picture)


def measured(run: Path, sources: list[str], count: int, window: int, batch_size: int) -> tuple[float, float]:
    """The peak in MB and the seconds of one process that predicts ``count`` lines."""
    drawn = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        lines, out = Path(folder) / "in", Path(folder) / "out"
        with lines.open("w", encoding="utf-8") as file:
            file.writelines(f"{drawn.choice(sources)}\n" for _ in range(count))
        options = {"--window": window, "--batch-size": batch_size, "--beam": 1, "--threads": 1, "--device": "cpu"}
        words = [str(word) for option in options.items() for word in option]
        command = [sys.executable, "-m", "transduce", "predict", str(run), str(lines), "--out", str(out), *words]
        began = time.perf_counter()
        process = subprocess.Popen(command)
        _, status, used = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"predict ended with status {os.waitstatus_to_exitcode(status)}")
        with out.open("rb") as file:
            assert sum(1 for _ in file) == count
        return used.ru_maxrss / 1000, time.perf_counter() - began


def draw(lines: list[int], peaks: list[float], path: Path) -> None:
    figure = plots.figure(5, 3)
    axes = figure.add_subplot()
    axes.plot(lines, peaks, marker="o")
    axes.set_xscale("log")
    axes.set_ylim(0, 1.3 * max(peaks))
    axes.set_xlabel("lines")
    axes.set_ylabel("peak memory (MB)")
    plots.save(figure, path)


if __name__ == "__main__":
    main()
