"""``transduce chat``: a conversation with a model in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli import inputs
from transduce.cli.options import BeamSize, RunOptions
from transduce.core.errors import UserError
from transduce.wings.combining.commands.rerank import CHOICE, RankingOptions, ranking_models

if TYPE_CHECKING:
    from transduce.answers.transducer import Transducer
    from transduce.wings.language.dialogue import Conversation

COMMANDS = "/reset forgets all turns, /history shows them, and the end of the input (Ctrl-D) ends the conversation"
Reply = Callable[[str], Iterator[str]]  # from a source to the pieces of its reply


def chat(
    trained: RunOptions,
    ranking: RankingOptions,
    label: Annotated[
        list[str] | None,
        typer.Option(help="The topic of the conversation, or the speaker who replies; once per column of labels."),
    ] = None,
    turns: Annotated[
        int | None,
        typer.Option(min=1, help="Turns in a source; by default as many as in training (data.origin.turns)."),
    ] = None,
    beam: BeamSize = None,
) -> None:
    """Talk with a model: each line is a turn, and the model replies to the last turns.

    /reset forgets all turns, /history shows them, and Ctrl-D ends. A reply appears while it is written. If options rank
    replies (--language-model PRIOR=-0.5), the reply appears when the best of several is chosen.

    \b
    Examples:
      transduce chat runs/replies --label movies
    """
    from transduce.wings.serving.conversations import fitting, start

    transducer = trained.load(beam)
    conversation = start(transducer, label or (), turns)
    reply = _ranked(trained, ranking, transducer, beam) if ranking.given else transducer.stream
    prompt = "> " if sys.stdin is not None and sys.stdin.isatty() else ""
    lines = inputs.lines(None, inputs.longest_line(transducer))
    _talk(conversation, lambda now: reply(fitting(transducer, now)), lines, prompt)


def _talk(
    start: Conversation, reply: Callable[[Conversation], Iterator[str]], lines: Iterator[str], prompt: str
) -> None:
    """Replies to each line on standard output, and obeys the commands. ``reply`` returns the pieces of the next turn.
    ``prompt`` is printed on standard error before a line is read.
    """
    from transduce.metrics.units import one_line

    conversation = start
    while True:
        typer.echo(prompt, nl=False, err=True)
        line = next(lines, None)
        if line is None:
            break
        said = line.strip()
        if said == "/reset":
            conversation = start
        elif said == "/history":
            for turn in conversation.turns:
                print(turn, flush=True)
        elif said.startswith("/"):
            typer.echo(f"{said.split()[0]} is no command: {COMMANDS}", err=True)
        elif said:
            asked, answer = conversation.with_turn(said), ""
            try:
                for piece in reply(asked):
                    answer += piece
                    print(one_line(piece), end="", flush=True)
            except UserError as error:
                typer.echo(f"{error}; this turn is left out", err=True)
                continue
            print(flush=True)
            conversation = asked.with_turn(answer)


def _ranked(trained: RunOptions, ranking: RankingOptions, transducer: Transducer, beam: int | None) -> Reply:
    """A function that replies with the best of several outputs, by the criteria of ``ranking``."""
    from transduce.wings.combining.reranking.base import rerank

    criteria = ranking.criteria()
    if criteria.candidates:
        raise UserError("--candidates are outputs for the lines of a file, and a conversation has none: leave it out")
    reranker = ranking_models(criteria, trained, transducer, [], 64)
    search = transducer.search.resized(beam, criteria.nbest or min(CHOICE, beam or CHOICE))

    def reply(source: str) -> Iterator[str]:
        for answer in rerank(transducer, [source], reranker, search, 64):
            yield answer.best.text

    return reply
