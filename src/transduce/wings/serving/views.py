"""The routes that show how a run answers: its attention, the tree of its beam, and what speaks for its labels."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest

from transduce.core.errors import RequestError
from transduce.core.protocols import Searching, can
from transduce.wings.looking.inspection.attention import AttentionMap, attention
from transduce.wings.looking.inspection.beams import beam_tree
from transduce.wings.looking.inspection.classes import read_classes
from transduce.wings.looking.inspection.label_posteriors import label_posteriors, place_effects
from transduce.wings.looking.inspection.signal_attention import SignalAttention, signal_attention
from transduce.wings.serving import bodies
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.routes import as_json, schema
from transduce.wings.serving.service import Service
from transduce.wings.serving.uploads import sources_of

NODES = 400  # nodes of a tree; the page cannot draw more


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
        _check_open(service)
        given = [] if files else [body.source]
        if len(given) + len(files) != 1:
            raise RequestError(f"{len(files)} files: one was expected")
        with sources_of(service, given, files) as (source,):
            work = _signal_attention if service.reads_files else _attention
            return as_json(await service.desk.call(lambda: work(service, source, body)))

    @router.post("/tree", openapi_extra=schema(bodies.Tree))
    async def tree(request: HttpRequest) -> Response:
        """The tree of the beam search for a source: each node with its parent's index, best path first."""
        body, _ = await bodies.read(request, bodies.Tree)
        service = await catalogue.find(body.model)
        if body.beam is not None:
            limits.check_number("beam", body.beam, limits.nbest)
        limits.check_text("prefix", body.prefix)
        _check_open(service)
        with sources_of(service, [body.source], []) as (source,):
            return as_json(await service.desk.call(lambda: _tree(service, source, body)))

    @router.post("/labels", openapi_extra=schema(bodies.Labels))
    async def labels(request: HttpRequest) -> Response:
        """The probabilities of the labels of a source, and how much each of its words speaks for a label."""
        body, files = await bodies.read(request, bodies.Labels)
        service = await catalogue.find(body.model)
        limits.check_text("target", body.target or "")
        if service.labels is None:
            raise RequestError(f"{service.name} gives no labels that can be looked into: ask /predict")
        with sources_of(service, [] if files else [body.source], files) as (source, *_):
            return as_json(await service.desk.call(lambda: _labels(service, source, body)))

    return router


def _check_open(service: Service) -> None:
    """Raises RequestError for an engine that searches by itself, because its attention and beam are not visible."""
    if can(type(service.transducer.model), Searching):
        raise RequestError(
            f"{service.name} runs on an engine that searches by itself, so there is nothing to look into: serve the "
            "run with --engine torch or onnx"
        )


def _attention(service: Service, source: str, body: bodies.Attention) -> dict[str, Any]:
    found = attention(service.transducer, source, body.target, body.head)
    return {
        "model": service.name,
        "source": found.source_tokens,
        "target": found.target_tokens,
        **_weights(found, body),
    }


def _signal_attention(service: Service, source: str, body: bodies.Attention) -> dict[str, Any]:
    found = signal_attention(service.transducer, source, body.target, body.head)
    return {
        "model": service.name,
        "target": found.tokens,
        **_weights(found, body),
        "boxes": found.boxes_N4.tolist(),
    }


def _weights(found: AttentionMap | SignalAttention, body: bodies.Attention) -> dict[str, Any]:
    """The weights of one attention, or of the mean of all, and what there is to choose from."""
    if body.attention is not None and body.attention not in found.weights:
        raise RequestError(f"attention = {body.attention[:60]!r}: there is {', '.join(found.weights)}")
    chosen_TS = found.mean() if body.attention is None else found.weights[body.attention]
    return {
        "weights": _rounded(chosen_TS.tolist()),
        "attentions": list(found.weights),
        "heads": [found.heads[name] for name in found.weights],
    }


def _labels(service: Service, source: str, body: bodies.Labels) -> dict[str, Any]:
    if service.labels == "text":
        found = read_classes(service.transducer, source, body.target).record()
        found["classes"] = [{"label": label, "probability": p} for label, p in found["classes"].items()]
        return {"model": service.name, **found}
    reading = label_posteriors(service.transducer, source)
    told: dict[str, Any] = {"model": service.name, **reading.record()}
    if body.place is not None:
        told["words"] = [vars(each) for each in place_effects(service.transducer, reading, body.place, body.target)]
    return told


def _tree(service: Service, source: str, body: bodies.Tree) -> dict[str, Any]:
    transducer = service.transducer
    search = None if body.beam is None else transducer.search.resized(body.beam)
    found = beam_tree(transducer, source, search, body.prefix)
    limited = found.root.limited(NODES)
    rows = type(found)(found.source, limited, found.hypotheses, found.texts).rows()
    return {"model": service.name, "nodes": rows, "texts": found.texts}


def _rounded(rows: list[list[float]]) -> list[list[float]]:
    return [[round(weight, 4) for weight in row] for row in rows]
