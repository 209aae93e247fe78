"""Which positional encodings work for longer inputs than in training? Short words are learned, and long ones tested.

A Transformer of 3 + 3 layers and width 128 learns to pronounce the words of CMUdict with at most ``longest`` letters.
Every positional encoding has the same batches and updates. The table has the phoneme error rate on the test words by
their length, with greedy search, against the nearest reference.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

from report import Report, columns, row, titled

import transduce
from transduce.core import config, recipes
from transduce.core.types import Example
from transduce.data.preparation import examples
from transduce.data.settings import Data
from transduce.metrics.base import metric
from transduce.search.greedy import Greedy

ADDED = ("none", "sinusoidal", "learned")  # to the embeddings
INSIDE = ("shaw", "t5", "rotary", "alibi")  # attention
MOST = 500  # words of one length that are measured


def stack(positions: str) -> config.Table:
    return {
        "type": "transformer",
        "positions": positions if positions in ADDED else "none",
        "mixer": {"type": "attention", "relative": positions if positions in INSIDE else "none"},
        "width": 128,
        "layers": 3,
        "heads": 4,
        "feedforward": 512,
        "dropout": 0.1,
    }


def settings(positions: str, steps: int, seed: int) -> dict[str, Any]:
    return {
        "model": {"type": "encoder-decoder", "encoder": stack(positions), "decoder": stack(positions)},
        "training.steps": steps,
        "training.seed": seed,
        "training.validation": {"times": 0},
    }


def bins(longest: int) -> list[tuple[int, int]]:
    """Ranges of lengths in letters, first and last: all lengths of training, then two lengths each, then all others."""
    return [(1, longest), *((n, n + 1) for n in range(longest + 1, longest + 6, 2)), (longest + 7, 99)]


def within(found: Iterable[Example], bounds: tuple[int, int]) -> list[Example]:
    return [example for example in found if bounds[0] <= len(example.source) <= bounds[1]]


def sample(found: list[Example]) -> list[Example]:
    """At most ``MOST`` examples, evenly spaced, because a dictionary is sorted."""
    count = min(MOST, len(found))
    return [found[number * len(found) // count] for number in range(count)]


def main(
    report: Report,
    *,
    longest: int = 8,
    steps: Annotated[int, "updates"] = 2000,
    seeds: Sequence[int] = (1,),
    positions: Annotated[Sequence[str], (*ADDED, *INSIDE)] = (*ADDED, *INSIDE),
) -> None:
    with tempfile.TemporaryDirectory() as work:
        data = config.build(recipes.read("g2p-attention")["data"], Data, path="data")
        train = within(examples(data, "train", Path(work)), (1, longest))
        pairs = [(example.source, reference) for example in train for reference in example.references]
        test = examples(data, "test", Path(work))
        groups = {bounds: sample(within(test, bounds)) for bounds in bins(longest)}
        report.tell(
            *titled(f"Positions on longer inputs: words of at most {longest} letters in training"),
            f"Phoneme error rate on (at most {MOST}) test words of each length, greedy; {steps:,} updates on "
            f"{len(pairs):,} pairs; mean of seeds {[*seeds]}, and each of them.",
            "",
            *columns(row(["positions", *(f"{a} to {b}" if b < 99 else f"{a} or more" for a, b in groups)])),
            row(["(words)", *(f"{len(group):,}" for group in groups.values())]),
        )
        for name in positions:
            rates: list[list[float]] = [[] for _ in groups]
            runs = [Path(work) / f"{name}-{seed}" for seed in seeds]
            for run, seed in zip(runs, seeds, strict=True):
                made = settings(name, steps, seed)
                transducer = transduce.train("g2p-attention", run, made, pairs, device="cpu", progress=False)
                for rate, group in zip(rates, groups.values(), strict=True):
                    scores = transducer.evaluate(group, [metric("per")], Greedy(60)).scores
                    rate.append(scores["per"])
            each = (f"{mean(rate):.1f} ({', '.join(f'{one:.1f}' for one in rate)})" for rate in rates)
            report.tell(row([name, *each]), runs=runs)
