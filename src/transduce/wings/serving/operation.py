"""The routes for those who operate a server: its health, its readiness, its measurements and its description."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Response

from transduce.wings.serving.api_page import api_page
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.measurements import Measurements
from transduce.wings.serving.proxies import Proxies
from transduce.wings.serving.routes import as_json

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'none'"


def operation(app: FastAPI, catalogue: Catalogue, measurements: Measurements, proxies: Proxies) -> APIRouter:
    """The routes for a catalogue. ``app`` has all routes; its table of them is the description."""
    router = APIRouter(tags=["operation"])

    @router.get("/health")
    async def health() -> Response:
        """Shows that the server answers, and the names of its runs."""
        return as_json({"status": "ok", "models": [each.name for each in catalogue]})

    @router.get("/ready")
    async def ready() -> Response:
        """Status 200 if the server can answer requests for its runs; 503 while it loads them, and when it stops."""
        problem = catalogue.problem
        values = {"status": "ready"} if problem is None else {"status": "not ready", "error": problem}
        return as_json(values, 200 if problem is None else 503)

    @router.get("/models")
    async def models() -> Response:
        """A description of each run, with the kinds of data that it reads and writes."""
        await catalogue.opened()
        return as_json({"models": [{**each.description, "loaded": each.service is not None} for each in catalogue]})

    @router.get("/card")
    async def card(model: str | None = None) -> Response:
        """The model card of a run: what it does, its data, its scores and its limits, in Markdown."""
        service = await catalogue.find(model)
        return as_json(await service.desk.call(service.card))

    @router.get("/metrics")
    async def metrics() -> Response:
        """Requests, seconds, bytes and queues in Prometheus' text format."""
        return Response(measurements.text(catalogue), media_type="text/plain; version=0.0.4; charset=utf-8")

    @router.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return as_json(described())

    @router.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        headers = {"content-security-policy": POLICY}
        return Response(api_page(described()), media_type="text/html; charset=utf-8", headers=headers)

    def described() -> dict[str, object]:
        """The description of all routes for programs (OpenAPI), with the address by which the client has asked."""
        return {**app.openapi(), "servers": [{"url": proxies.base() or "/"}]}

    return router
