"""``transduce compare``: which differences between systems are significant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli import formats
from transduce.cli.corpus import CorpusOptions
from transduce.cli.options import LoadingOptions, MetricOptions, RecordOptions, Report, ResamplingOptions
from transduce.core.errors import UserError
from transduce.core.stages import Stage

if TYPE_CHECKING:
    from transduce.answers.transducer import Transducer
    from transduce.core.protocols import Metric
    from transduce.core.types import Example
    from transduce.evaluation.systems import System
    from transduce.metrics.significance import Resampling
    from transduce.wings.lab.comparison import Comparison

METRICS = ["bleu", "chrf++", "ter"]  # by default, if no run says which metrics matter


def compare(
    systems: Annotated[
        list[Path],
        typer.Argument(
            help="Two or more: run directories (or RUN+RUN), or files of outputs. Seeds of one model: RUN,RUN.",
            metavar="SYSTEM...",
        ),
    ],
    corpus: CorpusOptions,
    resampled: ResamplingOptions,
    measured: MetricOptions,
    loading: LoadingOptions,
    recorded: RecordOptions,
    baseline: Annotated[
        list[Path] | None,
        typer.Option(
            help="Test only differences from this one of the systems; repeat the option for several.", metavar="SYSTEM"
        ),
    ] = None,
    report: Report = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Test which differences between systems are significant.

    A system is a run, or a file of outputs, one line per example. The examples are the lines of --source and --target
    (or --pairs), or the split of the first run. Every pair of systems is tested by paired bootstrap and by paired
    approximate randomisation. A difference is real if its p by randomisation is at most 0.05 after Holm's correction.
    For each metric, the correction is over all tested pairs. With --baseline there are fewer pairs, so smaller
    differences are significant.

    Several seeds of one model, joined by commas, are one system: its scores are their means.

    \b
    Examples:
      transduce compare runs/one runs/other --report compared.html
      transduce compare runs/a-1,runs/a-2 runs/b-1,runs/b-2
    """
    from transduce.evaluation.systems import tell_concerns
    from transduce.runs.layout import seeds
    from transduce.wings.lab.comparison import check_names, check_seeds
    from transduce.wings.lab.comparison import compare as compared
    from transduce.wings.lab.recording import record_systems
    from transduce.wings.lab.reports.comparison import comparison_page
    from transduce.wings.pages.page import write
    from transduce.wings.pages.signals import shown

    baselines = [str(path) for path in baseline or []]
    check_names([str(path) for path in systems], baselines)
    check_seeds({str(path): len(seeds(path)) for path in systems})
    recorded.check()
    first, examples = first_model(systems, corpus, loading, measured)
    metrics = measured.metrics(METRICS if first is None else first.settings.get("metrics", METRICS))
    every = [evaluated(each, loading, measured, examples, metrics) for each in systems]
    tell_concerns(every)
    found = compared(every, examples, corpus.name, resampled.resampling, baselines)
    print(formats.as_json(found.record(), indent=1) if as_json else "\n".join(found.lines()))
    recorded.keep(
        lambda command: record_systems(
            command,
            corpus.name,
            every,
            found.intervals,
            examples,
            loading.checkpoint,  # type: ignore[arg-type]
            found.pairs,
        ),
    )
    if report is not None:  # the scores have been printed, in case the page cannot be written
        of_paths = first is not None and first.source_tokenizer.signal
        write(report, comparison_page(found, shown if of_paths else str))


def first_model(
    systems: Sequence[Path], corpus: CorpusOptions, loading: LoadingOptions, measured: MetricOptions
) -> tuple[Transducer | None, Sequence[Example]]:
    """The model of the first system that is a run, None if all are files, and the examples to measure on.

    Raises UserError if nothing names examples.
    """
    from transduce.runs.layout import members, seeds

    run = next((each for system in systems for each in seeds(system) if not each.is_file()), None)
    if run is None and not corpus.of_files:
        raise UserError("files of outputs have no examples: give --source and --target (or --pairs), or a run")
    first = None if run is None else loading.of(run, measured.beam)
    if run is None or first is None or corpus.of_files:
        return first, corpus.read_files(first)
    return first, corpus.read(first, members(run)[0])


def evaluated(
    path: Path, loading: LoadingOptions, measured: MetricOptions, examples: Sequence[Example], metrics: Sequence[Metric]
) -> System:
    """Measures one system. ``path`` is a file with the system's outputs, one line per example, or a run directory (or
    RUN+RUN), whose model is then loaded and searched. Several, joined by commas, are seeds of one system.
    """
    from transduce.evaluation.systems import evaluate_file, evaluate_model, mean_of_seeds
    from transduce.runs.layout import seeds

    if len(several := seeds(path)) > 1:
        return mean_of_seeds(str(path), [evaluated(seed, loading, measured, examples, metrics) for seed in several])
    if path.is_file():
        return evaluate_file(path, examples, metrics)
    transducer = measured.in_context(loading.of(path, measured.beam))
    with Stage(str(path)):
        return evaluate_model(str(path), transducer, examples, metrics, measured.batch_size)


def compared_with(
    own: System,
    path: Path,
    loading: LoadingOptions,
    measured: MetricOptions,
    examples: Sequence[Example],
    metrics: Sequence[Metric],
    corpus: str,
    resampling: Resampling,
) -> Comparison:
    """The comparison of a measured system with another one, which ``path`` names as in ``evaluated``."""
    from transduce.wings.lab.comparison import compare

    return compare([own, evaluated(path, loading, measured, examples, metrics)], examples, corpus, resampling)
