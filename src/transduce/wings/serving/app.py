"""The server as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import resources
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

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
    asked = verbs(catalogue)
    for router in (
        asked,
        views(catalogue),
        openai(catalogue),
        libretranslate(catalogue, keys, proxies),
        operation(app, catalogue, measurements, proxies),
    ):
        app.include_router(router)
    _add_studio(app)
    _add_problems(app)
    gate: ASGIApp = Gate(Shortcut(app, asked), catalogue.limits, keys, hosts)
    if origins:
        allowed = ["GET", "HEAD", "POST"]
        gate = CORSMiddleware(gate, list(origins), allowed, SENT, expose_headers=SHOWN, max_age=REMEMBERED)
    return Visits(gate, measurements, proxies)


class Shortcut:
    """An ASGI application that answers POST for the paths of a router's endpoints, which take the request and return
    the response. FastAPI would take a fifth of the time of such a request, and has nothing to look up for it. ``app``
    answers everything else, also forms.
    """

    def __init__(self, app: ASGIApp, router: APIRouter) -> None:
        self._app = app
        self._routes = {each.path: each for each in router.routes if isinstance(each, APIRoute)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        post = scope["type"] == "http" and scope["method"] == "POST"
        route = self._routes.get(scope["path"]) if post else None
        if route is None or any(name == b"content-type" and b"form" in kind.lower() for name, kind in scope["headers"]):
            await self._app(scope, receive, send)
            return
        scope["route"] = route  # for the measurements
        request = Request(scope, receive)
        try:
            response = await route.endpoint(request)
        except Exception as error:
            response = await failed(request, error)
        await response(scope, receive, send)


async def failed(request: Request, error: Exception) -> Response:
    """The answer to a request that fails."""
    if isinstance(error, BusyError):
        await asyncio.sleep(REFUSAL_SECONDS)
    status, line = problem(error)
    return Response(problem_body(line, request.url.path), status, headers_of(status), media_type="application/json")


def _add_problems(app: FastAPI) -> None:
    """Adds the answers to requests that fail."""

    @app.exception_handler(HTTPException)
    async def no_route(request: Request, error: HTTPException) -> Response:
        line = f"{request.method} {request.url.path[:60]}: {str(error.detail).lower()}"
        return Response(
            problem_body(line, request.url.path), error.status_code, error.headers, media_type="application/json"
        )

    for kind in (UserError, BusyError, StoppedError, TimeoutError, Exception):
        app.add_exception_handler(kind, failed)


def _add_studio(app: FastAPI) -> None:
    studio = Path(str(resources.files("transduce.wings.serving") / "studio"))

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        text = (studio / "index.html").read_bytes()
        return Response(text, media_type="text/html; charset=utf-8", headers={"content-security-policy": POLICY})

    app.mount("/studio", StaticFiles(directory=studio), name="studio")
