"""Measures ROUGE of summaries that need no model: the first sentence of each source, and its best sentence.

Each line of a file is an object with these keys:

- "source": a list of sentences.
- "target": one reference, or a list of several.
- "oracle": a list with 1 for the sentence that is nearest to the references, and 0 for the others (SciTLDR has it).

The oracle is an upper bound for systems that choose one sentence. A file without "oracle" has no row for it. The
intervals are 95 % intervals by bootstrap over the lines.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from report import Report, columns, titled

from transduce.core.types import Example, Prediction
from transduce.data.corpora import lines
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import statistics

METRICS = ("rouge1", "rouge2", "rougeL")


def lead(record: dict[str, Any]) -> str:
    """The first sentence of the source."""
    return str(record["source"][0])


def oracle(record: dict[str, Any]) -> str:
    """The sentences of the source that are marked with 1, in order."""
    return " ".join(text for text, mark in zip(record["source"], record["oracle"], strict=True) if mark)


def row(name: str, system: str, outputs: Sequence[str], records: Sequence[dict[str, Any]]) -> str:
    """A line of the table: each score with its interval, and the number of words of an output."""
    examples = [
        Example(" ".join(each["source"]), (target,) if isinstance(target := each["target"], str) else tuple(target))
        for each in records
    ]
    found = statistics([metric(each) for each in METRICS], [Prediction(output) for output in outputs], examples)
    bounds = [Resampling().interval(each) for each in found]
    cells = [f"{each.score:.2f} ({low:.2f} to {high:.2f})" for each, (low, high) in zip(found, bounds, strict=True)]
    words = sum(len(output.split()) for output in outputs) / len(outputs)
    return f"| {' | '.join([name, system, *cells, f'{words:.1f}', f'{len(records):,}'])} |"


def main(report: Report, files: Sequence[Path]) -> None:
    report.split = "valid and test"
    report.tell(*titled("Summaries without a model"), f"Signature of ROUGE: {metric(METRICS[0]).signature}", "")
    report.tell(*columns("| file | system | ROUGE-1 | ROUGE-2 | ROUGE-L | words | examples |"))
    for path in files:
        records = [json.loads(line) for line in lines(path)]
        report.tell(row(path.name, "first sentence", [lead(each) for each in records], records))
        if all("oracle" in each for each in records):
            report.tell(row(path.name, "oracle sentence", [oracle(each) for each in records], records))
