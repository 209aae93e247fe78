"""Streams of outputs: the pieces of one output as the search decides them, or of whole outputs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from transduce.wings.serving.answerer import Continuing
from transduce.wings.serving.service import Service
from transduce.wings.serving.tokens import Token
from transduce.wings.serving.writing import CUT, Written, token_count


@dataclass(frozen=True)
class Piece:
    """A piece of the output with this ``index``. The last piece of an output has no text, but the ``reason`` of its end
    and its number of tokens. ``tokens`` are those of the text, if their log-probabilities are asked for.
    """

    index: int
    text: str
    tokens: tuple[Token, ...] | None = None
    reason: str | None = None
    count: int = 0


def pieces_of(outputs: Iterable[Written]) -> Iterator[Piece]:
    """The pieces of whole outputs, one after the other: each token that is known, otherwise the text at once."""
    for index, output in enumerate(outputs):
        if output.tokens:
            yield from (Piece(index, each.text, (each,)) for each in output.tokens)
        elif output.text:
            yield Piece(index, output.text)
        yield Piece(index, "", None, output.reason, output.count)


async def decided(
    service: Service, prompt: str, how: Continuing | None, stops: Sequence[str] = ()
) -> AsyncIterator[Piece]:
    """The pieces of an output, each as soon as the search has decided it: the best output of a run with sources if
    ``how`` is None, otherwise a continuation of the prompt. The output ends before the first of the ``stops``.
    """
    found, given = "", 0
    if how is None:
        texts = service.stream(prompt, "")
    else:
        texts = after(len(prompt), service.answerer.stream_continued(prompt, how))
    stopped = False
    async with aclosing(service.desk.iterate(texts)) as arriving:
        async for text in arriving:
            found += text
            sure, stopped = before_stop(found, stops)
            if sure > given:
                yield Piece(0, found[given:sure])
                given = sure
            if stopped:
                break
    end, stopped = before_stop(found, stops, ended=True)
    if end > given:
        yield Piece(0, found[given:end])
    count = token_count(service, found) + (how is None)
    yield Piece(0, "", None, CUT[False] if stopped else await _reason(service, prompt, found, how, count), count)


def after(skipped: int, texts: Iterator[str]) -> Iterator[str]:
    """The texts without their first ``skipped`` characters."""
    for text in texts:
        if len(text) > skipped:
            yield text[skipped:]
        skipped = max(0, skipped - len(text))


def before_stop(text: str, stops: Sequence[str], ended: bool = False) -> tuple[int, bool]:
    """How many characters of a text come before each stop, whatever follows; and True if a stop ends them. Nothing
    follows if the text has ``ended``.
    """
    places = [text.index(stop) for stop in stops if stop in text]
    begun = [] if ended else [_begun(text, stop) for stop in stops]
    place = min([len(text), *places, *begun])
    return place, place in places


def _begun(text: str, stop: str) -> int:
    """Where the end of a text begins that may become the stop."""
    lengths = range(min(len(stop) - 1, len(text)), 0, -1)
    return len(text) - next((length for length in lengths if text.endswith(stop[:length])), 0)


async def _reason(service: Service, prompt: str, text: str, how: Continuing | None, count: int) -> str:
    """The reason of the end of an output that no stop ended, as in ``Written``."""
    if how is not None:
        return CUT[count >= how.length]
    return CUT[await service.desk.call(lambda: service.answerer.was_cut(prompt, text, count))]
