"""The server as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import resources
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from transduce import __version__
from transduce.core.errors import BusyError, StoppedError, UserError
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.gate import Gate
from transduce.wings.serving.keys import Keys
from transduce.wings.serving.libretranslate import libretranslate
from transduce.wings.serving.measurements import Measurements
from transduce.wings.serving.openai import openai
from transduce.wings.serving.operation import operation
from transduce.wings.serving.problems import REFUSAL_SECONDS, headers_of, problem, problem_body
from transduce.wings.serving.proxies import Proxies
from transduce.wings.serving.routes import verbs
from transduce.wings.serving.views import views
from transduce.wings.serving.visits import Visits

POLICY = "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; frame-ancestors 'none'"
SENT = ("authorization", "content-type", "x-api-key", "x-request-id")  # headers that pages of other sites may send
SHOWN = ("content-disposition", "retry-after", "x-request-id", "x-units")  # headers that they may read
REMEMBERED = 600  # seconds for which a browser remembers what pages of other sites may do


def application(
    catalogue: Catalogue,
    keys: Keys | None = None,
    hosts: Collection[str] | None = None,
    origins: Sequence[str] = (),
    proxies: Proxies | None = None,
) -> Visits:
    """The server for the runs of a catalogue, as an ASGI application.

    ``keys`` and ``hosts`` are the keys and the names of the server that requests must have (``Gate``). Pages of the
    ``origins`` may ask the server; "*" means all. ``proxies`` may say who has asked. When the application stops, it
    answers the requests that it has received, and closes the catalogue.
    """
    measurements, proxies = Measurements(), proxies or Proxies()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        opening = catalogue.opened()
        yield
        opening.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await opening  # the server has reported its error
        await catalogue.close()

    app = FastAPI(
        title="transduce",
        version=__version__,
        description="Trained runs behind HTTP. An error is a status and a line, as on the command line.",
        openapi_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    for router in (
        verbs(catalogue),
        views(catalogue),
        openai(catalogue),
        libretranslate(catalogue, keys, proxies),
        operation(app, catalogue, measurements, proxies),
    ):
        app.include_router(router)
    _add_studio(app)
    _add_problems(app)
    gate: ASGIApp = Gate(app, catalogue.limits, keys, hosts)
    if origins:
        allowed = ["GET", "HEAD", "POST"]
        gate = CORSMiddleware(gate, list(origins), allowed, SENT, expose_headers=SHOWN, max_age=REMEMBERED)
    return Visits(gate, measurements, proxies)


def _add_problems(app: FastAPI) -> None:
    """Adds the answers to requests that fail."""

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


def _add_studio(app: FastAPI) -> None:
    studio = Path(str(resources.files("transduce.wings.serving") / "studio"))

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        text = (studio / "index.html").read_bytes()
        return Response(text, media_type="text/html; charset=utf-8", headers={"content-security-policy": POLICY})

    app.mount("/studio", StaticFiles(directory=studio), name="studio")
