"""How much memory exact search takes, by the number of sources and of expansions: a process for each figure.

    python benchmarks/exact_memory.py RUN [--sources 64 192] [--expansions 100 1000] [--nbest 50]
                                      [--out benchmarks/results/exact-memory.md]

The peak is the process' own largest resident set, less that of one which searches greedily: what exact search adds.
Many hypotheses are asked for, so that few sources finish before their expansions are used up.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from report import machine, write

import transduce
from transduce.protocols import Search
from transduce.search.exact import Exact
from transduce.search.greedy import Greedy
from transduce.training.run import split_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--sources", type=int, nargs="+", default=[64, 192])
    parser.add_argument("--expansions", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--nbest", type=int, default=50)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.alone:
        print(*measured(given.run, given.sources[0], given.expansions[0], given.nbest))
        return
    floor, _ = asked(given, given.sources[0], 0)
    rows = []
    for sources in given.sources:
        for expansions in given.expansions:
            peak, seconds = asked(given, sources, expansions)
            rows.append(f"| {sources} | {expansions:,} | {peak - floor:,.0f} | {seconds:.0f} |")
            print(rows[-1], flush=True)
    lines = [
        f"# {given.run.name}: memory of exact search, the {given.nbest} most probable outputs",
        "",
        machine(),
        "",
        f"Greedy search peaks at {floor:,.0f} MB; the figures are what comes on top of that.",
        "",
        "| sources | expansions | MB | seconds |",
        "|---|---|---|---|",
        *rows,
    ]
    print("\n".join(lines))
    write(given.out, lines)


def asked(given: argparse.Namespace, sources: int, expansions: int) -> tuple[float, float]:
    """What another process tells of itself."""
    options = ["--sources", sources, "--expansions", expansions, "--nbest", given.nbest, "--alone"]
    command = [sys.executable, __file__, given.run, *options]
    told = subprocess.run(map(str, command), check=True, capture_output=True, text=True).stdout
    peak, seconds = map(float, told.split())
    return peak, seconds


def measured(run: Path, sources: int, expansions: int, nbest: int) -> tuple[float, float]:
    """The peak in MB, and the processor's seconds; without expansions, of greedy search."""
    transducer = transduce.load(run, "best", "cpu")
    texts = [example.source for example in split_of(transducer.settings, run, "test")][:sources]
    longest = transducer.search.max_length
    search: Search[Any] = Exact(nbest, longest, expansions) if expansions else Greedy(longest)
    began = time.process_time()
    list(transducer.predict(texts, search))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, time.process_time() - began


if __name__ == "__main__":
    main()
