"""The routes of OpenAI's interface for completions, for clients that know it: /v1/completions and /v1/models.

A run without a source (a language model) continues the prompt. A run with a source reads the prompt as its source.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest
from pydantic import Field

from transduce.answers.request import Request
from transduce.core.errors import RequestError
from transduce.wings.language.generation import Writer
from transduce.wings.language.generation_search import Generation
from transduce.wings.serving import bodies
from transduce.wings.serving.bodies import Count, Index
from transduce.wings.serving.catalogue import Catalogue, ServedRun
from transduce.wings.serving.events import events
from transduce.wings.serving.routes import Client, as_json, schema
from transduce.wings.serving.service import Service

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "suffix": (None, ""),
    "logprobs": (None, 0),
    "logit_bias": (None, {}),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
}  # keys that the server knows and does not support, with the values that change nothing


Penalty = Annotated[float, Field(ge=-2, le=2)]


class Completion(bodies.Body):
    """The keys of /v1/completions. OpenAI does not have ``top_k``."""

    prompt: str | list[str] = ""
    max_tokens: Count | None = 16
    temperature: Annotated[float, Field(ge=0, le=100)] | None = 1.0
    top_p: Annotated[float, Field(ge=0, le=1)] | None = 1.0
    top_k: Count | None = None
    n: Count | None = 1
    best_of: Count | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: str | list[str] | None = None
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None
    echo: bool | None = False
    user: str | None = None
    suffix: str | None = None
    logprobs: Index | None = None
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    presence_penalty: Penalty | None = 0.0
    frequency_penalty: Penalty | None = 0.0

    @property
    def prompts(self) -> list[str]:
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt

    @property
    def stops(self) -> list[str]:
        return [each for each in ([self.stop] if isinstance(self.stop, str) else self.stop or []) if each]

    @property
    def count(self) -> int:
        """The number of outputs for each prompt."""
        return 1 if self.n is None else self.n

    def generation(self) -> Generation:
        """The settings with which a language model writes. Temperature 0 takes the most probable token."""
        temperature = 1.0 if self.temperature is None else self.temperature
        greedy = temperature == 0
        return Generation(
            16 if self.max_tokens is None else self.max_tokens,
            self.count,
            1.0 if greedy else temperature,
            1 if greedy else self.top_k,
            None if self.top_p in (None, 1) else self.top_p,
            int(time.time_ns() % 2**31) if self.seed is None else self.seed,
        )


def openai(catalogue: Catalogue) -> APIRouter:
    """The routes for the runs of a catalogue."""
    router = APIRouter(prefix="/v1", tags=["openai"])
    started = int(time.time())

    def described(run: ServedRun) -> dict[str, Any]:
        return {"id": run.name, "object": "model", "created": started, "owned_by": "transduce"}

    @router.get("/models")
    async def models() -> Response:
        """The names of the runs."""
        return as_json({"object": "list", "data": [described(each) for each in catalogue]})

    @router.get("/models/{name:path}")
    async def model(name: str) -> Response:
        """Status 200 if there is a run with this name."""
        return as_json(described(catalogue.run(name)))

    @router.post("/completions", openapi_extra=schema(Completion))
    async def completions(request: HttpRequest) -> Response:
        """The continuation of a prompt by a language model, or the output for it as the source of another run."""
        body, _ = await bodies.read(request, Completion)
        service = await catalogue.find(body.model)
        _check(service, body)
        head = {"id": f"cmpl-{time.time_ns():x}", "object": "text_completion", "created": int(time.time())}
        head |= {"model": service.name}
        if body.stream:
            (prompt,) = body.prompts
            chunks = ({**head, "choices": [_choice(0, text, None)]} async for text in _pieces(service, body, prompt))
            return await events(chunks, "[DONE]", catalogue.limits.seconds)
        found = [each for prompt in body.prompts for each in await _texts(service, body, prompt, request.client)]
        choices = [_choice(index, text, reason) for index, (text, reason, _) in enumerate(found)]
        written = sum(tokens for _, _, tokens in found)
        read = sum(_tokens(service, prompt) for prompt in body.prompts)
        usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        return as_json({**head, "choices": choices, "usage": usage})

    return router


def _choice(index: int, text: str, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}


def _check(service: Service, body: Completion) -> None:
    """Raises RequestError if the request has keys that the server does not support, or exceeds its limits."""
    limits = service.limits
    for name, neutral in NEUTRAL.items():
        if getattr(body, name) not in neutral:
            raise RequestError(f"{name} = {str(getattr(body, name))[:60]}: the server does not have it; leave it out")
    if body.best_of not in (None, body.count):
        raise RequestError(f"best_of = {body.best_of}: the server does not have it; leave it out")
    if service.reads_files:
        raise RequestError(f"{service.name} reads files, and a prompt is text: upload the file to /predict")
    limits.check_texts("prompt", len(body.prompts))
    for prompt in body.prompts:
        limits.check_text("prompt", prompt)
    limits.check_number("n", body.count, limits.nbest)
    if body.max_tokens is not None:
        limits.check_number("max_tokens", body.max_tokens, limits.tokens)
    if body.stream and (len(body.prompts) != 1 or body.count != 1 or body.stops):
        raise RequestError("stream writes one output for one prompt as it comes: leave out n, stop and other prompts")


async def _texts(service: Service, body: Completion, prompt: str, client: Client) -> list[tuple[str, str, int]]:
    """The outputs for a prompt: the text, the reason of its end, and its number of tokens."""
    before = prompt if body.echo else ""
    if service.transducer.conditional:
        request = Request(prompt, nbest=None if body.n in (None, 1) else body.n)
        (answer,) = await service.answer([request], client)
        found = [
            (each.text, "stop" if each.cut_at is None else "length", len(each.tokens))
            for each in answer.outputs[: body.count]
        ]
    else:
        how = body.generation()
        writer = Writer(service.transducer, how)
        drawn = [each.text[len(prompt) :] for each in await service.desk.call(lambda: writer(prompt))]
        counts = [_tokens(service, text) for text in drawn]
        found = [
            (text, "length" if count >= how.length else "stop", count)
            for text, count in zip(drawn, counts, strict=True)
        ]
    return [(before + cut(text, body.stops), reason, count) for text, reason, count in found]


def cut(text: str, stops: Sequence[str]) -> str:
    """The text before the first of the ``stops`` that it contains."""
    return text[: min((text.index(stop) for stop in stops if stop in text), default=len(text))]


async def _pieces(service: Service, body: Completion, prompt: str) -> AsyncIterator[str]:
    """The output for a prompt in pieces."""
    if service.transducer.conditional:
        skipped, pieces = 0, service.stream(prompt, "")
    else:
        skipped, pieces = len(prompt), Writer(service.transducer, body.generation()).stream(prompt)
    if body.echo and service.transducer.conditional:
        yield prompt
    skipped = 0 if body.echo else skipped
    async for piece in service.desk.iterate(pieces):
        if len(piece) > skipped:
            yield piece[skipped:]
        skipped = max(0, skipped - len(piece))


def _tokens(service: Service, text: str) -> int:
    """The number of tokens of a prompt or an output, without its end."""
    tokenizers = service.transducer.tokenizers
    tokenizer = tokenizers.source if service.transducer.conditional else tokenizers.target
    return len(tokenizer.encode([text])[0]) - 1
