"""How much memory does ``transduce predict`` take for many lines? Each number of lines has its own process.

The lines are sources of the run's validation split, drawn with a fixed seed. Each process searches greedily with one
thread and writes a file with ``--out``. Twice a second, the resident memory of the process and the number of answers in
its journal are read. The peak is the largest resident set; it includes Python, torch and the model.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from report import Report, columns, titled

from transduce.answers.output_file import journal_of
from transduce.runs.run import Run
from transduce.wings.pages import plots

SEED = 1
PAUSE = 0.5  # seconds between two samples
PARTS = 10  # rows of the table of samples


@dataclass(frozen=True)
class Sample:
    """The resident memory of the process in MB, ``seconds`` after its start, when it has written ``lines`` answers."""

    seconds: float
    lines: int
    memory: float


def main(
    report: Report,
    run: Path,
    *,
    lines: Sequence[int] = (10_000, 100_000, 1_000_000),
    window: int = 4096,
    batch_size: int = 256,
    picture: Annotated[Path | None, "draw the peaks: .png, .svg or .pdf"] = None,
) -> None:
    sources = [example.source for example in Run.open(run).examples("valid")]
    report.split = "valid"
    report.tell(
        *titled(f"Memory of `predict` for many lines: {run.name}"),
        f"Greedy search, one thread, batches of {batch_size}, {window:,} lines in memory at a time.",
        "",
        *columns("| lines | peak memory (MB) | lines per second |"),
        runs=[run],
    )
    courses: dict[int, list[Sample]] = {}
    for count in lines:
        peak, course = measured(run, sources, count, window, batch_size)
        courses[count] = course
        report.tell(f"| {count:,} | {peak:,.0f} | {count / course[-1].seconds:,.0f} |")
    report.tell(*over_time(courses[max(courses)]))
    if picture is not None:
        draw(courses, picture)


def measured(run: Path, sources: list[str], count: int, window: int, batch_size: int) -> tuple[float, list[Sample]]:
    """The peak in MB of one process that predicts ``count`` lines, and samples of it. The last sample is at its end."""
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
        course: list[Sample] = []
        while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            course.append(Sample(time.perf_counter() - began, answered(out), resident(process.pid)))
            time.sleep(PAUSE)
        _, status, used = ended
        if status:
            raise SystemExit(f"predict ended with status {os.waitstatus_to_exitcode(status)}")
        with out.open("rb") as file:
            assert sum(1 for _ in file) == count
        course.append(Sample(time.perf_counter() - began, count, course[-1].memory))
        return used.ru_maxrss * 1024 / 1e6, course


def answered(out: Path) -> int:
    """The number of answers that the journal of an output file marks."""
    try:
        marks = journal_of(out).read_text(encoding="utf-8").splitlines()[1:]
        return int(json.loads(marks[-1])["answers"]) if marks else 0
    except (FileNotFoundError, ValueError):  # the file does not exist yet or any more, or a line is half written
        return 0


def resident(process: int) -> float:
    """The resident memory of a process in MB (Linux). It is 0 if the process has just ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def over_time(course: list[Sample]) -> list[str]:
    """A table of the memory after each tenth of the lines."""
    count = course[-1].lines
    rows = [next(each for each in course if each.lines * PARTS >= part * count) for part in range(1, PARTS + 1)]
    return [
        "",
        f"## Memory of `predict` while it answers {count:,} lines",
        "",
        *columns("| lines answered | seconds | resident memory (MB) |"),
        *(f"| {each.lines:,} | {each.seconds:,.0f} | {each.memory:,.0f} |" for each in rows),
    ]


def draw(courses: dict[int, list[Sample]], path: Path) -> None:
    """Draws the memory of each process over the lines that it has answered."""
    figure = plots.figure(5, 3)
    axes = figure.add_subplot()
    for count, course in courses.items():
        found = [each for each in course if each.lines and each.memory]
        axes.plot([each.lines for each in found], [each.memory for each in found], label=f"{count:,} lines")
    axes.set_ylim(0, 1.3 * max(each.memory for course in courses.values() for each in course))
    axes.set_xlabel("lines answered")
    axes.set_ylabel("resident memory (MB)")
    axes.legend(loc="lower right")
    plots.save(figure, path)
