"""The command line. Torch and all that needs it are imported inside the commands: ``--help`` answers at once."""

from __future__ import annotations

import itertools
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

if TYPE_CHECKING:
    from transduce.search.beam import Beam
    from transduce.transducer import Output, Transducer
    from transduce.types import Example

app = typer.Typer(
    help="Learn to turn one sequence into another: train on pairs, then predict, evaluate and score.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

Run = Annotated[Path, typer.Argument(help="A run directory, as `transduce train` made it.", metavar="RUN")]
Files = Annotated[list[Path] | None, typer.Argument(help="Text files, a source a line; standard input if none.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, mps or auto.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Processor threads; all cores if not given.")]
BeamSize = Annotated[int | None, typer.Option("--beam", min=1, help="Beam size; 1 is greedy.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Sentences searched at a time.")]
Which = Annotated[str, typer.Option(help="best, last or average.")]
Plugins = Annotated[list[str] | None, typer.Option("--plugin", help="A Python file or module that registers classes.")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="Change a setting: model.encoder.layers=2")]


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help="A recipe (see `transduce recipes`) or a .toml file.")],
    settings: Sets = None,
    out: Annotated[Path | None, typer.Option(help="The run directory; runs/RECIPE if not given.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Train so long instead of the recipe's budget.")] = None,
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
    try:
        api.train(recipe, out, changes, resume=resume, overwrite=overwrite, device=device, threads=threads)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    print(api.run_folder(recipe, out))


@app.command()
def predict(
    run: Run,
    files: Files = None,
    beam: BeamSize = None,
    nbest: Annotated[int, typer.Option(min=1, help="Hypotheses of each source.")] = 1,
    batch_size: BatchSize = 64,
    format: Annotated[
        str, typer.Option(help="text (a line a hypothesis), tsv (source, score, text) or jsonl.")
    ] = "text",
    checkpoint: Which = "best",
    device: Device = "auto",
    threads: Threads = None,
    plugin: Plugins = None,
) -> None:
    """Turn each line into the model's best output, in order."""
    write = _writer(format)
    transducer = _load(run, checkpoint, device, threads, plugin)
    asked, answered = itertools.tee(_lines(files))
    outputs = transducer.predict(asked, _search(transducer, beam, nbest), batch_size)
    for source, hypotheses in zip(answered, outputs, strict=True):
        for line in write(source, hypotheses):
            print(line, flush=batch_size == 1)


@app.command()
def score(
    run: Run,
    files: Annotated[
        list[Path] | None, typer.Argument(help="TSV files of source and target; standard input if none.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="A file of sources, with --target, instead.")] = None,
    target: Annotated[Path | None, typer.Option(help="Its targets, line by line.")] = None,
    format: Annotated[
        str, typer.Option(help="text (the log-probability), tsv (source, log-probability, target) or jsonl.")
    ] = "text",
    batch_size: BatchSize = 64,
    checkpoint: Which = "best",
    device: Device = "auto",
    threads: Threads = None,
    plugin: Plugins = None,
) -> None:
    """The model's log-probability of each target, given its source."""
    write = _writer(format)
    _together(source, target)
    pairs = _pairs(source, target) if source and target else _tab_separated(_lines(files))
    asked, answered = itertools.tee(pairs)
    transducer = _load(run, checkpoint, device, threads, plugin)
    for (text, _), output in zip(answered, transducer.score(asked, batch_size), strict=True):
        if format == "text":
            print(f"{output.log_prob:.6f}")
        else:
            for line in write(text, [output]):
                print(line)


@app.command()
def evaluate(
    run: Run,
    split: Annotated[str, typer.Option(help="test, valid or train.")] = "test",
    source: Annotated[Path | None, typer.Option(help="A file of sources instead of a split.")] = None,
    target: Annotated[Path | None, typer.Option(help="Its targets, line by line.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Metrics instead of the run's own.")] = None,
    beam: BeamSize = None,
    batch_size: BatchSize = 64,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
    checkpoint: Which = "best",
    device: Device = "auto",
    threads: Threads = None,
    plugin: Plugins = None,
) -> None:
    """Measure a model on a split of its data, or on files."""
    from transduce.metrics.base import metric as named

    _together(source, target)
    if split not in ("test", "valid", "train"):
        raise ValueError(f"--split {split!r}: expected test, valid or train")
    transducer = _load(run, checkpoint, device, threads, plugin)
    metrics = [named(name) for name in metric or transducer.settings["metrics"]]
    grouped: bool = transducer.settings["data"]["group_references"]
    given = _parallel(source, target, grouped) if source and target else _split(run, transducer, split)
    scores, _ = transducer.evaluate(given, metrics, _search(transducer, beam, 1), batch_size)
    signatures = {each.name: each.signature for each in metrics}
    if as_json:
        record = {"run": str(run), "examples": len(given), "metrics": scores, "signatures": signatures}
        print(json.dumps(record, indent=1))
        return
    print(f"{run}, {source or split}: {len(given):,} examples")
    for name, value in scores.items():
        print(f"{name:>12}  {value:8.2f}  {signatures[name]}")


@app.command()
def inspect(
    run: Run,
    text: Annotated[str, typer.Argument(help="A source.", metavar="TEXT")],
    target: Annotated[str | None, typer.Option(help="Its output; the model's own if not given.")] = None,
    out: Annotated[Path | None, typer.Option(help="Draw a picture (.png, .svg, .pdf) instead of shading.")] = None,
    head: Annotated[int | None, typer.Option(min=0, help="One of many heads; their average if not given.")] = None,
    checkpoint: Which = "best",
    device: Device = "auto",
    threads: Threads = None,
    plugin: Plugins = None,
) -> None:
    """Show what a model reads of a source as it writes: its attention."""
    from transduce.inspect.attention import attention, plot

    found = attention(_load(run, checkpoint, device, threads, plugin), text, target, head)
    if out is None:
        print("\n".join(found.lines()))
    else:
        plot(found, out)


@app.command()
def recipes() -> None:
    """The recipes that come with the package: what each should score, in how long, on what."""
    from transduce import recipes as folder

    for name in folder.names():
        print(f"{name}\n    " + folder.describe(name).replace("\n", "\n    ") + "\n")


@app.command()
def data(
    recipe: Annotated[str, typer.Argument(help="A recipe, a .toml file, or a .tsv or .jsonl file of pairs.")],
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

    load_plugins(plugin)
    table = api.change(folder.read(recipe) if not _is_pairs(recipe) else _survey_of(recipe), settings or [])
    built = config.build(table.get("data", {}), Data, path="data")
    for line in survey(built, Path(built.cache) if built.cache else out / ".cache").lines():
        print(line)


def _is_pairs(name: str) -> bool:
    return name.removesuffix(".gz").endswith((".tsv", ".jsonl", ".json"))


def _survey_of(path: str) -> dict[str, Any]:
    """A file of pairs as the training set of no run in particular; its units are characters unless set."""
    return {"data": {"train": {"path": path}, "units": {"source": "characters", "target": "characters"}}}


# ------------------------------------------------------------------- output


def as_text(source: str, outputs: list[Output]) -> Iterator[str]:
    for output in outputs:
        yield _one_line(output.text)


def as_tsv(source: str, outputs: list[Output]) -> Iterator[str]:
    for output in outputs:
        yield f"{_one_line(source)}\t{output.score:.6f}\t{_one_line(output.text)}"


def as_jsonl(source: str, outputs: list[Output]) -> Iterator[str]:
    """{"source", and of the best hypothesis "text", "tokens", "log_prob", "score", "token_log_probs"; "nbest": all of
    them, best first}."""
    nbest = [
        {
            "text": output.text,
            "tokens": output.tokens,
            "log_prob": output.log_prob,
            "score": output.score,
            "token_log_probs": output.token_log_probs,
        }
        for output in outputs
    ]
    yield json.dumps({"source": source, **nbest[0], "nbest": nbest}, ensure_ascii=False)


WRITERS: dict[str, Callable[[str, list[Output]], Iterator[str]]] = {"text": as_text, "tsv": as_tsv, "jsonl": as_jsonl}


def _writer(format: str) -> Callable[[str, list[Output]], Iterator[str]]:
    if format not in WRITERS:
        raise ValueError(f"--format {format!r}: expected {', '.join(WRITERS)}")
    return WRITERS[format]


def _one_line(text: str) -> str:
    """What would break the rows of the output made a space."""
    return text.replace("\t", " ").replace("\r", " ").replace("\n", " ")


# -------------------------------------------------------------------- input


def _lines(files: list[Path] | None) -> Iterator[str]:
    """Lines of the files, or of standard input; what is not UTF-8 becomes U+FFFD, so that every line has its answer."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        opened: list[BinaryIO] = [stack.enter_context(path.open("rb")) for path in files or []]
        for file in opened or [sys.stdin.buffer]:
            for line in file:
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode(errors="replace")


def _together(source: Path | None, target: Path | None) -> None:
    if (source is None) != (target is None):
        raise ValueError("--source and --target go together: give both or neither")


def _pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    return ((example.source, example.references[0]) for example in _parallel(source, target, grouped=False))


def _tab_separated(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise ValueError(f"line {number} has {len(columns)} columns: expected a source, a tab and a target")
        yield columns[0], columns[1]


def _parallel(source: Path, target: Path, grouped: bool) -> list[Example]:
    from transduce.data.corpora import Files
    from transduce.data.preparation import examples
    from transduce.data.settings import Data, Lines, Units
    from transduce.data.tokenizers import Characters

    files = Files(source=str(source), target=str(target))
    lines = Lines(undecodable="replace")  # a line more or less would set the answers against the wrong lines
    data = Data(units=Units(joint=Characters()), test=files, lines=lines, group_references=grouped)
    return examples(data, "test", Path("."))


def _split(run: Path, transducer: Transducer, split: str) -> list[Example]:
    from transduce import config
    from transduce.data.preparation import examples
    from transduce.data.settings import Data
    from transduce.training.run import cache_folder

    data = config.build(transducer.settings["data"], Data, path="data")
    return examples(data, split, cache_folder(data, run))


def _load(run: Path, checkpoint: str, device: str, threads: int | None, plugins: list[str] | None) -> Transducer:
    import torch

    from transduce.transducer import Transducer

    load_plugins(plugins)
    if threads is not None:
        torch.set_num_threads(threads)
    return Transducer.load(run, checkpoint, device)  # type: ignore[arg-type]


def _search(transducer: Transducer, beam: int | None, nbest: int) -> Beam | None:
    """A beam like the run's own search; None, for that search itself, where nothing else was asked for."""
    from transduce.search.beam import beam_like

    return None if beam is None and nbest == 1 else beam_like(transducer.search, beam, nbest)


def load_plugins(plugins: list[str] | None) -> None:
    """Import each file or module; it calls ``transduce.register``. Named on the command line, never by a run's file."""
    import importlib
    import importlib.util

    for name in plugins or []:
        if not name.endswith(".py"):
            importlib.import_module(name)
            continue
        # named apart from what is installed: a plugin called json.py must not stand in for json
        spec = importlib.util.spec_from_file_location(f"plugin_{Path(name).stem}", name)
        if spec is None or spec.loader is None or not Path(name).exists():
            raise FileNotFoundError(f"--plugin {name}: no such Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)


def main() -> None:
    """The entry point: mistakes of input are told in a line, with status 2; the rest are bugs and keep their trace."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        app()  # which lets a reader that went away (`| head`) pass, with status 1
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        if os.environ.get("TRANSDUCE_TRACE"):
            raise
        typer.echo(f"transduce: {error}", err=True)
        sys.exit(2)
