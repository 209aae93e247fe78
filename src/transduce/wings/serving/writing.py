"""The outputs of a run for a prompt, each with the reason of its end and the log-probability of each token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from transduce.answers.answer import Output
from transduce.answers.cuts import LIKELY
from transduce.answers.request import Request
from transduce.core.errors import RequestError
from transduce.search.limits import longest_output
from transduce.wings.language.generation import Generated, Writer
from transduce.wings.language.generation_search import Generation
from transduce.wings.serving.routes import Client
from transduce.wings.serving.service import Service
from transduce.wings.serving.tokens import Token, tokens_of

CUT = {True: "length", False: "stop"}  # reasons of an end: cut at a limit, or by the model


@dataclass(frozen=True)
class Written:
    """An output: its text, the reason of its end ("stop" or "length"), the number of its tokens, and the tokens, if
    their log-probabilities are asked for. ``warnings`` say what could not be met.
    """

    text: str
    reason: str
    count: int
    tokens: tuple[Token, ...] = ()
    warnings: tuple[str, ...] = ()

    def before(self, stops: Sequence[str]) -> Written:
        """The output up to the first of the ``stops`` that it contains."""
        end = min((self.text.index(stop) for stop in stops if stop in self.text), default=None)
        if end is None:
            return self
        tokens = tuple(each for each in self.tokens if each.offset < end)
        return replace(self, text=self.text[:end], reason="stop", tokens=tokens)


async def by_search(service: Service, source: str, count: int, log_probs: bool, client: Client) -> list[Written]:
    """The ``count`` best outputs of a run that has sources."""
    (answer,) = await service.answer([Request(source, nbest=None if count == 1 else count)], client)

    def written(output: Output) -> Written:
        if log_probs and output.log_prob is None:
            raise RequestError(f"{service.name} gives no log-probabilities: leave out logprobs")
        tokens = tokens_of(service, output.text, output.ids, output.token_log_probs) if log_probs else ()
        return Written(
            output.text, CUT[output.cut_at is not None], len(output.tokens), tokens, tuple(answer.warnings(1))
        )

    return await asyncio.to_thread(lambda: [written(each) for each in answer.outputs[:count]])


async def by_sampling(service: Service, prompt: str, how: Generation, log_probs: bool) -> list[Written]:
    """The continuations of a prompt by a language model, without the prompt."""
    writer = Writer(service.transducer, how)

    def written(drawn: Generated) -> Written:
        text = drawn.text[len(prompt) :]
        count = token_count(service, text)
        tokens = tokens_of(service, drawn.text, drawn.ids, drawn.token_log_probs, len(prompt)) if log_probs else ()
        return Written(text, CUT[count >= how.length], count, tokens)

    return await service.desk.call(lambda: [written(each) for each in writer(prompt)])


class Pieces:
    """A stream of the output for a prompt: the best one of a run with sources if ``how`` is None, otherwise a
    continuation. ``echo`` puts the prompt before it. An engine that searches by itself gives one piece. After the
    stream, ``text`` is the output without the prompt.
    """

    def __init__(self, service: Service, prompt: str, how: Generation | None, echo: bool = False) -> None:
        self._service, self._prompt, self._how, self._echo = service, prompt, how, echo
        self._whole: Written | None = None  # of an engine that searches by itself, which has no pieces
        self.text = ""

    async def __aiter__(self) -> AsyncIterator[str]:
        service, prompt, skipped = self._service, self._prompt, 0
        if self._echo:
            yield prompt
        if service.transducer.searching:
            (self._whole,) = await by_search(service, prompt, 1, False, None)
            self.text = self._whole.text
            yield self.text
            return
        if self._how is None:
            pieces = service.stream(prompt, "")
        else:
            skipped, pieces = len(prompt), Writer(service.transducer, self._how).stream(prompt)
        async for piece in service.desk.iterate(pieces):
            if len(piece) > skipped:
                self.text += piece[skipped:]
                yield piece[skipped:]
            skipped = max(0, skipped - len(piece))

    @property
    def count(self) -> int:
        """The number of tokens of the output, its end included for a run that has sources."""
        if self._whole is not None:
            return self._whole.count
        return token_count(self._service, self.text) + (self._how is None)

    async def reason(self) -> str:
        """The reason of the end, as in ``Written``."""
        if self._whole is not None:
            return self._whole.reason
        if self._how is not None:
            return CUT[self.count >= self._how.length]
        transducer = self._service.transducer
        (source,) = transducer.read([self._prompt])
        limit = longest_output(transducer.search, len(source.row))
        if limit is None or self.count < limit:
            return CUT[False]
        pair = (self._prompt, self.text)
        scored = await self._service.desk.call(lambda: next(iter(transducer.score([pair]))))
        return CUT[scored.token_log_probs[-1] <= LIKELY]


def token_count(service: Service, text: str) -> int:
    """The number of tokens of an output, without its end."""
    return len(service.transducer.tokenizers.target.encode([text])[0]) - 1


def read_count(service: Service, text: str) -> int:
    """The number of tokens of a prompt, without its end."""
    tokenizers = service.transducer.tokenizers
    tokenizer = tokenizers.source if service.transducer.conditional else tokenizers.target
    return len(tokenizer.encode([text])[0]) - 1
