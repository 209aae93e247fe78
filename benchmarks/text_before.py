"""Measures the perplexity of language models on test: for each line alone, and for each line after the text before it.

    python benchmarks/text_before.py RUN [RUN+RUN ...] [--threads 1] [--record FILE.json]

The first run's own ``context`` says how the text before a line is read: with a carried state, or a window. An n-gram
model, whose recipe reads each line alone, gets a carried state. RUN+RUN is the mean of both models' probabilities.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from report import Report, parse, parser_of, titled

import transduce
from transduce.answers.transducer import Transducer
from transduce.metrics.base import metric
from transduce.runs.run import Run
from transduce.wings.language.contexts import context
from transduce.wings.records.making import effort_of

COLUMNS = ("model", "parameters, M", "target tokens of training, M", "text before a line", "each line alone", "with it")


def perplexity(transducer: Transducer, run: Run) -> float:
    return transducer.evaluate(run.examples("test"), [metric("perplexity")]).scores["perplexity"]


def row(paths: list[Path]) -> list[str]:
    transducer, runs = transduce.load("+".join(map(str, paths)), device="cpu"), [Run.open(path) for path in paths]
    alone = replace(transducer, context=context("line"))
    own = transducer.settings.get("context", {}).get("type", "line")
    after = replace(transducer, context=context("carried")) if own == "line" else transducer
    numbers = sum(parameter.numel() for parameter in transducer.model.parameters())
    read = " + ".join(_tokens(path) for path in paths)
    found = (f"{perplexity(each, runs[0]):.1f}" for each in (alone, after))
    name = " + ".join(path.name for path in paths)
    return [name, f"{numbers / 1e6:.1f}", read, "carried" if own == "line" else own, *found]


def _tokens(run: Path) -> str:
    effort = effort_of(run)
    return "–" if effort is None or effort.tokens is None else f"{effort.tokens / 1e6:.1f}"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    arguments = parse(parser, threads=1)
    paths = [[Path(part) for part in name.split("+")] for name in arguments.runs]
    lines = titled("Perplexity with the text before a line, and without")
    lines += [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    print("\n".join(lines))
    for each in paths:
        lines.append(f"| {' | '.join(row(each))} |")
        print(lines[-1], flush=True)
    Report.asked(arguments).write(lines, [part for each in paths for part in each])


if __name__ == "__main__":
    main()
