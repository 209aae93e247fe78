"""The routes of OpenAI's interface: /v1/completions, /v1/chat/completions and /v1/models, for clients that know it.

A run without a source (a language model) continues the prompt of a completion. A run with a source reads the prompt as
its source, and so the last message of a chat. A run of dialogues reads the last turns of a chat.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable

from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest

from transduce.core.errors import RequestError
from transduce.wings.serving import bodies
from transduce.wings.serving.answerer import Continuing
from transduce.wings.serving.catalogue import Catalogue, ServedRun
from transduce.wings.serving.conversations import fitting, start, turns_of
from transduce.wings.serving.events import events
from transduce.wings.serving.openai_bodies import Chat, Completion, Writing
from transduce.wings.serving.routes import Client, as_json, schema
from transduce.wings.serving.service import Service
from transduce.wings.serving.streams import Piece, decided, pieces_of
from transduce.wings.serving.tokens import Token
from transduce.wings.serving.writing import Written, by_sampling, by_search, read_count

Choice = Callable[[Piece], dict[str, object]]  # a piece as a value of JSON


def openai(catalogue: Catalogue) -> APIRouter:
    """The routes for the runs of a catalogue."""
    router = APIRouter(prefix="/v1", tags=["openai"])
    started, seconds = int(time.time()), catalogue.limits.seconds

    def described(run: ServedRun) -> dict[str, object]:
        return {"id": run.name, "object": "model", "created": started, "owned_by": "transduce"}

    async def found(body: Writing) -> Service:
        service = await catalogue.find(body.model)
        body.check(catalogue.limits)
        if service.reads_files:
            raise RequestError(f"{service.name} reads files, and a prompt is text: upload the file to /predict")
        return service

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
        service = await found(body)
        how = None if service.answerer.conditional else body.continuing()
        head = _head("cmpl", "text_completion", service)
        if body.stream:
            chunks = _chunks(service, body, body.prompts[0], how, head, _text, request.client)
            return await events(chunks, "[DONE]", seconds)
        choices: list[dict[str, object]] = []
        written = 0
        for prompt in body.prompts:
            for each in await _written(service, body, prompt, how, request.client):
                text = prompt + each.text if body.echo else each.text
                choices.append(_text(Piece(len(choices), text, each.tokens, each.reason)))
                written += each.count
        read = sum(read_count(service, prompt) for prompt in body.prompts)
        return as_json({**head, "choices": choices, "usage": _usage(read, written)})

    @router.post("/chat/completions", openapi_extra=schema(Chat))
    async def chats(request: HttpRequest) -> Response:
        """The reply of a run of dialogues to a chat, or the output of another run for the last message."""
        body, _ = await bodies.read(request, Chat)
        service = await found(body)
        source, warnings = _source(service, body)
        if body.stream:
            head = _head("chatcmpl", "chat.completion.chunk", service) | _told(warnings)
            chunks = _chunks(service, body, source, None, head, _delta, request.client)
            return await events(chunks, "[DONE]", seconds)
        every = await _written(service, body, source, None, request.client)
        choices = [_message(index, each) for index, each in enumerate(every)]
        head = _head("chatcmpl", "chat.completion", service) | _told([*warnings, *every[0].warnings])
        usage = _usage(read_count(service, source), sum(each.count for each in every))
        return as_json({**head, "choices": choices, "usage": usage})

    return router


def _head(kind: str, name: str, service: Service) -> dict[str, object]:
    """The first values of an answer or of a chunk of a stream."""
    return {"id": f"{kind}-{time.time_ns():x}", "object": name, "created": int(time.time()), "model": service.name}


def _told(warnings: list[str]) -> dict[str, object]:
    return {"warnings": warnings} if warnings else {}


def _usage(read: int, written: int) -> dict[str, int]:
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


async def _written(
    service: Service, body: Writing, prompt: str, how: Continuing | None, client: Client
) -> list[Written]:
    """The outputs for a prompt, each up to its first stop."""
    if how is None:
        every = await by_search(service, prompt, body.count, body.best, client)
    else:
        every = await by_sampling(service, prompt, how, body.best)
    return [each.before(body.stops) for each in every]


async def _chunks(
    service: Service,
    body: Writing,
    prompt: str,
    how: Continuing | None,
    head: dict[str, object],
    choice: Choice,
    client: Client,
) -> AsyncIterator[dict[str, object]]:
    """The chunks of a stream: its pieces, and its number of tokens if the client wants it. Several outputs, those with
    log-probabilities, and those of an engine that searches by itself come when they are whole.
    """
    for index in range(body.count if body.echoes else 0):
        yield {**head, "choices": [choice(Piece(index, prompt))]}
    count = 0
    if body.count > 1 or body.best is not None or service.answerer.searching:
        for piece in pieces_of(await _written(service, body, prompt, how, client)):
            yield {**head, "choices": [choice(piece)]}
            count += piece.count
    else:
        async for piece in decided(service, prompt, how, body.stops):
            yield {**head, "choices": [choice(piece)]}
            count += piece.count
    if body.tells_usage:
        yield {**head, "choices": [], "usage": _usage(read_count(service, prompt), count)}


def _text(piece: Piece) -> dict[str, object]:
    log_probs = None if piece.tokens is None else _completion_log_probs(piece.tokens)
    return {"index": piece.index, "text": piece.text, "logprobs": log_probs, "finish_reason": piece.reason}


def _delta(piece: Piece) -> dict[str, object]:
    delta = {"role": "assistant", "content": piece.text} if piece.reason is None else {}
    log_probs = _chat_log_probs(piece.tokens)
    return {"index": piece.index, "delta": delta, "logprobs": log_probs, "finish_reason": piece.reason}


def _message(index: int, written: Written) -> dict[str, object]:
    return {
        "index": index,
        "message": {"role": "assistant", "content": written.text, "refusal": None},
        "logprobs": _chat_log_probs(written.tokens),
        "finish_reason": written.reason,
    }


def _completion_log_probs(tokens: tuple[Token, ...]) -> dict[str, object]:
    return {
        "tokens": [each.text for each in tokens],
        "token_logprobs": [each.log_prob for each in tokens],
        "top_logprobs": [{each.text: each.log_prob} | dict(reversed(each.best)) for each in tokens],
        "text_offset": [each.offset for each in tokens],
    }


def _chat_log_probs(tokens: tuple[Token, ...] | None) -> dict[str, object] | None:
    def entry(text: str, log_prob: float) -> dict[str, object]:
        return {"token": text, "logprob": log_prob, "bytes": list(text.encode())}

    if tokens is None:
        return None
    best = ([entry(*other) for other in each.best] for each in tokens)
    content = [entry(each.text, each.log_prob) | {"top_logprobs": row} for each, row in zip(tokens, best, strict=True)]
    return {"content": content, "refusal": None}


def _source(service: Service, body: Chat) -> tuple[str, list[str]]:
    """The source of the last message of a chat, and warnings about the messages that the run does not read. Raises
    RequestError for a language model, and for wrong labels.
    """
    if not service.answerer.conditional:
        raise RequestError(f"{service.name} is a language model, and continues a text: use /v1/completions")
    turns = [each.text for each in body.messages if each.role in ("user", "assistant")]
    instructions, warnings = len(body.messages) - len(turns), []
    if instructions:
        warnings.append(f"messages of the system, not read because {service.name} has no instructions: {instructions}")
    if turns_of(service.answerer) is not None:
        conversation = start(service.answerer, body.labels, None, "labels")
        for turn in turns:
            conversation = conversation.with_turn(turn)
        return fitting(service.answerer, conversation), warnings
    if body.labels:
        raise RequestError(f"labels are for a run of dialogues, and {service.name} is none: leave them out")
    if len(turns) > 1:
        warnings.append(f"messages before the last one, not read because {service.name} has no turns: {len(turns) - 1}")
    return turns[-1], warnings
