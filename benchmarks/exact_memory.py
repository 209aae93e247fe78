"""How much memory does exact search take, by the numbers of sources and expansions? Each figure has its own process.

The model is an untrained Transformer that avoids the end. So no source is finished before its expansions are used up,
which is the worst case for the search. The memory is the largest resident set of the process, minus the largest one of
a process that searches greedily. It is the memory that exact search adds.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from typing import Any

import torch
from report import Report, columns, titled
from stopwatch import alone
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


def main(report: Report, *, sources: Sequence[int] = (32, 128), expansions: Sequence[int] = (200, 800)) -> None:
    report.tell(
        *titled("Memory of exact search"),
        f"An untrained Transformer of width {WIDTH}, 3 layers, {VOCABULARY:,} words; sources of {WORDS} words, outputs "
        f"of at most {LONGEST}. MB are what comes on top of greedy search.",
        "",
        *columns("| sources | expansions | finished | MB | seconds |"),
    )
    for count in sources:
        floor, _, _ = alone(measured, count, 0, report.threads)
        for most in expansions:
            peak, seconds, finished = alone(measured, count, most, report.threads)
            report.tell(f"| {count} | {most:,} | {finished:.0f} | {peak - floor:,.0f} | {seconds:.0f} |")


def measured(sources: int, expansions: int, threads: int) -> tuple[float, float, int]:
    """The peak in MB, the seconds of processor time, and the number of finished sources. Searches greedily if
    ``expansions`` is 0; then no source counts as finished.
    """
    torch.set_num_threads(threads)
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
