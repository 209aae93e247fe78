"""Conversations with a run whose sources are the last turns of a dialogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from transduce.core.config import Table
from transduce.core.errors import RequestError
from transduce.core.registry import alternatives
from transduce.data.tokenizers.base import Tokenizer
from transduce.wings.language.dialogue import Conversation


class ReadsTurns(Protocol):
    """What a conversation needs of a model: a ``Transducer``, or an ``Answerer``."""

    @property
    def settings(self) -> Table: ...

    @property
    def conditional(self) -> bool: ...

    @property
    def source_tokenizer(self) -> Tokenizer: ...

    @property
    def max_source_length(self) -> int: ...


def turns_of(model: ReadsTurns) -> int | None:
    """The number of turns in a source of the run's training; None if its sources are no dialogues."""
    turns = model.settings.get("data", {}).get("origin", {}).get("turns")
    return turns if isinstance(turns, int) else None


def start(model: ReadsTurns, labels: Sequence[str], turns: int | None, option: str = "--label") -> Conversation:
    """A conversation without turns. ``turns`` is the number of turns in a source, by default as many as in training.
    ``option`` is the user's name of the labels. Raises RequestError if the run's sources have no history, or for wrong
    labels.
    """
    if not model.conditional:
        raise RequestError(
            "the model is a language model, and has no source to hold a history: see `transduce generate`"
        )
    tokenizer = model.source_tokenizer
    most = turns or turns_of(model)
    if most is None or tokenizer.numeric:
        raise RequestError(
            "the run's sources have no history: its data.origin has no turns. Train `replies`, or give --turns N if "
            'the sources are the last N turns of a dialogue with " | " between two turns'
        )
    known = [[entry[1] for entry in _entries(tokenizer, column)] for column in range(tokenizer.labels)]
    if len(labels) != len(known):
        raise RequestError(
            f"the sources have {len(known)} labels before the text, and {option} is given {len(labels)} times"
            + "".join(f"; known: {', '.join(sorted(column))}" for column in known)
        )
    for given, column in zip(labels, known, strict=True):
        if given not in column:
            raise RequestError(f"{option} {given!r}: no such label{alternatives(given, column)}")
    return Conversation(most, tuple(labels))


def fitting(model: ReadsTurns, conversation: Conversation) -> str:
    """The source of a conversation, with fewer turns if all are longer than the model's longest source. So the oldest
    turns are left out. A last turn that is too long alone is cut by the transducer, which warns.
    """
    for most in range(conversation.most, 1, -1):
        source = replace(conversation, most=most).source
        if len(model.source_tokenizer.encode([source])[0]) <= model.max_source_length:
            return source
    return replace(conversation, most=1).source


def _entries(tokenizer: Tokenizer, column: int) -> list[tuple[int, str]]:
    return [entry for entry in tokenizer.entries if isinstance(entry, tuple) and entry[0] == column]
