"""How far do gradients reach back in recurrent language models, before and after training?

    transduce train cells-xml --out RUNS/tanh --set 'model.decoder.cell="elman"'                     (and other cells)
    python benchmarks gradients RUNS/tanh RUNS/lstm-b ...

The texts are the first of each run's test split that are longer than the distance. Each trained run is compared with
three untrained models of the same settings. The first has the weights that transduce starts with. The second has
recurrent matrices drawn from a Gaussian of variance 1/width, and the third has orthogonal ones (Saxe et al. 2014).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from report import Report, columns, machine, row
from torch import Tensor, nn

import transduce
from transduce.metrics.base import metric
from transduce.runs.run import Run
from transduce.wings.looking.inspection.gradients import GradientReach, gradient_reach
from transduce.wings.looking.inspection.gradients import plot as draw
from transduce.wings.looking.inspection.untrained import untrained

SEED = 1


def gaussian(block_WW: Tensor) -> None:
    nn.init.normal_(block_WW, std=1 / math.sqrt(block_WW.shape[1]))


def orthogonal(block_WW: Tensor) -> None:
    nn.init.orthogonal_(block_WW)


STARTS: dict[str, Callable[[Tensor], None] | None] = {
    "own start": None,
    "Gaussian start": gaussian,
    "orthogonal start": orthogonal,
}


def long_texts(run: Run, distance: int, count: int) -> list[tuple[str, str]]:
    """The first ``count`` texts of the test split that have more than ``distance`` + 10 characters."""
    long = [("", each.references[0]) for each in run.examples("test") if len(each.references[0]) > distance + 10]
    return long[:count]


def main(
    report: Report,
    runs: Sequence[Path],
    *,
    distance: Annotated[int, "tokens to look back"] = 40,
    texts: Annotated[int, "texts to average over"] = 50,
    plot: Annotated[Path | None, "draw the curves of the trained runs and their starts"] = None,
) -> None:
    report.tell("# Half-lives of gradients in tokens", "")
    report.tell(f"Up to {distance} tokens back, {texts} texts of the test split. {machine()}", "")
    report.tell(*columns(row(["run", "token accuracy", "trained", *STARTS])))
    curves: list[tuple[str, GradientReach]] = []
    for path in runs:
        run, trained = Run.open(path), transduce.load(path, device="cpu")
        pairs = long_texts(run, distance, texts)
        score = trained.evaluate(run.examples("test")[:1000], [metric("token_accuracy")]).scores["token_accuracy"]
        reaches = {"trained": gradient_reach(trained, pairs, distance)} | {
            name: gradient_reach(untrained(trained, SEED, start), pairs, distance) for name, start in STARTS.items()
        }
        curves += [(f"{path.name}, {name}", reaches[name]) for name in ("trained", "own start")]
        lives = (f"{reach.half_life:.1f}" for reach in reaches.values())
        report.tell(row([path.name, f"{score:.1f}", *lives]), runs=[path])
    if plot is not None:
        draw(curves, plot)
