"""How far do gradients reach back in recurrent language models, before and after training?

    transduce train cells-xml --out RUNS/tanh --set 'model.decoder.cell="elman"'                     (and other cells)
    python benchmarks/gradients.py RUNS/tanh RUNS/lstm-b ... [--plot FILE.svg] [--out FILE.md] [--record FILE.json]

The texts are the first of each run's test split that are longer than the distance. Each trained run is compared with
three untrained models of the same settings. The first has the weights that transduce starts with. The second has
recurrent matrices drawn from a Gaussian of variance 1/width, and the third has orthogonal ones (Saxe et al. 2014).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from report import Report, machine, parse, parser_of
from torch import Tensor, nn

import transduce
from transduce.metrics.base import metric
from transduce.runs.run import Run
from transduce.wings.looking.inspection.gradients import GradientReach, gradient_reach, plot
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


def texts(run: Run, distance: int, count: int) -> list[tuple[str, str]]:
    """The first ``count`` texts of the test split that have more than ``distance`` + 10 characters."""
    long = [("", each.references[0]) for each in run.examples("test") if len(each.references[0]) > distance + 10]
    return long[:count]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--distance", type=int, default=40, help="tokens to look back")
    parser.add_argument("--texts", type=int, default=50, help="texts to average over")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw the curves of the trained runs and their starts"
    )
    given = parse(parser, arguments)
    heads = ["run", "token accuracy", "trained", *STARTS]
    lines = [
        "# Half-lives of gradients in tokens",
        "",
        f"Up to {given.distance} tokens back, {given.texts} texts of the test split. {machine()}",
        "",
        f"| {' | '.join(heads)} |",
        f"|---|{'---|' * (len(heads) - 1)}",
    ]
    curves: list[tuple[str, GradientReach]] = []
    for path in given.runs:
        run, trained = Run.open(path), transduce.load(path, device="cpu")
        pairs = texts(run, given.distance, given.texts)
        score = trained.evaluate(run.examples("test")[:1000], [metric("token_accuracy")]).scores["token_accuracy"]
        reaches = {"trained": gradient_reach(trained, pairs, given.distance)} | {
            name: gradient_reach(untrained(trained, SEED, start), pairs, given.distance)
            for name, start in STARTS.items()
        }
        curves += [
            (f"{path.name}, {name}", reach) for name, reach in reaches.items() if name in ("trained", "own start")
        ]
        row = [path.name, f"{score:.1f}", *(f"{reach.half_life:.1f}" for reach in reaches.values())]
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
    if given.plot is not None:
        plot(curves, given.plot)
    Report.asked(given).write(lines, given.runs)


if __name__ == "__main__":
    main()
