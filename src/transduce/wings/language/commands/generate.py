"""``transduce generate``: texts that a language model writes after a prompt."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from transduce.cli import formats
from transduce.cli.options import RunOptions
from transduce.core.errors import UserError


def generate(
    trained: RunOptions,
    prompt: Annotated[str, typer.Option(help="The text to go on with.")] = "",
    length: Annotated[int, typer.Option(min=1, help="Tokens to write at most.")] = 100,
    samples: Annotated[int, typer.Option(min=1, help="Texts to write.")] = 1,
    temperature: Annotated[float, typer.Option(help="Below 1: more probable tokens; above 1: more surprising.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Draw among this number of most probable tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw among the most probable tokens of this probability.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other texts.")] = 1,
    lines: Annotated[
        bool | None,
        typer.Option(
            "--lines/--one-line",
            help="Go on after the end of a line, or stop there; by default, go on if the run has a context.",
        ),
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Write each token as soon as it is drawn.")] = False,
    format: Annotated[str, typer.Option(help="text (an empty line between texts) or jsonl.")] = "text",
) -> None:
    """Write texts that go on with a prompt, by sampling from a language model.

    \b
    Examples:
      transduce generate runs/ptb-lstm --prompt "the company" --samples 3
    """
    from transduce.wings.language.generation import Generated, Writer
    from transduce.wings.language.generation_search import Generation

    def as_text(written: Generated) -> str:
        return written.text

    def as_json(written: Generated) -> str:
        values = {"prompt": prompt, "text": written.text, "log_prob": written.log_prob}
        return json.dumps(values, ensure_ascii=False)

    write = formats.choose(format, {"text": as_text, "jsonl": as_json})
    if stream and (samples > 1 or format != "text"):
        raise UserError("--stream writes one text as it comes: leave out --samples and --format")
    transducer = trained.load()
    across = transducer.context is not None if lines is None else lines
    how = Generation(length, samples, temperature, top_k, top_p, seed, across)
    writer = Writer(transducer, how, transducer.context)
    if stream:
        for piece in writer.stream(prompt):
            print(piece, end="", flush=True)
        print(flush=True)
        return
    for number, written in enumerate(writer(prompt)):
        print("\n" * (number > 0 and format == "text") + write(written))
