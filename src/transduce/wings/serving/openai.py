"""The routes of OpenAI's interface: /v1/completions, /v1/chat/completions and /v1/models, for clients that know it.

A run without a source (a language model) continues the prompt of a completion. A run with a source reads the prompt as
its source, and so the last message of a chat. A run of dialogues reads the last turns of a chat.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest

from transduce.core.errors import RequestError
from transduce.wings.serving import bodies
from transduce.wings.serving.catalogue import Catalogue, ServedRun
from transduce.wings.serving.conversations import fitting, start, turns_of
from transduce.wings.serving.events import events
from transduce.wings.serving.openai_bodies import Chat, Completion, Writing
from transduce.wings.serving.routes import as_json, schema
from transduce.wings.serving.service import Service
from transduce.wings.serving.tokens import Token
from transduce.wings.serving.writing import Pieces, Written, by_sampling, by_search, read_count

Choice = Callable[[int, str, str | None], dict[str, Any]]  # from index, text and reason of the end to a value of JSON


def openai(catalogue: Catalogue) -> APIRouter:
    """The routes for the runs of a catalogue."""
    router = APIRouter(prefix="/v1", tags=["openai"])
    started, seconds = int(time.time()), catalogue.limits.seconds

    def described(run: ServedRun) -> dict[str, Any]:
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
        how = None if service.transducer.conditional else body.generation()
        head = _head("cmpl", "text_completion", service)
        if body.stream:
            pieces = Pieces(service, body.prompts[0], how, bool(body.echo))
            return await events(_chunks(service, body, body.prompts[0], pieces, head, _text), "[DONE]", seconds)
        log_probs, client = body.logprobs is not None, request.client
        choices: list[dict[str, Any]] = []
        written = 0
        for prompt in body.prompts:
            if how is None:
                every = await by_search(service, prompt, body.count, log_probs, client)
            else:
                every = await by_sampling(service, prompt, how, log_probs)
            for each in (each.before(body.stops) for each in every):
                text = prompt + each.text if body.echo else each.text
                choice = _text(len(choices), text, each.reason)
                choices.append(choice | {"logprobs": _completion_log_probs(each.tokens) if log_probs else None})
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
            chunks = _chunks(service, body, source, Pieces(service, source, None), head, _delta)
            return await events(chunks, "[DONE]", seconds)
        every = await by_search(service, source, body.count, bool(body.logprobs), request.client)
        every = [each.before(body.stops) for each in every]
        choices = [_message(index, each, bool(body.logprobs)) for index, each in enumerate(every)]
        head = _head("chatcmpl", "chat.completion", service) | _told([*warnings, *every[0].warnings])
        usage = _usage(read_count(service, source), sum(each.count for each in every))
        return as_json({**head, "choices": choices, "usage": usage})

    return router


def _head(kind: str, name: str, service: Service) -> dict[str, Any]:
    """The first values of an answer or of a chunk of a stream."""
    return {"id": f"{kind}-{time.time_ns():x}", "object": name, "created": int(time.time()), "model": service.name}


def _told(warnings: list[str]) -> dict[str, Any]:
    return {"warnings": warnings} if warnings else {}


def _usage(read: int, written: int) -> dict[str, int]:
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


async def _chunks(
    service: Service, body: Writing, prompt: str, pieces: Pieces, head: dict[str, Any], choice: Choice
) -> AsyncIterator[dict[str, Any]]:
    """The chunks of a stream: its pieces, the reason of its end, and its number of tokens if the client wants it."""
    async for text in pieces:
        yield {**head, "choices": [choice(0, text, None)]}
    yield {**head, "choices": [choice(0, "", await pieces.reason())]}
    if body.tells_usage:
        yield {**head, "choices": [], "usage": _usage(read_count(service, prompt), pieces.count)}


def _text(index: int, text: str, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}


def _delta(index: int, text: str, reason: str | None) -> dict[str, Any]:
    delta = {"role": "assistant", "content": text} if reason is None else {}
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}


def _message(index: int, written: Written, log_probs: bool) -> dict[str, Any]:
    return {
        "index": index,
        "message": {"role": "assistant", "content": written.text, "refusal": None},
        "logprobs": {"content": list(map(_chat_log_prob, written.tokens)), "refusal": None} if log_probs else None,
        "finish_reason": written.reason,
    }


def _completion_log_probs(tokens: tuple[Token, ...]) -> dict[str, Any]:
    return {
        "tokens": [each.text for each in tokens],
        "token_logprobs": [each.log_prob for each in tokens],
        "top_logprobs": [{each.text: each.log_prob} for each in tokens],
        "text_offset": [each.offset for each in tokens],
    }


def _chat_log_prob(token: Token) -> dict[str, Any]:
    return {"token": token.text, "logprob": token.log_prob, "bytes": list(token.text.encode()), "top_logprobs": []}


def _source(service: Service, body: Chat) -> tuple[str, list[str]]:
    """The source of the last message of a chat, and warnings about the messages that the run does not read. Raises
    RequestError for a language model, and for wrong labels.
    """
    if not service.transducer.conditional:
        raise RequestError(f"{service.name} is a language model, and continues a text: use /v1/completions")
    turns = [each.text for each in body.messages if each.role in ("user", "assistant")]
    instructions, warnings = len(body.messages) - len(turns), []
    if instructions:
        warnings.append(f"messages of the system, not read because {service.name} has no instructions: {instructions}")
    if turns_of(service.transducer) is not None:
        conversation = start(service.transducer, body.labels, None, "labels")
        for turn in turns:
            conversation = conversation.with_turn(turn)
        return fitting(service.transducer, conversation), warnings
    if body.labels:
        raise RequestError(f"labels are for a run of dialogues, and {service.name} is none: leave them out")
    if len(turns) > 1:
        warnings.append(f"messages before the last one, not read because {service.name} has no turns: {len(turns) - 1}")
    return turns[-1], warnings
