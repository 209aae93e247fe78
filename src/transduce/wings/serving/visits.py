"""Records each request: its id, who asks for it, its route, its status and its time, for the access log and metrics."""

from __future__ import annotations

import logging
import re
import secrets
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.wings.serving.measurements import Measurements
from transduce.wings.serving.proxies import Proxies
from transduce.wings.serving.visit import Visit, current_visit

log = logging.getLogger("transduce.wings.serving.access")

REQUEST_ID = re.compile(r"[A-Za-z0-9._:+/=-]{1,100}\Z")  # other ids of clients could hide lines in a log
LONGEST = 200  # characters of a path in the log


class Visits:
    """An ASGI application around ``app`` that counts each request, and logs it at the level INFO.

    A client may send its own id of the request as ``X-Request-ID``; the answer has the id under the same name. HEAD is
    answered like GET, without the body. ``proxies`` may say who has asked.
    """

    def __init__(self, app: ASGIApp, measurements: Measurements, proxies: Proxies) -> None:
        self.app, self.measurements, self.proxies = app, measurements, proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = time.perf_counter()
        client = self.proxies.client(scope)
        method: str = scope["method"]
        inner = {**scope, "client": client, "method": "GET" if method == "HEAD" else method}
        visit = Visit(_id(scope), client[0] if client else "-", method[:20], scope["path"][:LONGEST], scope)
        token = current_visit.set(visit)

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", visit.id.encode())]
            elif method == "HEAD":
                message["body"] = b""
            else:
                visit.bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(inner, receive, told)
        finally:
            current_visit.reset(token)
            for end in visit.ends:
                end()
            visit.route = getattr(inner.get("route"), "path", visit.route)
            visit.seconds = time.perf_counter() - begun
            self.measurements.count(visit)
            if log.isEnabledFor(logging.INFO):
                log.info(visit, extra={"visit": visit})  # the thread of the log makes the line


def _id(scope: Scope) -> str:
    """The id that the client has given to its request; a new one if it has given none, or one that is no id."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"").decode("latin-1")
    return given if REQUEST_ID.match(given) else secrets.token_hex(8)
