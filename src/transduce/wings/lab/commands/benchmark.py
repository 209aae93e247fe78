"""``transduce benchmark``: how fast a run answers and trains on this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from transduce.cli import formats
from transduce.cli.corpus import CorpusOptions
from transduce.cli.options import BatchSize, BeamSize, RecordOptions, RunOptions
from transduce.core.errors import UserError

PARTS = ("predict", "latency", "train")
MOST = 1_000_000  # of what is measured: every time is kept


def benchmark(
    trained: RunOptions,
    corpus: CorpusOptions,
    recorded: RecordOptions,
    part: Annotated[
        list[str] | None, typer.Option(help="What to measure: predict, latency or train. Default: the first two.")
    ] = None,
    beam: BeamSize = None,
    batch_size: BatchSize = 64,
    sentences: Annotated[int, typer.Option(min=1, max=MOST, help="Sources in each round of predict.")] = 500,
    rounds: Annotated[int, typer.Option(min=1, max=1_000, help="Rounds of predict; the median counts.")] = 3,
    requests: Annotated[int, typer.Option(min=1, max=MOST, help="Requests of latency, one after the other.")] = 200,
    seconds: Annotated[float, typer.Option(min=1, help="How long to train.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Measure how fast a run predicts and trains on this machine.

    It tells its share of the machine's own speed, too.

    \b
    Examples:
      transduce benchmark runs/g2p --beam 1
    """
    from transduce.runs.run import Run
    from transduce.wings.lab.speed.limit import TYPES, fastest_products
    from transduce.wings.lab.speed.prediction import measure_latency, measure_throughput
    from transduce.wings.lab.speed.report import SpeedReport, peak_memory
    from transduce.wings.lab.speed.training import measure_training
    from transduce.wings.records.machine import Machine
    from transduce.wings.records.making import new_record, trained_model

    parts = part or ["predict", "latency"]
    for each in parts:
        if each not in PARTS:
            raise UserError(f"--part {each!r}: expected {', '.join(PARTS)}")
    recorded.check()
    transducer = trained.load(beam)
    sources = [example.source for example in corpus.read(transducer, trained.runs[0])][:sentences]
    # training first: it is refused at once if it cannot be
    training = measure_training(Run.open(trained.runs[0]), seconds, trained.device) if "train" in parts else None
    throughput = measure_throughput(transducer, sources, rounds, batch_size) if "predict" in parts else None
    latency = measure_latency(replace(transducer, workers=None), sources, requests) if "latency" in parts else None
    name = "+".join(run.name for run in trained.runs)
    memory = peak_memory()  # before the products, which have their own matrices
    limits = {precision: fastest_products(precision, training.shapes if training else ()) for precision in TYPES}
    report = SpeedReport(name, Machine.here(), trained.precision, throughput, latency, training, memory, limits)
    print(formats.as_json(report.as_record(), indent=1) if as_json else "\n".join(report.lines()))
    recorded.keep(
        lambda command: replace(
            new_record(command, corpus.name, tables=[report.table()]),
            models=tuple(trained_model(run) for run in trained.runs),
        ),
    )
