"""Runs the server: binds the address, serves until a signal arrives, and finishes the requests that have begun."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable

import uvicorn

from transduce.core.errors import UserError
from transduce.wings.serving.connection import patient_for
from transduce.wings.serving.gate import Gate
from transduce.wings.serving.limits import Limits

BACKLOG = 1024  # connections that may wait until the server accepts them
KEEP_ALIVE = 30  # seconds that a connection may be idle between two requests


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


def new_server(gate: Gate, limits: Limits, started: Callable[[], None] = lambda: None) -> uvicorn.Server:
    """Returns a new server without starting it. The server calls ``started`` when it is ready."""

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started()

    config = uvicorn.Config(
        gate,
        http=patient_for(limits),
        ws="none",
        lifespan="on",
        access_log=False,
        log_level=logging.WARNING,
        server_header=False,
        limit_concurrency=limits.connections,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=int(limits.seconds + limits.body_seconds) + 1,
    )
    return Server(config)


def run(gate: Gate, listening: socket.socket, limits: Limits, started: Callable[[], None]) -> None:
    """Serves at a bound socket until SIGINT or SIGTERM. Then it takes no more connections, finishes the requests that
    have begun, and returns. After a second SIGINT it does not wait for the requests.
    """
    for each in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises the signal again after it has stopped: ignore it
        signal.signal(each, lambda *_: None)
    new_server(gate, limits, started).run(sockets=[listening])
