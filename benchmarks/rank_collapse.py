"""How close to rank one do the states of a Transformer come with depth, averaged over sentences (Dong et al. 2021)?

The sentences are the first of the run's test split. The table also has the same model without training.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from report import Report, columns, machine, row

import transduce
from transduce.metrics.base import metric
from transduce.runs.run import Run
from transduce.wings.looking.inspection.rank import RankResiduals, rank_residuals


def main(report: Report, run: Path, *, sentences: int = 50, plot: Path | None = None) -> None:
    transducer, examples = transduce.load(run, device="cpu"), Run.open(run).examples("test")
    every = [rank_residuals(transducer, each.source).curves for each in examples[:sentences]]
    mean = {name: tuple(np.mean([curves[name] for curves in every], 0).tolist()) for name in every[0]}
    measured = metric(transducer.settings["metrics"][0])
    score = transducer.evaluate(examples, [measured]).scores[measured.name]
    if plot is not None:
        RankResiduals(mean).plot(plot)
    report.tell("# Residual from rank one by depth", "")
    report.tell(f"{measured.name} {score:.2f} on test; mean of {len(every)} sentences. {machine()}", "", runs=[run])
    report.tell(*columns(row(["model", *range(len(next(iter(mean.values()))))])))
    report.tell(*(row([name, *(f"{each:.2g}" for each in curve)]) for name, curve in mean.items()))
    report.tell("", "# The model whose rank was measured", "", *columns(f"| run | {measured.name} |"))
    report.tell(f"| {run.name} | {score:.2f} |")
