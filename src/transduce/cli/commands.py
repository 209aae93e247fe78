"""The commands, a function each: its parameters are what the command takes, its docstring is the help."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from transduce.cli import formats, reading
from transduce.cli.options import (
    BatchSize,
    BeamSize,
    Device,
    Files,
    Plugins,
    Sets,
    SourceFile,
    TargetFile,
    Threads,
    Trained,
)
from transduce.cli.requests import ExtraOptions, RequestOptions
from transduce.errors import UserError
from transduce.plugins import load_plugins


def train(
    recipe: Annotated[str, typer.Argument(help="A recipe (see `transduce recipes`) or a .toml file.")],
    settings: Sets = None,
    out: Annotated[Path | None, typer.Option(help="The run directory; runs/RECIPE if not given.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Train so long instead of the recipe's budget.")] = None,
    init: Annotated[Path | None, typer.Option(help="Start from this run, with what of it fits.", metavar="RUN")] = None,
    teacher: Annotated[Path | None, typer.Option(help="Learn from this run, too, or RUN+RUN.", metavar="RUN")] = None,
    freeze: Annotated[str | None, typer.Option(help="What keeps its values: encoder,decoder.embedding")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete the run that is there.")] = False,
    device: Device = "auto",
    threads: Threads = None,
    plugin: Plugins = None,
) -> None:
    """Train a model; the run directory then holds all that using it takes."""
    from transduce import api

    load_plugins(plugin)
    changes = list(settings or [])
    if minutes is not None:
        changes.append(f"training.minutes={minutes}")
    if freeze is not None:
        changes.append(f"training.freeze={json.dumps(freeze.split(','))}")
    try:
        run = api.train_run(
            recipe,
            out,
            changes,
            resume=resume,
            overwrite=overwrite,
            device=device,
            threads=threads,
            init=init,
            teacher=teacher,
        )
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    print(run)


def predict(
    trained: Trained,
    extra_options: ExtraOptions,
    request_options: RequestOptions,
    files: Files = None,
    beam: BeamSize = None,
    nbest: Annotated[int | None, typer.Option(min=1, help="Hypotheses of each source.")] = None,
    batch_size: BatchSize = 64,
    format: Annotated[
        str, typer.Option(help="text (a line a hypothesis), tsv (source, score, text) or jsonl.")
    ] = "text",
    stream: Annotated[
        bool, typer.Option("--stream", help="Write each output piece by piece, as it is decided, one line at a time.")
    ] = False,
) -> None:
    """Write the model's best output for each input line, in order."""
    from transduce.answers.answer import with_warnings
    from transduce.answers.extras import check_extras
    from transduce.metrics.units import one_line

    write = formats.choose(format, formats.PREDICTIONS)
    if stream and ((nbest or 1) > 1 or format != "text" or extra_options or request_options or trained.workers > 1):
        raise UserError(
            "--stream writes one output's text as it comes: leave out --nbest, --format, --alignments and the like, "
            "--workers, prefixes and phrases"
        )
    transducer = trained.load(beam)
    if stream:
        for line in reading.lines(files, reading.longest_line(transducer)):
            for piece in transducer.stream(line):
                print(one_line(piece), end="", flush=True)
            print(flush=True)
        return
    extras = extra_options.extras
    check_extras(transducer, extras)
    requests = request_options.read(files, extras, reading.longest_line(transducer))
    search = None if nbest is None else transducer.search.resized(beam, nbest)
    for answer in with_warnings(transducer.answer(requests, search, batch_size)):
        for line in write(answer):
            print(line, flush=batch_size == 1)


def score(
    trained: Trained,
    files: Annotated[
        list[Path] | None, typer.Argument(help="TSV files of (labels,) source and target; standard input if none.")
    ] = None,
    source: SourceFile = None,
    target: TargetFile = None,
    format: Annotated[
        str, typer.Option(help="text (the log-probability), tsv (source, log-probability, target) or jsonl.")
    ] = "text",
    batch_size: BatchSize = 64,
) -> None:
    """Write the model's log-probability of each target, given its source; for a language model, of each line."""
    from transduce.answers.answer import with_warnings
    from transduce.answers.request import Request

    write = formats.choose(format, formats.SCORES)
    transducer = trained.load()
    columns = reading.source_columns(transducer)
    signal = transducer.source_tokenizer.signal
    given = reading.pairs(files, source, target, transducer.conditional, signal, columns)
    requests = (Request(text, target=output) for text, output in given)
    for answer in with_warnings(transducer.answer(requests, None, batch_size)):
        for line in write(answer):
            print(line)


def recipes() -> None:
    """The recipes that come with the package: what each should score, in how long, on what."""
    from transduce import recipes as folder

    for name in folder.names():
        print(f"{name}\n    " + folder.describe(name).replace("\n", "\n    ") + "\n")


def data(
    recipe: Annotated[str, typer.Argument(help="A recipe, a .toml file, a .tsv or .jsonl file of pairs, a .txt file.")],
    settings: Sets = None,
    out: Annotated[Path, typer.Option(help="Where runs are kept: what is prepared here is found by them.")] = Path(
        "runs"
    ),
    plugin: Plugins = None,
) -> None:
    """Show what a run would see: lengths, unknowns, duplicates, overlap of the splits, a sample."""
    from transduce import api, config
    from transduce import recipes as folder
    from transduce.data.settings import Data
    from transduce.data.survey import survey
    from transduce.names import alternatives
    from transduce.training.settings import Settings

    load_plugins(plugin)
    table = api.change(folder.read(recipe) if not _is_pairs(recipe) else _survey_of(recipe), settings or [])
    tables = [field.name for field in dataclasses.fields(Settings)]
    for key in table:
        if key not in tables:
            raise config.ConfigError(key, f"a run has no such settings{alternatives(key, tables)}")
    built = config.build(table.get("data", {}), Data, path="data")
    found = survey(built, built.cache or out / ".cache")
    for line in (*found.lines(), *built.borrowed()):
        print(line)


def _is_pairs(name: str) -> bool:
    return name.lower().removesuffix(".gz").endswith((".tsv", ".jsonl", ".json", ".txt"))


def _survey_of(path: str) -> dict[str, Any]:
    """A file of pairs as the training set of no run in particular; its units are characters unless set."""
    sides = ("target",) if path.lower().removesuffix(".gz").endswith(".txt") else ("source", "target")
    return {"data": {"train": {"path": path}, "units": dict.fromkeys(sides, "characters")}}
