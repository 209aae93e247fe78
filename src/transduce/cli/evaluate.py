"""``transduce evaluate``: the scores of one model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli import formats
from transduce.cli.corpus import CorpusOptions
from transduce.cli.options import MetricOptions, RecordOptions, Report, ResamplingOptions, RunOptions
from transduce.cli.shards import ShardOptions, shards_of
from transduce.core.errors import UserError
from transduce.core.registry import service


def evaluate(
    trained: RunOptions,
    corpus: CorpusOptions,
    resampled: ResamplingOptions,
    measured: MetricOptions,
    sharded: ShardOptions,
    recorded: RecordOptions,
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
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Evaluate a model on a split of its data, or on files.

    The page of --report has all results, and examples. If --pairs is a folder, its files are shards, which several
    calls or a cluster answer together (--out).

    \b
    Examples:
      transduce evaluate runs/g2p --errors --report g2p.html
      transduce evaluate runs/g2p --source words.txt --target phonemes.txt
    """
    from transduce.evaluation.run_results import ReportParts, run_results
    from transduce.evaluation.systems import evaluate_model, tell_concerns
    from transduce.metrics.confusions import breakable

    of_shards = corpus.pairs is not None and corpus.pairs.is_dir()
    if of_shards != (sharded.out is not None):
        raise UserError("a folder of shards as --pairs and another folder as --out go together: give both or neither")
    if of_shards and (calibration or against is not None or report is not None):
        raise UserError("--calibration, --against and --report need all examples at a time: give a file as --pairs")
    recorded.check()
    if sharded.cluster is not None and corpus.pairs is not None and sharded.out is not None:
        service("shards on a cluster")(
            sharded.cluster, shards_of(corpus.pairs, sharded.out, sharded.shard), sharded.out
        )
    transducer, resampling = measured.in_context(trained.load(measured.beam)), resampled.resampling
    metrics = measured.metrics(transducer.settings["metrics"])
    parts = ReportParts(bins, errors and breakable(metrics), calibration)
    # A file of outputs has one line for each line of the corpus, so equal sources must not be grouped.
    lines = against is not None and against.is_file() and corpus.of_files
    if of_shards:
        found = service("shards measured")(trained, corpus, measured, sharded, transducer)
        if found is None:
            return
        own, examples = found
    else:
        examples = corpus.read_files(transducer) if lines else corpus.read(transducer, trained.runs[0])
        parts = parts.for_page(transducer) if report else parts
        name = str(trained.run)
        own = evaluate_model(name, transducer, examples, metrics, measured.batch_size, parts.calibration)
    results = run_results(own, transducer, trained.runs[0], examples, corpus.name, parts, resampling)
    compared = None
    if against is not None:
        compared = service("comparison")(own, against, trained, measured, examples, metrics, corpus.name, resampling)
    tell_concerns([own])
    if as_json:
        print(
            formats.as_json(results.record() | ({} if compared is None else {"against": compared.record()}), indent=1)
        )
    else:
        print("\n".join([*results.lines(), *(() if compared is None else ("", *compared.differences()))]))
    intervals = {own.name: results.intervals}
    recorded.keep(
        lambda command: service("record of systems")(
            command, corpus.name, [own], intervals, examples, trained.checkpoint
        )
    )
    if report is not None:  # the scores have been printed, in case the page cannot be written
        service("evaluation page")(report, results, compared, transducer.source_tokenizer.signal)
