"""``transduce score``: the model's log-probability of given targets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli import formats, inputs
from transduce.cli.options import BatchSize, Pause, RunOptions, SourceFile, TargetFile
from transduce.cli.unanswered import Unanswered


def score(
    trained: RunOptions,
    files: Annotated[
        list[Path] | None, typer.Argument(help="TSV files of (labels,) source and target; standard input if none.")
    ] = None,
    source: SourceFile = None,
    target: TargetFile = None,
    format: Annotated[
        str, typer.Option(help="text (the log-probability), tsv (source, log-probability, target) or jsonl.")
    ] = "text",
    batch_size: BatchSize = 64,
    pause: Pause = 0.05,
) -> None:
    """Write the model's log-probability of each target, given its source.

    For a language model, each line is a target.

    \b
    Examples:
      transduce score runs/g2p pairs.tsv
    """
    from transduce.answers.answer import with_warnings
    from transduce.answers.request import Request

    write = formats.choose(format, formats.SCORES)
    transducer = trained.load()
    columns = inputs.source_columns(transducer)
    signal = transducer.source_tokenizer.signal
    longest = inputs.longest_line(transducer)
    pairs = inputs.pairs(files, source, target, transducer.conditional, signal, columns, longest)
    requests = (Request(text, target=output) for text, output in pairs)
    piped = not (source or target) and inputs.piped(files)
    given = inputs.arriving(requests, pause) if piped else requests
    unanswered = Unanswered()
    for answer in unanswered.counted(with_warnings(transducer.answer(given, None, batch_size, tolerant=True))):
        for line in write(answer):
            print(line, flush=piped or batch_size == 1)
    unanswered.end()
