"""``transduce predict``: the model's outputs for each input line."""

from __future__ import annotations

from typing import Annotated

import typer

from transduce.cli import formats, inputs
from transduce.cli.options import BatchSize, BeamSize, Files, RunOptions
from transduce.cli.requests import ExtraOptions, RequestOptions
from transduce.errors import UserError


def predict(
    trained: RunOptions,
    extra_options: ExtraOptions,
    request_options: RequestOptions,
    files: Files = None,
    beam: BeamSize = None,
    nbest: Annotated[int | None, typer.Option(min=1, help="Outputs to write for each source.")] = None,
    batch_size: BatchSize = 64,
    format: Annotated[
        str, typer.Option(help="text (one line per output), tsv (source, score, text) or jsonl.")
    ] = "text",
    stream: Annotated[
        bool, typer.Option("--stream", help="Write each part of an output as soon as it is decided.")
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
    longest = inputs.longest_line(transducer)
    if stream:
        for line in inputs.lines(files, longest):
            for piece in transducer.stream(line):
                print(one_line(piece), end="", flush=True)
            print(flush=True)
        return
    extras = extra_options.extras(trained.another, longest)
    check_extras(transducer, extras)
    requests = request_options.read(files, extras, longest)
    search = None if nbest is None else transducer.search.resized(beam, nbest)
    for answer in with_warnings(transducer.answer(requests, search, batch_size)):
        for line in write(answer):
            print(line, flush=batch_size == 1)
