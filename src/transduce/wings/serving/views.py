"""The routes that show how a run answers: its attention, the tree of its beam, and what speaks for its labels."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest

from transduce.core.errors import RequestError
from transduce.wings.serving import bodies
from transduce.wings.serving.answerer import Inside
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.routes import as_json, schema
from transduce.wings.serving.service import Service
from transduce.wings.serving.uploads import sources_of


def views(catalogue: Catalogue) -> APIRouter:
    """The routes for the runs of a catalogue."""
    router = APIRouter()
    limits = catalogue.limits

    @router.post("/attention", openapi_extra=schema(bodies.Attention))
    async def attend(request: HttpRequest) -> Response:
        """The attention to the source while the model writes each token of the target."""
        body, files = await bodies.read(request, bodies.Attention)
        service = await catalogue.find(body.model)
        limits.check_text("target", body.target or "")
        given = [] if files else [body.source]
        if len(given) + len(files) != 1:
            raise RequestError(f"{len(files)} files: one was expected")
        with sources_of(service, given, files) as (source,):
            return await _seen(service, lambda it: it.attention(source, body.target, body.attention, body.head))

    @router.post("/tree", openapi_extra=schema(bodies.Tree))
    async def tree(request: HttpRequest) -> Response:
        """The tree of the beam search for a source: each node with its parent's index, best path first."""
        body, _ = await bodies.read(request, bodies.Tree)
        service = await catalogue.find(body.model)
        if body.beam is not None:
            limits.check_number("beam", body.beam, limits.nbest)
        limits.check_text("prefix", body.prefix)
        with sources_of(service, [body.source], []) as (source,):
            return await _seen(service, lambda it: it.tree(source, body.prefix, body.beam))

    @router.post("/labels", openapi_extra=schema(bodies.Labels))
    async def labels(request: HttpRequest) -> Response:
        """The probabilities of the labels of a source, and how much each of its words speaks for a label."""
        body, files = await bodies.read(request, bodies.Labels)
        service = await catalogue.find(body.model)
        limits.check_text("target", body.target or "")
        if service.answerer.labels is None:
            raise RequestError(f"{service.name} gives no labels that can be looked into: ask /predict")
        with sources_of(service, [] if files else [body.source], files) as (source, *_):
            return await _seen(service, lambda it: it.label_effects(source, body.target, body.place))

    return router


async def _seen(service: Service, look: Callable[[Inside], dict[str, object]]) -> Response:
    """What there is to see inside of the model, found at the desk."""
    found = await service.desk.call(lambda: look(service.answerer.inside))
    return as_json({"model": service.name, **found})
