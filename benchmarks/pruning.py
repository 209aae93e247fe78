"""How much does a Transformer lose if its least important attention heads are silenced?

The importance of the heads is measured on the first sentences of the validation split. The metric is measured on the
whole test split, with 0, a tenth, a fifth, a third, a half and three quarters of the heads silenced. The least
important heads are silenced first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from report import Report, columns, titled

import transduce
from transduce.metrics.base import metric
from transduce.runs.run import Run
from transduce.wings.looking.inspection.pruning import importances, pruning_curve
from transduce.wings.looking.inspection.pruning import plot as draw


def main(
    report: Report,
    run: Path,
    *,
    sentences: Annotated[int, "validation sentences for the importance"] = 200,
    plot: Path | None = None,
) -> None:
    opened, transducer = Run.open(run), transduce.load(run, device="cpu")
    pairs = [(each.source, each.references[0]) for each in opened.examples("valid")[:sentences]]
    found = sorted(importances(transducer, pairs), key=lambda each: each.gradient)
    measured = metric(transducer.settings["metrics"][0])
    report.tell(*titled("Heads silenced"), *columns(f"| silenced of {len(found)} heads | {measured.name} |"))

    def told(count: int, score: float) -> None:
        report.tell(f"| {count} | {score:.2f} |", runs=[run])

    order = [each.head for each in found]
    curve = pruning_curve(transducer, opened.examples("test"), measured, order, told=told)
    if plot is not None:
        draw(curve, len(found), measured.name, plot)
