"""Compares a trained run with the most frequent output, which needs no source.

The baseline of a run writes the most frequent target of its training data for every source. If several are equally
frequent, it writes the first of them. The baseline of a tagger writes the most frequent label at every position.
The default of ``--metrics`` is the run's own metrics. Parentheses have 95 % intervals by bootstrap over the examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from report import Report, columns, titled

import transduce
from transduce.core.types import Example, Prediction
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import Statistics, statistics
from transduce.runs.run import Run


def most_frequent(known: Iterable[Example], asked: Sequence[Example], labels: bool) -> list[str]:
    """The baseline's output for each of ``asked``, by the targets of ``known``. If ``labels`` is True, an output
    repeats the most frequent label, once for each label of the reference.
    """
    targets = (pair.references[0] for pair in known)
    counts = Counter(label for target in targets for label in target.split()) if labels else Counter(targets)
    best = counts.most_common(1)[0][0]
    return [" ".join([best] * len(pair.references[0].split())) if labels else best for pair in asked]


def rows(path: Path, split: str, names: Sequence[str]) -> list[str]:
    """A line of the table for each metric of a run."""
    run, transducer = Run.open(path), transduce.load(path, device="cpu")
    examples = run.examples(split)
    metrics = [metric(name) for name in names or transducer.settings["metrics"]]
    found = transducer.evaluate(examples, metrics).statistics
    outputs = most_frequent(run.examples("train"), examples, transducer.token_for_token)
    baseline = statistics(metrics, [Prediction(output) for output in outputs], examples)
    each = zip(metrics, found, baseline, strict=True)
    return [f"| {path.name} | {kind.name} | {cell(own)} | {cell(other)} |" for kind, own, other in each]


def cell(found: Statistics) -> str:
    low, high = Resampling().interval(found)
    return f"{found.score:.2f} ({low:.2f} to {high:.2f})"


def main(report: Report, runs: Sequence[Path], *, metrics: Sequence[str] = (), split: str = "test") -> None:
    report.split = split
    report.tell(*titled("Beside the most frequent output"), *columns("| run | metric | model | most frequent |"))
    for run in runs:
        report.tell(*rows(run, split, metrics), runs=[run])
