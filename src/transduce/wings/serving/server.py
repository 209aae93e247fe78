"""Runs the server: binds the address, serves until a signal arrives, and finishes the requests that have begun."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from transduce.core.errors import UserError
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.connection import patient_for

BACKLOG = 1024  # connections that may wait until the server accepts them
KEEP_ALIVE = 30  # seconds that a connection may be idle between two requests
SWITCH = 2e-4  # seconds that a thread of Python may run while another one waits; Python's own value is 5e-3


def bound(host: str, port: int) -> socket.socket:
    """A socket that is bound to ``host`` and ``port``. Port 0 takes any free port. Raises UserError if that fails.

    Its connections send each part of an answer at once. Without TCP_NODELAY the second part would wait for the client's
    acknowledgement, 40 ms; asyncio sets it only for sockets whose protocol is given by number.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise UserError(f"--host {host} --port {port}: {error}; name another address or port") from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def address(listening: socket.socket) -> str:
    """The URL of a bound socket."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class Server(uvicorn.Server):
    """uvicorn's server with a catalogue. It answers at once, also while the catalogue loads its runs, and calls
    ``started`` when all are loaded. ``failure`` is the error of a run that cannot be loaded; then the server stops.

    After a signal to stop it waits ``drain`` seconds, in which it answers as before but is not ready.
    """

    def __init__(self, config: uvicorn.Config, catalogue: Catalogue, started: Callable[[], None], drain: float) -> None:
        super().__init__(config)
        self._catalogue, self._started, self._drain = catalogue, started, drain
        self._end: float | None = None  # the time at which the server stops, of the clock time.monotonic
        self.failure: Exception | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._opening = asyncio.create_task(self._open())

    async def _open(self) -> None:
        try:
            await self._catalogue.opened()
        except Exception as error:
            self.failure = error
            self.should_exit = True
        else:
            self._started()

    async def on_tick(self, counter: int) -> bool:
        if self._end is not None and time.monotonic() >= self._end:
            self.should_exit = True
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._end is None and self._drain > 0:
            self._catalogue.draining = True
            self._end = time.monotonic() + self._drain
        else:
            super().handle_exit(sig, frame)


def new_server(
    app: ASGIApp, catalogue: Catalogue, started: Callable[[], None] = lambda: None, drain: float = 0.0
) -> Server:
    """Returns a new server without starting it."""
    limits = catalogue.limits
    config = uvicorn.Config(
        app,
        http=patient_for(limits),
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,  # the package's own log has uvicorn's lines too
        proxy_headers=False,  # every client could say that it is another one; see Proxies
        server_header=False,
        limit_concurrency=limits.connections,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=int(limits.seconds + limits.body_seconds) + 1,
    )
    return Server(config, catalogue, started, drain)


def run(
    app: ASGIApp, catalogue: Catalogue, listening: socket.socket, started: Callable[[], None], drain: float = 0.0
) -> None:
    """Serves at a bound socket until SIGINT or SIGTERM. Then it takes no more connections, finishes the requests that
    have begun, and returns. After a second SIGINT it does not wait for the requests. Raises the error of a run that
    cannot be loaded.
    """
    sys.setswitchinterval(SWITCH)  # or the model's thread would wait for all that the event loop has to do
    for each in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises the signal again after it has stopped: ignore it
        signal.signal(each, lambda *_: None)
    server = new_server(app, catalogue, started, drain)
    server.run(sockets=[listening])
    if server.failure is not None:
        raise server.failure
