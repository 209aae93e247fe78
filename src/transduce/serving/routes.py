"""The routes for the verbs of a run: predict, n-best, score, align, complete and stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest

from transduce.answers.answer import Answer
from transduce.answers.answer_values import answer_values, json_text
from transduce.answers.attention_weights import AttentionChoice
from transduce.answers.request import Extras, Request
from transduce.errors import RequestError
from transduce.search.constraints.base import Constraints
from transduce.serving import bodies
from transduce.serving.catalogue import Catalogue
from transduce.serving.events import events
from transduce.serving.service import Service
from transduce.serving.uploads import shown_source, sources_of

NBEST = 5  # outputs of /n-best


def as_json(value: Any, status: int = 200) -> Response:
    """A response with a value as JSON."""
    return Response(json_text(value), status, media_type="application/json")


def verbs(catalogue: Catalogue) -> APIRouter:
    """The routes for the runs of a catalogue."""
    router = APIRouter()
    limits = catalogue.limits

    @router.post("/predict", openapi_extra=schema(bodies.Predict))
    async def predict(request: HttpRequest) -> Response:
        """The best output for each source."""
        return await answered(*await bodies.read(request, bodies.Predict))

    @router.post("/n-best", openapi_extra=schema(bodies.Predict))
    async def nbest(request: HttpRequest) -> Response:
        """Several outputs for each source, best first."""
        body, files = await bodies.read(request, bodies.Predict)
        return await answered(body.model_copy(update={"nbest": NBEST if body.nbest is None else body.nbest}), files)

    async def answered(body: bodies.Predict, files: Sequence[bodies.Uploaded]) -> Response:
        service = catalogue.find(body.model)
        if body.nbest is not None:
            limits.check_number("nbest", body.nbest, limits.nbest)
        for phrase in [body.prefix, *_flat(body.required), *body.forbidden]:
            limits.check_text("a prefix or a phrase", phrase)
        limits.check_texts("required and forbidden", 1 + len(body.required) + len(body.forbidden))
        given = body.texts if body.source is not None or files else [""] * (not service.transducer.conditional)
        limits.check_texts("source", len(given) + len(files))
        constraints = Constraints(body.required, body.forbidden)
        extras = Extras(body.alignments, body.frames, {} if body.replace_unknowns else None)
        with sources_of(service, given, files) as sources:
            requests = [Request(each, body.prefix, constraints or None, body.nbest, None, extras) for each in sources]
            return _answers(service, await service.answer(requests), files)

    @router.post("/score", openapi_extra=schema(bodies.Pair))
    async def score(request: HttpRequest) -> Response:
        """The model's log-probability of each target."""
        body, files = await bodies.read(request, bodies.Pair)
        service = catalogue.find(body.model)
        with sources_of(service, body.texts, files) as sources:
            pairs = _pairs(service, sources, body.targets)
            found = await service.answer([Request(each, target=target) for each, target in pairs])
            return _answers(service, found, files)

    @router.post("/align", openapi_extra=schema(bodies.Align))
    async def align(request: HttpRequest) -> Response:
        """The source words of each target word."""
        body, files = await bodies.read(request, bodies.Align)
        service = catalogue.find(body.model)
        choice = AttentionChoice(body.attention, body.head, body.after)
        with sources_of(service, body.texts, files) as sources:
            pairs = _pairs(service, sources, body.targets)
            found = await service.desk.call(lambda: service.transducer.align(pairs, body.direction, choice))  # type: ignore[arg-type]
            return as_json({"model": service.name, "answers": [found.record(pair) for pair in range(len(pairs))]})

    @router.post("/complete", openapi_extra=schema(bodies.Complete))
    async def complete(request: HttpRequest) -> Response:
        """The most probable next words of each prefix."""
        body, _ = await bodies.read(request, bodies.Complete)
        service = catalogue.find(body.model)
        _check_reads_text(service)
        prefixes = [body.prefix] if isinstance(body.prefix, str) else body.prefix
        limits.check_texts("prefix", len(prefixes))
        limits.check_number("k", body.k, limits.nbest)
        for text in [*prefixes, body.begun, body.source or ""]:
            limits.check_text("prefix", text)
        sources = None if body.source is None else [body.source] * len(prefixes)
        found = await service.complete(prefixes, body.k, body.begun, sources)
        answers = [
            {"prefix": prefix, "words": [word._asdict() for word in words]}
            for prefix, words in zip(prefixes, found, strict=True)
        ]
        return as_json({"model": service.name, "answers": answers})

    @router.post("/stream", openapi_extra=schema(bodies.Stream))
    async def stream(request: HttpRequest) -> Response:
        """The best output in pieces, each as soon as it is decided, as server-sent events."""
        body, _ = await bodies.read(request, bodies.Stream)
        service = catalogue.find(body.model)
        _check_reads_text(service)
        limits.check_text("source", body.source)
        limits.check_text("prefix", body.prefix)
        pieces = service.desk.iterate(service.stream(body.source, body.prefix))
        return await events(({"text": piece} async for piece in pieces), {"done": True}, limits.seconds)

    return router


def schema(kind: type[bodies.Body]) -> dict[str, Any]:
    """The part of OpenAPI that describes the body of a route."""
    content = {"application/json": {"schema": kind.model_json_schema()}}
    return {"requestBody": {"content": content, "required": True}}


def _check_reads_text(service: Service) -> None:
    """Raises RequestError for a model that reads files: this route takes a text and never a path."""
    if service.reads_files:
        raise RequestError(f"{service.name} reads files, and this route takes text: upload the file to /predict")


def _flat(phrases: Sequence[str | Sequence[str]]) -> list[str]:
    return [text for each in phrases for text in ([each] if isinstance(each, str) else each)]


def _pairs(service: Service, sources: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of a source and a target. A language model has empty sources."""
    limits = service.limits
    limits.check_texts("target", len(targets))
    for target in targets:
        limits.check_text("target", target)
    if not service.transducer.conditional and not sources:
        sources = [""] * len(targets)
    if len(sources) != len(targets):
        raise RequestError(f"there are {len(sources)} sources and {len(targets)} targets: give one target for each")
    return list(zip(sources, targets, strict=True))


def _answers(service: Service, answers: Sequence[Answer], files: Sequence[bodies.Uploaded]) -> Response:
    found = []
    for number, answer in enumerate(answers, 1):
        source = shown_source(answer.request.source, files)
        values = answer_values(replace(answer, request=replace(answer.request, source=source)) if files else answer)
        warnings = answer.warnings(number)
        found.append({**values, "warnings": warnings} if warnings else values)
    return as_json({"model": service.name, "answers": found})
