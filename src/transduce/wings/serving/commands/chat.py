"""``transduce chat``: a conversation with a model in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

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
    transducer = trained.load(beam)
    conversation = _start(transducer, tuple(label or ()), turns)
    reply = _ranked(trained, ranking, transducer, beam) if ranking.given else transducer.stream
    prompt = "> " if sys.stdin is not None and sys.stdin.isatty() else ""
    lines = inputs.lines(None, inputs.longest_line(transducer))
    _talk(conversation, lambda now: reply(_fitting(transducer, now)), lines, prompt)


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


def _fitting(transducer: Transducer, conversation: Conversation) -> str:
    """The source of a conversation, with fewer turns if all are longer than the model's longest source. So the oldest
    turns are left out. A last turn that is too long alone is cut by the transducer, which warns.
    """
    for most in range(conversation.most, 1, -1):
        source = replace(conversation, most=most).source
        if len(transducer.source_tokenizer.encode([source])[0]) <= transducer.max_source_length:
            return source
    return replace(conversation, most=1).source


def _start(transducer: Transducer, labels: tuple[str, ...], turns: int | None) -> Conversation:
    """A conversation without turns. Raises UserError if the run's sources have no history, or for wrong labels."""
    from transduce.wings.language.dialogue import Conversation

    if not transducer.conditional:
        raise UserError("the model is a language model, and has no source to hold a history: see `transduce generate`")
    tokenizer = transducer.source_tokenizer
    most = turns or transducer.settings.get("data", {}).get("origin", {}).get("turns")
    if most is None or tokenizer.numeric:
        raise UserError(
            "the run's sources have no history: its data.origin has no turns. Train `replies`, or give --turns N if "
            'the sources are the last N turns of a dialogue with " | " between two turns'
        )
    known = [[entry[1] for entry in _entries(tokenizer, column)] for column in range(tokenizer.labels)]
    if len(labels) != len(known):
        raise UserError(
            f"the sources have {len(known)} labels before the text, and --label is given {len(labels)} times"
            + "".join(f"; known: {', '.join(sorted(column))}" for column in known)
        )
    for given, column in zip(labels, known, strict=True):
        if given not in column:
            from transduce.core.registry import alternatives

            raise UserError(f"--label {given!r}: no such label{alternatives(given, column)}")
    return Conversation(most, labels)


def _entries(tokenizer: Any, column: int) -> list[tuple[int, str]]:
    return [entry for entry in tokenizer.entries if isinstance(entry, tuple) and entry[0] == column]


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
