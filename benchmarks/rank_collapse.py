"""How close to rank one do the states of a Transformer come with depth, averaged over sentences (Dong et al. 2021)?

    python benchmarks/rank_collapse.py RUN [--sentences 50] [--plot FILE.svg] [--out FILE.md] [--record FILE.json]

The sentences are the first of the run's test split. The table also has the same model without training.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from report import Report, columns, machine, parse, parser_of

import transduce
from transduce.metrics.base import metric
from transduce.runs.run import Run
from transduce.wings.looking.inspection.rank import RankResiduals, rank_residuals


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--sentences", type=int, default=50)
    parser.add_argument("--plot", type=Path, metavar="FILE")
    given = parse(parser, arguments)
    run, transducer = Run.open(given.run), transduce.load(given.run, device="cpu")
    examples = run.examples("test")
    every = [rank_residuals(transducer, each.source).curves for each in examples[: given.sentences]]
    mean = {name: tuple(np.mean([curves[name] for curves in every], 0).tolist()) for name in every[0]}
    measured = metric(transducer.settings["metrics"][0])
    score = transducer.evaluate(examples, [measured]).scores[measured.name]
    depth = len(next(iter(mean.values())))
    lines = [
        "# Residual from rank one by depth",
        "",
        f"{measured.name} {score:.2f} on test; mean of {len(every)} sentences. {machine()}",
        "",
        f"| model | {' | '.join(map(str, range(depth)))} |",
        f"|---|{'---|' * depth}",
        *(f"| {name} | {' | '.join(f'{each:.2g}' for each in row)} |" for name, row in mean.items()),
        "",
        "# The model whose rank was measured",
        "",
        *columns(f"| run | {measured.name} |"),
        f"| {given.run.name} | {score:.2f} |",
    ]
    print("\n".join(lines))
    if given.plot is not None:
        RankResiduals(mean).plot(given.plot)
    Report.asked(given).write(lines, [given.run])


if __name__ == "__main__":
    main()
