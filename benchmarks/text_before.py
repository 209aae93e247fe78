"""Measures the perplexity of language models on test: for each line alone, and for each line after the text before it.

The first run's own ``context`` says how the text before a line is read: with a carried state, or a window. An n-gram
model, whose recipe reads each line alone, gets a carried state. RUN+RUN is the mean of both models' probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from report import Report, columns, row, titled

import transduce
from transduce.answers.transducer import Transducer
from transduce.metrics.base import metric
from transduce.runs.run import Run
from transduce.wings.language.contexts import context
from transduce.wings.records.making import effort_of

COLUMNS = ("model", "parameters, M", "target tokens of training, M", "text before a line", "each line alone", "with it")


def perplexity(transducer: Transducer, run: Run) -> float:
    return transducer.evaluate(run.examples("test"), [metric("perplexity")]).scores["perplexity"]


def cells(paths: list[Path]) -> list[str]:
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


def main(report: Report, runs: Annotated[Sequence[str], "RUN or RUN+RUN"]) -> None:
    report.tell(*titled("Perplexity with the text before a line, and without"), *columns(row(COLUMNS)))
    for name in runs:
        paths = [Path(part) for part in name.split("+")]
        report.tell(row(cells(paths)), runs=paths)
