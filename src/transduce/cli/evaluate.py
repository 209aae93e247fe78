"""``transduce evaluate``: the scores of one model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli import formats
from transduce.cli.compare import evaluated
from transduce.cli.corpus import CorpusOptions
from transduce.cli.options import (
    MetricOptions,
    RecordPath,
    Report,
    ResamplingOptions,
    RunOptions,
    check_record,
    check_report,
    keep_record,
)


def evaluate(
    trained: RunOptions,
    corpus: CorpusOptions,
    resampled: ResamplingOptions,
    measured: MetricOptions,
    bins: Annotated[
        int | None, typer.Option(min=1, help="Results by length, rarest word, seen or new, in this many groups.")
    ] = None,
    errors: Annotated[
        bool, typer.Option("--errors", help="The most frequent errors by kind; for labels, all errors.")
    ] = False,
    calibration: Annotated[
        bool, typer.Option("--calibration", help="Compare the model's token probabilities with its accuracy.")
    ] = False,
    against: Annotated[
        Path | None, typer.Option(help="Test the difference to another run, or to a file of outputs.", metavar="RUN")
    ] = None,
    report: Report = None,
    record: RecordPath = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Evaluate a model on a split of its data, or on files. The page of --report has all results, and examples."""
    from transduce.evaluation.comparison import compare
    from transduce.evaluation.recording import record_systems
    from transduce.evaluation.run_results import ReportParts, run_results
    from transduce.evaluation.systems import evaluate_model
    from transduce.metrics.confusions import breakable
    from transduce.pages.page import write
    from transduce.pages.signals import shown
    from transduce.reports.evaluation import evaluation_page

    check_report(report)
    check_record(record)
    transducer, resampling = measured.in_context(trained.load(measured.beam)), resampled.resampling
    metrics = measured.metrics(transducer.settings["metrics"])
    parts = ReportParts(bins, errors and breakable(metrics), calibration)
    # A file of outputs has one line for each line of the corpus, so equal sources must not be grouped.
    lines = against is not None and against.is_file() and corpus.of_files
    examples = corpus.read_files(transducer) if lines else corpus.read(transducer, trained.runs[0])
    parts = parts.for_page(transducer) if report else parts
    own = evaluate_model(
        str(trained.run),
        transducer,
        examples,
        metrics,
        measured.batch_size,
        parts.calibration,
    )
    results = run_results(own, transducer, trained.runs[0], examples, corpus.name, parts, resampling)
    compared = None
    if against is not None:
        other = evaluated(against, trained, measured, examples, metrics)
        compared = compare([own, other], examples, corpus.name, resampling)
    if as_json:
        print(
            formats.as_json(results.record() | ({} if compared is None else {"against": compared.record()}), indent=1)
        )
    else:
        print("\n".join([*results.lines(), *(() if compared is None else ("", *compared.differences()))]))
    intervals = {own.name: results.intervals}
    keep_record(
        record,
        lambda command: record_systems(command, corpus.name, [own], intervals, examples, trained.checkpoint),  # type: ignore[arg-type]
    )
    if report is not None:  # the scores have been printed, in case the page cannot be written
        write(report, evaluation_page(results, compared, shown if transducer.source_tokenizer.signal else str))
