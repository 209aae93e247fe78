"""The routes for the verbs of a run: predict, n-best, score, align, complete and stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import replace
from typing import TypeVar

from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest
from pydantic import BaseModel

from transduce.answers.answer import Answer
from transduce.answers.answer_values import answer_values, json_text, unknown_values
from transduce.answers.request import Request
from transduce.core.errors import RequestError
from transduce.wings.serving import bodies
from transduce.wings.serving.answerer import Wanted
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.documents import Documents, checked_terms
from transduce.wings.serving.events import events
from transduce.wings.serving.service import Service
from transduce.wings.serving.tokens import pieces
from transduce.wings.serving.uploads import shown_source, sources_of

NBEST = 5  # outputs of /n-best
MANY = 64  # outputs; to write more as JSON would keep other clients waiting
Files = Sequence[bodies.Uploaded]
Client = Hashable  # the address of a connection
B = TypeVar("B", bound=bodies.Body)
Answering = Callable[[B, Files, Client], Awaitable[Response]]


def as_json(value: object, status: int = 200) -> Response:
    """A response with a value as JSON."""
    return Response(json_text(value), status, media_type="application/json")


def verbs(catalogue: Catalogue) -> APIRouter:
    """The routes for the runs of a catalogue."""
    router, verb = APIRouter(), Verbs(catalogue)
    _add(router, "/predict", bodies.Predict, verb.predict)
    _add(router, "/n-best", bodies.Predict, verb.nbest)
    _add(router, "/score", bodies.Pair, verb.score)
    _add(router, "/align", bodies.Align, verb.align)
    _add(router, "/complete", bodies.Complete, verb.complete)
    _add(router, "/stream", bodies.Stream, verb.stream)
    _add(router, "/document", bodies.Document, Documents(catalogue).translated, file=True)
    return router


def _add(router: APIRouter, path: str, kind: type[B], answer: Answering[B], file: bool = False) -> None:
    """Adds a route that reads a body of this ``kind`` and its uploaded files, and answers them to the client. ``file``
    is as for ``schema``.
    """

    async def endpoint(request: HttpRequest) -> Response:
        body, files = await bodies.read(request, kind)
        return await answer(body, files, request.client)

    router.add_api_route(
        path,
        endpoint,
        methods=["POST"],
        name=path[1:],
        description=answer.__doc__,
        openapi_extra=schema(kind, file),
    )


class Verbs:
    """Answers the bodies of requests with the runs of a catalogue, within its limits."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue, self._limits = catalogue, catalogue.limits

    async def predict(self, body: bodies.Predict, files: Files, client: Client) -> Response:
        """The best output for each source."""
        service = await self._catalogue.find(body.model)
        self._check_prediction(body)
        given = body.texts if body.source is not None or files else [""] * (not service.answerer.conditional)
        self._limits.check_texts("source", len(given) + len(files))
        with sources_of(service, given, files) as sources:
            requests = service.answerer.asked(map(Request, sources), self._wanted(body))
            found = await service.answer(checked_terms(requests, body, self._limits), client)
            if body.pieces or len(found) * (body.nbest or 1) > MANY:
                return await asyncio.to_thread(_answers, service, found, files, body.pieces)
            return _answers(service, found, files)

    async def nbest(self, body: bodies.Predict, files: Files, client: Client) -> Response:
        """Several outputs for each source, best first."""
        nbest = NBEST if body.nbest is None else body.nbest
        return await self.predict(body.model_copy(update={"nbest": nbest}), files, client)

    def _check_prediction(self, body: bodies.Predict) -> None:
        """Raises RequestError if there are more outputs, or more or longer phrases, than the limits allow."""
        if body.nbest is not None:
            self._limits.check_number("nbest", body.nbest, self._limits.nbest)
        for phrase in [body.prefix, *_flat(body.required), *body.forbidden]:
            self._limits.check_text("a prefix or a phrase", phrase)
        self._limits.check_texts("required and forbidden", 1 + len(body.required) + len(body.forbidden))

    def _wanted(self, body: bodies.Predict) -> Wanted:
        """What a body asks for. Raises RequestError for figures without protected spans, and for a phrase too long."""
        if body.figures is not None and not (body.protect or body.phrases):
            raise RequestError("figures is for protected spans: give protect = true too")
        for phrase in body.phrases:
            self._limits.check_text("a phrase", phrase)
        return Wanted(
            body.prefix,
            body.required,
            body.forbidden,
            body.nbest,
            body.alignments,
            body.frames,
            body.replace_unknowns,
            body.protect,
            body.phrases,
            body.figures,
            body.terms,
        )

    async def score(self, body: bodies.Pair, files: Files, client: Client) -> Response:
        """The model's log-probability of each target."""
        service = await self._catalogue.find(body.model)
        with sources_of(service, body.texts, files) as sources:
            pairs = _pairs(service, sources, body.targets)
            found = await service.answer([Request(each, target=target) for each, target in pairs], client)
            return _answers(service, found, files)

    async def align(self, body: bodies.Align, files: Files, client: Client) -> Response:
        """The source words of each target word."""
        service = await self._catalogue.find(body.model)
        with sources_of(service, body.texts, files) as sources:
            pairs = _pairs(service, sources, body.targets)
            inside = service.answerer.inside
            how = (body.direction, body.attention, body.head, body.after)
            found = await service.desk.call(lambda: inside.align(pairs, *how))
            answers = [
                {**record, **unknown_values(*service.answerer.unknown_of(*pair))}
                for record, pair in zip(found, pairs, strict=True)
            ]
            return as_json({"model": service.name, "answers": answers})

    async def complete(self, body: bodies.Complete, files: Files, client: Client) -> Response:
        """The most probable next words of each prefix."""
        service = await self._catalogue.find(body.model)
        _check_reads_text(service)
        self._limits.check_texts("prefix", len(body.prefixes))
        self._limits.check_number("k", body.k, self._limits.nbest)
        for text in [*body.prefixes, body.begun, body.source or ""]:
            self._limits.check_text("prefix", text)
        sources = None if body.source is None else [body.source] * len(body.prefixes)
        found = await service.complete(body.prefixes, body.k, body.begun, sources)
        answers = [
            {
                "prefix": prefix,
                "words": [word._asdict() for word in words],
                **unknown_values(*service.answerer.unknown_of(body.source or "", prefix)),
            }
            for prefix, words in zip(body.prefixes, found, strict=True)
        ]
        return as_json({"model": service.name, "answers": answers})

    async def stream(self, body: bodies.Stream, files: Files, client: Client) -> Response:
        """The best output in pieces, as server-sent events. Each piece is sent as soon as it cannot change."""
        service = await self._catalogue.find(body.model)
        _check_reads_text(service)
        self._limits.check_text("source", body.source)
        self._limits.check_text("prefix", body.prefix)
        pieces = service.desk.iterate(service.stream(body.source, body.prefix))
        end = {"done": True, **unknown_values(*service.answerer.unknown_of(body.source, body.prefix))}
        return await events(({"text": piece} async for piece in pieces), end, self._limits.seconds)


def schema(kind: type[BaseModel], file: bool = False) -> dict[str, object]:
    """The part of OpenAPI that describes the body of a route: JSON, or a form that needs a ``file``."""
    described = kind.model_json_schema()
    if file:
        described["properties"] = {"file": {"type": "string", "format": "binary"}} | described["properties"]
        described["required"] = ["file", *described.get("required", ())]
    content = {"multipart/form-data" if file else "application/json": {"schema": described}}
    return {"requestBody": {"content": content, "required": True}}


def _check_reads_text(service: Service) -> None:
    """Raises RequestError for a model that reads files, because this route takes a text and never a path."""
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
    if not service.answerer.conditional and not sources:
        sources = [""] * len(targets)
    if len(sources) != len(targets):
        raise RequestError(f"there are {len(sources)} sources and {len(targets)} targets: give one target for each")
    return list(zip(sources, targets, strict=True))


def _answers(service: Service, answers: Sequence[Answer], files: Files, cut: bool = False) -> Response:
    """``cut`` adds the text of each best output in pieces."""
    found = []
    for number, answer in enumerate(answers, 1):
        source = shown_source(answer.request.source, files)
        values = answer_values(replace(answer, request=replace(answer.request, source=source)) if files else answer)
        if cut and answer.outputs:
            values["pieces"] = pieces(service, answer.best)
        warnings = answer.warnings(number)
        found.append({**values, "warnings": warnings} if warnings else values)
    return as_json({"model": service.name, "answers": found})
