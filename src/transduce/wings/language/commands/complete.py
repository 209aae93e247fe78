"""``transduce complete``: the most probable next words of each prefix."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from transduce.cli import formats, inputs
from transduce.cli.options import RunOptions


def complete(
    trained: RunOptions,
    prefix: Annotated[
        str | None, typer.Argument(help="The text before the word; lines of standard input if not given.")
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Words to write for each prefix.")] = 5,
    begun: Annotated[str, typer.Option(help="The letters that the word begins with.")] = "",
    size: Annotated[int, typer.Option(min=1, help="Unfinished words that the search keeps.")] = 32,
    batch_size: Annotated[int, typer.Option(min=1, help="Prefixes completed at a time; 1 answers at once.")] = 64,
    format: Annotated[str, typer.Option(help="text (word, tab, probability; a line between prefixes) or jsonl.")] = (
        "text"
    ),
) -> None:
    """Write the most probable next words of each prefix with their probabilities, best first.

    \b
    Examples:
      transduce complete runs/ptb-ngram "the company said" --k 5
    """
    from transduce.wings.language.completion import Completer
    from transduce.wings.language.completion_search import NextWords, Word

    def as_text(prefix: str, words: list[Word]) -> str:
        return "".join(f"{word.text}\t{word.probability:.6g}\n" for word in words)

    def as_json(prefix: str, words: list[Word]) -> str:
        return json.dumps({"prefix": prefix, "words": [word._asdict() for word in words]}, ensure_ascii=False)

    write = formats.choose(format, {"text": as_text, "jsonl": as_json})
    transducer = trained.load()
    completer = Completer(transducer, NextWords(k, size))
    given = inputs.lines(None, inputs.longest_line(transducer)) if prefix is None else [prefix]
    for text, words in completer.in_batches(given, begun, batch_size):
        print(write(text, words), flush=batch_size == 1, end="" if prefix is not None and format == "text" else "\n")
