"""The outputs of a run for a prompt, each with the reason of its end and the log-probability of each token.

``best`` is how many of the most probable tokens at its position each token has. None: without log-probabilities.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from transduce.answers.answer import Output
from transduce.answers.request import Request
from transduce.core.errors import RequestError
from transduce.wings.serving.answerer import Continued, Continuing
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
    tokens: tuple[Token, ...] | None = None
    warnings: tuple[str, ...] = ()

    def before(self, stops: Sequence[str]) -> Written:
        """The output up to the first of the ``stops`` that it contains."""
        end = min((self.text.index(stop) for stop in stops if stop in self.text), default=None)
        if end is None:
            return self
        tokens = None if self.tokens is None else tuple(_up_to(end, self.tokens))
        return replace(self, text=self.text[:end], reason="stop", tokens=tokens)


def _up_to(end: int, tokens: Iterable[Token]) -> Iterator[Token]:
    """The tokens before the place ``end``, of which the last may be a part of a token."""
    for each in tokens:
        if each.offset < end:
            yield replace(each, text=each.text[: end - each.offset])


async def by_search(service: Service, source: str, count: int, best: int | None, client: Client) -> list[Written]:
    """The ``count`` best outputs of a run that has sources."""
    (answer,) = await service.answer([Request(source, nbest=None if count == 1 else count)], client)
    warnings = tuple(answer.warnings(1))

    def written(output: Output) -> Written:
        tokens = None
        if best is not None:
            if output.log_prob is None:
                raise RequestError(f"{service.name} gives no log-probabilities: leave out logprobs")
            tokens = tokens_of(service, source, output.text, output.ids, output.token_log_probs, best=best)
        return Written(output.text, CUT[output.cut_at is not None], len(output.tokens), tokens, warnings)

    return await service.desk.call(lambda: [written(each) for each in answer.outputs[:count]])


async def by_sampling(service: Service, prompt: str, how: Continuing, best: int | None) -> list[Written]:
    """The continuations of a prompt by a language model, without the prompt."""

    def written(drawn: Continued) -> Written:
        text = drawn.text[len(prompt) :]
        count = token_count(service, text)
        tokens = None
        if best is not None:
            tokens = tokens_of(service, "", drawn.text, drawn.ids, drawn.token_log_probs, len(prompt), best)
        return Written(text, CUT[count >= how.length], count, tokens)

    return await service.desk.call(lambda: [written(each) for each in service.answerer.continued(prompt, how)])


def token_count(service: Service, text: str) -> int:
    """The number of tokens of an output, without its end."""
    return len(service.answerer.target_tokenizer.encode([text])[0]) - 1


def read_count(service: Service, text: str) -> int:
    """The number of tokens of a prompt, without its end."""
    answerer = service.answerer
    tokenizer = answerer.source_tokenizer if answerer.conditional else answerer.target_tokenizer
    return len(tokenizer.encode([text])[0]) - 1
