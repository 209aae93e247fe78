"""The server as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from transduce import __version__
from transduce.answers.transducer import Transducer
from transduce.core.errors import BusyError, StoppedError, UserError
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.gate import Gate
from transduce.wings.serving.libretranslate import libretranslate
from transduce.wings.serving.limits import Limits
from transduce.wings.serving.measurements import Measurements
from transduce.wings.serving.openai import openai
from transduce.wings.serving.problems import REFUSAL_SECONDS, headers_of, problem, problem_body
from transduce.wings.serving.routes import as_json, verbs
from transduce.wings.serving.views import views

POLICY = "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; frame-ancestors 'none'"


def application(
    transducers: Mapping[str, Transducer],
    limits: Limits | None = None,
    key: str | None = None,
    hosts: Collection[str] | None = None,
) -> Gate:
    """The server for these models, by name, as an ASGI application. The first one answers requests that name none.

    ``key``, if given, is needed for all routes but the page and /health. ``hosts``, if given, are the names of the
    server that requests may have (``Gate``). When the application stops, it answers the requests that it has received,
    and closes its schedulers. Raises UserError if there is no model, or for a key that a header cannot have.
    """
    chosen = limits or Limits()
    catalogue, measurements = Catalogue(transducers, chosen), Measurements()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.get_running_loop().run_in_executor(None, catalogue.close)

    app = FastAPI(title="transduce", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    for router in (verbs(catalogue), views(catalogue), openai(catalogue), libretranslate(catalogue, key)):
        app.include_router(router)
    _add_pages(app, catalogue, measurements)

    @app.exception_handler(HTTPException)
    async def no_route(request: Request, error: HTTPException) -> Response:
        line = f"{request.method} {request.url.path[:60]}: {str(error.detail).lower()}"
        return Response(
            problem_body(line, request.url.path), error.status_code, error.headers, media_type="application/json"
        )

    async def failed(request: Request, error: Exception) -> Response:
        status, line = problem(error)
        return Response(problem_body(line, request.url.path), status, headers_of(status), media_type="application/json")

    async def busy(request: Request, error: Exception) -> Response:
        await asyncio.sleep(REFUSAL_SECONDS)
        return await failed(request, error)

    for kind in (UserError, StoppedError, TimeoutError, Exception):
        app.add_exception_handler(kind, failed)
    app.add_exception_handler(BusyError, busy)
    return Gate(app, chosen, measurements, key, hosts)


def _add_pages(app: FastAPI, catalogue: Catalogue, measurements: Measurements) -> None:
    """Adds /health, /models, /metrics and the studio."""
    studio = Path(str(resources.files("transduce.wings.serving") / "studio"))

    @app.get("/health")
    async def health() -> Response:
        """Shows that the server answers, and returns the names of its runs."""
        return as_json({"status": "ok", "models": [each.name for each in catalogue]})

    @app.get("/models")
    async def models() -> Response:
        """A description of each run, with the kinds of data that it reads and writes."""
        return as_json({"models": [each.describe() for each in catalogue]})

    @app.get("/metrics")
    async def metrics() -> Response:
        """Requests, seconds and queues in Prometheus' text format."""
        return Response(measurements.text(catalogue), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        text = (studio / "index.html").read_bytes()
        return Response(text, media_type="text/html; charset=utf-8", headers={"content-security-policy": POLICY})

    app.mount("/studio", StaticFiles(directory=studio), name="studio")
