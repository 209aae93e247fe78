"""``transduce predict``: the model's outputs for each input line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli import formats, inputs
from transduce.cli.options import BatchSize, BeamSize, DocumentOptions, Files, Pause, RunOptions
from transduce.cli.requests import ExtraOptions, RequestOptions
from transduce.cli.shards import shards_of
from transduce.cli.unanswered import Unanswered
from transduce.core import registry
from transduce.core.errors import UserError

if TYPE_CHECKING:
    from transduce.answers.answer import Answer
    from transduce.answers.request import Request
    from transduce.answers.transducer import Transducer


def predict(
    trained: RunOptions,
    extra_options: ExtraOptions,
    request_options: RequestOptions,
    document_options: DocumentOptions,
    files: Files = None,
    beam: BeamSize = None,
    nbest: Annotated[int | None, typer.Option(min=1, max=10_000, help="Outputs to write for each source.")] = None,
    batch_size: BatchSize = 64,
    window: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Lines in memory at a time, sorted by length to fill batches. [default: 64 batches]",
            metavar="N",
        ),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            help="text (one line per output), tsv (source, score, text) or jsonl; document: the file, translated."
        ),
    ] = "text",
    pause: Pause = 0.05,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Write to this file; to this folder, if the input is a folder of shards.", metavar="FILE"
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the file of --out, if an earlier call was killed.")
    ] = False,
    shard: Annotated[
        str | None, typer.Option(help="Answer only this file of the folder of shards.", metavar="NAME")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="Answer the shards on the workers of the Dask scheduler at this address.", metavar="ADDRESS"),
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Write each part of an output as soon as it is decided.")
    ] = False,
) -> None:
    """Write the model's best output for each input line, in order.

    \b
    Examples:
      transduce predict runs/g2p words.txt --out phonemes.txt
      echo knowledge | transduce predict runs/g2p --nbest 3
    """
    from transduce.answers.answer import with_warnings
    from transduce.answers.request import NO_EXTRAS

    for_lines = (nbest or 1) > 1 or resume or stream or extra_options.alignments or extra_options.frames
    document = document_options.chosen(files, out, format, for_lines)
    write = formats.choose(format, formats.PREDICTIONS) if document is None else formats.as_text
    unanswered = Unanswered()
    text_alone = (nbest or 1) == 1 and format == "text" and out is None and window is None and trained.workers == 1
    if stream and (not text_alone or extra_options or request_options.phrases):
        raise UserError(
            "--stream writes one output's text as it comes: leave out --nbest, --format, --out, --alignments and the "
            "like, --workers, --window and phrases"
        )
    if resume and out is None:
        raise UserError("--resume continues a file: name it with --out")
    sharded = out is not None and files and files[0].is_dir()
    if (shard or cluster) and not sharded:
        raise UserError("--shard and --cluster are for a folder of shards: give the folder, and another one as --out")
    if cluster is not None and files and out is not None:
        registry.service("shards on a cluster")(
            cluster, _shards(files, out, bool(request_options.prefixes), shard), out
        )
        return
    piped = out is None and request_options.constraints is None and inputs.piped(files)
    at_once = piped or batch_size == 1

    def arriving(requests: Iterator[Request]) -> Iterable[Request]:
        return inputs.arriving(requests, pause) if piped else requests

    plain = not (stream or window or out or extra_options)
    light = trained.light(beam) if plain else None
    if light is not None and (light.leads or not request_options):
        light = light if nbest is None else light.resized(beam, nbest)
        given = arriving(request_options.read(files, NO_EXTRAS, light))
        _print(unanswered.counted(with_warnings(light.answer(given, batch_size, tolerant=True))), write, at_once)
        unanswered.end()
        return
    transducer = trained.load(beam)
    if stream:
        _stream(transducer, request_options.read(files, NO_EXTRAS, transducer), unanswered)
        unanswered.end()
        return
    from transduce.answers.output_file import write_answers
    from transduce.answers.output_folder import write_shards

    extras = extra_options.extras(trained.another, inputs.longest_line(transducer))
    if extras:
        registry.service("check extras")(transducer, extras)
    search = None if nbest is None else transducer.search.resized(beam, nbest)
    window = window or transducer.window_size(batch_size)

    def answers(requests: Iterable[Request], first: int = 1) -> Iterator[Answer]:
        found = transducer.answer(requests, search, batch_size, window, first, tolerant=True)
        return unanswered.counted(with_warnings(found, first))

    if out is not None and document is not None:
        asked = partial(request_options.asked, extras=extras)
        registry.service("document written")(document, out, asked, answers, transducer, **asdict(document_options))
        unanswered.end()
        return
    if out is None:
        _print(answers(arriving(request_options.read(files, extras, transducer))), write, at_once)
        unanswered.end()
        return
    settings: dict[str, object] = {
        "beam": beam,
        "nbest": nbest,
        "batch_size": batch_size,
        "window": window,
        "format": format,
    }
    settings |= {"device": str(transducer.device)} | _settings(trained, extra_options)
    if not (sharded and files):
        write_answers(out, request_options.read(files, extras, transducer), answers, write, settings, window, resume)
        unanswered.end()
        return

    def answered(one: Path) -> Iterator[str]:
        for answer in answers(request_options.read([one], extras, transducer)):
            yield from write(answer)

    settings = json.loads(json.dumps(settings | asdict(request_options), default=str))
    write_shards(_shards(files, out, bool(request_options.prefixes), shard), out, answered, settings)
    unanswered.end()


def _stream(transducer: Transducer, requests: Iterable[Request], unanswered: Unanswered) -> None:
    """Prints each part of an output as soon as it is decided. Raises the UserError of the first request, and tells the
    errors of later requests.
    """
    from transduce.metrics.units import one_line

    for number, request in enumerate(requests, 1):
        try:
            for piece in transducer.stream(request.source, prefix=request.prefix):
                print(one_line(piece), end="", flush=True)
        except UserError as error:
            if number == 1:
                raise
            unanswered.tell(f"input {number}: {str(error).removeprefix('input 1: ')}")
        print(flush=True)


def _shards(files: list[Path], out: Path, prefixes: bool, only: str | None) -> list[Path]:
    """The files of the only folder in ``files``, as ``shards_of`` lists them. Raises UserError for other arguments
    beside the folder, and for prefixes line by line.
    """
    if len(files) > 1 or prefixes:
        raise UserError(f"{files[0]} is a folder of shards: leave out other files and --prefixes")
    return shards_of(files[0], out, only)


def _print(answers: Iterable[Answer], write: formats.Writer, at_once: bool) -> None:
    """Prints the lines of each answer; if ``at_once``, as soon as the answer is there."""
    for answer in answers:
        for line in write(answer):
            print(line, flush=at_once)


def _settings(trained: RunOptions, extra_options: ExtraOptions) -> dict[str, object]:
    """The values of JSON on which the output depends, apart from the options of the command itself and the requests.

    Files are represented by hashes, so that a run may be moved or named by another path.
    """
    from transduce.runs.identity import identity
    from transduce.runs.manifest import checksum

    settings = asdict(trained) | asdict(extra_options)
    settings["run"] = identity(trained.run, *trained.identity_options)
    if extra_options.aligner is not None:
        settings["aligner"] = identity(extra_options.aligner, *trained.identity_options)
    for name in ("dictionary", "protect_patterns"):
        if settings[name] is not None:
            settings[name] = checksum(settings[name])
    return settings
