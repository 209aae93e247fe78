"""How much does a Transformer lose if its least important attention heads are silenced?

    python benchmarks/pruning.py RUN [--plot FILE.svg] [--out FILE.md] [--record FILE.json]

The importance of the heads is measured on the first sentences of the validation split. The metric is measured on the
whole test split, with 0, a tenth, a fifth, a third, a half and three quarters of the heads silenced. The least
important heads are silenced first.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from report import Report, columns, parse, parser_of, titled

import transduce
from transduce.metrics.base import metric
from transduce.runs.run import Run
from transduce.wings.looking.inspection.pruning import importances, plot, pruning_curve


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--sentences", type=int, default=200, help="validation sentences for the importance")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    given = parse(parser, arguments)
    run, transducer = Run.open(given.run), transduce.load(given.run, device="cpu")
    pairs = [(each.source, each.references[0]) for each in run.examples("valid")[: given.sentences]]
    found = sorted(importances(transducer, pairs), key=lambda each: each.gradient)
    measured = metric(transducer.settings["metrics"][0])
    lines = [
        *titled("Heads silenced"),
        *columns(f"| silenced of {len(found)} heads | {measured.name} |"),
    ]
    order = [each.head for each in found]

    def told(count: int, score: float) -> None:
        lines.append(f"| {count} | {score:.2f} |")
        print(lines[-1], flush=True)

    curve = pruning_curve(transducer, run.examples("test"), measured, order, told=told)
    if given.plot is not None:
        plot(curve, len(found), measured.name, given.plot)
    Report.asked(given).write(lines, [given.run])


if __name__ == "__main__":
    main()
