"""``transduce compare``: which differences between systems are real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.corpus import Corpus
from transduce.cli.options import (
    BatchSize,
    BeamSize,
    Device,
    Metrics,
    Plugins,
    Precision,
    Report,
    Resampled,
    Threads,
    Trained,
)
from transduce.cli.systems import system

METRICS = ["bleu", "chrf++", "ter"]  # of files of outputs, where no run says what matters


def compare(
    systems: Annotated[
        list[Path],
        typer.Argument(help="Two or more: run directories (or RUN+RUN), or files of outputs.", metavar="SYSTEM..."),
    ],
    corpus: Corpus,
    resampled: Resampled,
    metric: Metrics = None,
    beam: BeamSize = None,
    batch_size: BatchSize = 64,
    checkpoint: Annotated[str, typer.Option(help="best, last or average of each run.")] = "best",
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "float32",
    plugin: Plugins = None,
    report: Report = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Say which differences between systems are real: runs, or files with a line for each example.

    Examples are those of --source and --target (or --pairs), a line each, or the split of the first run. Every pair is
    tested by paired bootstrap and by paired approximate randomisation; a difference is real where p of the latter,
    with Holm's correction over all pairs, is at most 0.05.
    """
    from transduce.evaluation.comparison import compare as compared
    from transduce.metrics.base import metric as metric_named
    from transduce.pages.page import write
    from transduce.pages.signals import shown
    from transduce.reports.comparison import comparison_page

    named = [Trained(path, checkpoint, None, device, threads, precision=precision, plugin=plugin) for path in systems]
    run = next((each for each in named if not each.run.is_file()), None)
    if run is None and not corpus.of_files:
        raise ValueError("files of outputs do not say of what: give --source and --target (or --pairs), or a run")
    first = None if run is None else run.load()
    settings = {} if first is None else first.settings
    examples = corpus.read_files(settings) if run is None or corpus.of_files else corpus.read(settings, run.runs[0])
    metrics = [metric_named(name) for name in metric or settings.get("metrics", METRICS)]
    every = [system(each, examples, metrics, beam, batch_size) for each in named]
    found = compared(every, examples, corpus.name, resampled.resampling)
    if report is not None:
        of_paths = first is not None and first.source_tokenizer.signal
        write(report, comparison_page(found, shown if of_paths else str))
    print(json.dumps(found.record(), indent=1) if as_json else "\n".join(found.lines()))
