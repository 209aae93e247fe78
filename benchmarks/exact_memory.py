"""How much memory does exact search take, by the numbers of sources and expansions? Each figure has its own process.

    python benchmarks/exact_memory.py [--sources 32 128] [--expansions 200 800] [--threads 1]
                                      [--out benchmarks/results/exact-memory.md] [--record FILE.json]

The model is an untrained Transformer that avoids the end. So no source is finished before its expansions are used up,
which is the worst case for the search. The memory is the largest resident set of the process, minus the largest one of
a process that searches greedily. It is the memory that exact search adds.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from typing import Any

import torch
from report import Report, columns, parse, parser_of, titled
from torch import Tensor, nn

from transduce.core import config
from transduce.core.protocols import Model, Search
from transduce.core.types import EOS, Facts, Padded
from transduce.search.exact import Exact
from transduce.search.greedy import Greedy

VOCABULARY, WIDTH, LONGEST, WORDS = 2000, 256, 50, 30
STACK = {"type": "transformer", "width": WIDTH, "heads": 4, "layers": 3, "feedforward": 512, "positions": "sinusoidal"}
TABLE = {"type": "encoder-decoder", "encoder": STACK, "decoder": STACK}


class Reluctant(nn.Module):
    """A model with its logits multiplied by ``sharpness``, and with ``reluctance`` subtracted from the logit of EOS."""

    def __init__(self, model: Any, sharpness: float = 4.0, reluctance: float = 60.0) -> None:
        super().__init__()
        self.model, self.sharpness, self.reluctance = model, sharpness, reluctance

    def start(self, source: Any) -> Any:
        return self.model.start(source)

    def extend(self, tokens_BT: Tensor, state: Any) -> tuple[Any, Any]:
        extended: tuple[Any, Any] = self.model.extend(tokens_BT, state)
        return extended

    def readout(self, output: Any, candidates: Tensor | None = None) -> Tensor:
        logits: Tensor = self.sharpness * self.model.readout(output, candidates)
        logits[..., EOS] -= self.reluctance
        return logits


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--sources", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--expansions", type=int, nargs="+", default=[200, 800])
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = parse(parser, threads=torch.get_num_threads())
    if given.alone:
        print(*measured(given.sources[0], given.expansions[0]))
        return
    rows = []
    for sources in given.sources:
        floor, _, _ = asked(sources, 0, given.threads)
        for expansions in given.expansions:
            peak, seconds, finished = asked(sources, expansions, given.threads)
            rows.append(f"| {sources} | {expansions:,} | {finished:.0f} | {peak - floor:,.0f} | {seconds:.0f} |")
            print(rows[-1], flush=True)
    lines = [
        *titled("Memory of exact search"),
        f"An untrained Transformer of width {WIDTH}, 3 layers, {VOCABULARY:,} words; sources of {WORDS} words, outputs "
        f"of at most {LONGEST}. MB are what comes on top of greedy search.",
        "",
        *columns("| sources | expansions | finished | MB | seconds |"),
        *rows,
    ]
    Report.asked(given).show(lines)


def asked(sources: int, expansions: int, threads: int) -> list[float]:
    """The results of ``measured`` in another process."""
    options = {"--sources": sources, "--expansions": expansions, "--threads": threads}
    words = [word for option, value in options.items() for word in (option, str(value))]
    told = subprocess.run([sys.executable, __file__, *words, "--alone"], check=True, capture_output=True, text=True)
    return [float(figure) for figure in told.stdout.split()]


def measured(sources: int, expansions: int) -> tuple[float, float, int]:
    """The peak in MB, the seconds of processor time, and the number of finished sources. Searches greedily if
    ``expansions`` is 0; then no source counts as finished.
    """
    torch.manual_seed(0)
    built: Any = config.build(TABLE, Model, Facts(VOCABULARY, VOCABULARY), "model")
    model = Reluctant(built).eval()
    source = Padded(torch.randint(4, VOCABULARY, (sources, WORDS)), torch.full((sources,), WORDS))
    began = time.process_time()
    finished = 0
    if expansions:
        explored = Exact(max_length=LONGEST, expansions=expansions).explore(model, source)
        finished = sum(each.finished for each in explored)
    else:
        search: Search[Any] = Greedy(LONGEST)
        search(model, source)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return peak, time.process_time() - began, finished


if __name__ == "__main__":
    main()
