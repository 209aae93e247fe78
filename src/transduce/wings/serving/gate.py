"""Checks each request before the routes: its key, its size and its time. Cancels requests whose clients have gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from ipaddress import ip_address

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.wings.serving.keys import Keys
from transduce.wings.serving.limits import Limits
from transduce.wings.serving.problems import RefusalError, headers_of, problem, problem_body
from transduce.wings.serving.visit import current

log = logging.getLogger("transduce.wings.serving")

ABORT = "transduce.abort"  # an extension of the scope: a function that aborts the connection
OPEN = ("/", "/health", "/ready", "/docs")  # these paths need no key; the studio asks the user for it
OPEN_FOLDERS = ("/studio/", "/download_file/")  # the name of a translated file is a secret by itself
KEY_IN_BODY = ("/translate", "/languages", "/detect", "/translate_file")
"""Clients of LibreTranslate send the key as a field of the body, which the route checks."""


def key_of(scope: Scope) -> str | None:
    """The key in a request's headers: ``Authorization: Bearer KEY`` or ``X-API-Key: KEY``. None if there is none."""
    for name, value in scope["headers"]:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return str(value[7:].decode("latin-1"))
        if name == b"x-api-key":
            return str(value.decode("latin-1"))
    return None


def check_key(keys: Keys | None, given: str | None) -> None:
    """Raises RefusalError for a wrong key. The name of a right one is in the current visit."""
    if keys is None:
        return
    name = keys.name_of(given)
    if name is None:
        raise RefusalError(401, "the key is missing or wrong: send the header Authorization: Bearer KEY")
    if (visit := current()) is not None:
        visit.key = name


def host_of(scope: Scope) -> str:
    """The name or address in a request's header Host, in lower case and without the port; "" if there is none."""
    given = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1").lower()
    return str(given[1:].partition("]")[0] if given.startswith("[") else given.partition(":")[0])


def is_address(host: str) -> bool:
    """True for an address in numbers. A page of another site cannot reach the server by one."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class Gate:
    """An ASGI application around ``app``. It reads the whole body first, so a slow client costs no thread.

    ``keys``, if given, are needed for all routes but the pages, /health and /ready. ``hosts`` are the names under which
    clients may ask for the server, beside addresses in numbers; None allows all names. A page of another site may give
    its own name the address of this server, and its requests then have that name in the header Host (DNS rebinding).
    """

    def __init__(
        self, app: ASGIApp, limits: Limits, keys: Keys | None = None, hosts: Collection[str] | None = None
    ) -> None:
        self.app, self.limits, self.keys, self.hosts = app, limits, keys, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._pass(_Exchange(scope, receive, send))
        else:
            await self.app(scope, receive, send)

    async def _pass(self, exchange: _Exchange) -> None:
        try:
            self._check_host(exchange.scope)
            self._check_key(exchange.scope)
            async with _Alarm(self.limits.body_seconds) as alarm:
                body = await self._body(exchange)
            if alarm.rang:
                raise RefusalError(408, f"the body took more than {self.limits.body_seconds:g} seconds")
            if body is None:  # the client has gone
                return
            async with _Alarm(self.limits.seconds) as alarm:
                await exchange.run(self.app, body)
            if alarm.rang:
                raise TimeoutError
        except Exception as error:
            await exchange.refuse(error)

    def _check_host(self, scope: Scope) -> None:
        host = host_of(scope)
        if self.hosts is not None and host not in self.hosts and not is_address(host):
            raise RefusalError(
                421,
                f"the host {host[:60]!a} is not a name of this server: start it with --allow-host NAME, or with a key",
            )

    def _check_key(self, scope: Scope) -> None:
        path: str = scope["path"]
        if path in OPEN or path.startswith(OPEN_FOLDERS):
            return
        given = key_of(scope)
        if given is not None or path not in KEY_IN_BODY:
            check_key(self.keys, given)

    async def _body(self, exchange: _Exchange) -> bytes | None:
        """The body; None if the client has gone. Raises RefusalError if it is too large."""
        headers = dict(exchange.scope["headers"])
        files = headers.get(b"content-type", b"").lower().startswith(b"multipart/")
        limit = self.limits.upload if files else self.limits.body
        promised = headers.get(b"content-length", b"0")
        line = f"the body has more than {limit:,} bytes"
        if promised.isdigit() and int(promised[:20]) > limit:
            raise RefusalError(413, line)
        parts, size = [], 0
        while True:
            message = await exchange.receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            parts.append(part)
            size += len(part)
            if size > limit:
                raise RefusalError(413, line)
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)


class _Exchange:
    """One request and the state of its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self.receive, self._send = scope, receive, send
        self.begun, self.complete = False, False

    async def run(self, app: ASGIApp, body: bytes) -> None:
        """Lets the application answer. If the client goes away, the application's task is cancelled."""
        task = asyncio.current_task()
        assert task is not None
        watch = asyncio.get_running_loop().create_task(self._watch(task))
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                await asyncio.shield(watch)
                return {"type": "http.disconnect"}
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        try:
            await app(self.scope, replay, self.send)
        except asyncio.CancelledError:
            if not watch.done():
                raise
        finally:
            watch.cancel()

    async def _watch(self, task: asyncio.Task[None]) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        if not self.complete:
            task.cancel()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            message["headers"] = [*message.get("headers", ()), (b"x-content-type-options", b"nosniff")]
        elif not message.get("more_body", False):
            self.complete = True
        await self._send(message)

    async def refuse(self, error: Exception) -> None:
        """Sends the problem. Closes the connection if the request was refused before its body was read. If an answer
        has begun, the connection is aborted instead.
        """
        if self.begun:
            if not self.complete:
                await self._cut(error)
            return
        status, line = problem(error)
        body = problem_body(line, self.scope["path"])
        headers = {"content-type": "application/json", "content-length": str(len(body)), **headers_of(status)}
        if isinstance(error, RefusalError):
            headers["connection"] = "close"
        every = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": every})
        await self.send({"type": "http.response.body", "body": body})

    async def _cut(self, error: Exception) -> None:
        """Aborts the connection, so that the client does not take the answer for complete. The log gets a line, and the
        traceback if the error is a bug.
        """
        abort = self.scope.get("extensions", {}).get(ABORT)
        if abort is None:  # another server, which closes the connection if the application fails
            raise error
        asked = f"{self.scope['method']} {self.scope['path'][:60]!a}"
        log.warning("%s: the answer was cut, because %s", asked, problem(error)[1])
        abort()
        while (await self.receive())["type"] != "http.disconnect":
            pass


class _Alarm:
    """A context that cancels its task after some seconds. Then ``rang`` is True, and it ends without an error."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.rang = seconds, False

    async def __aenter__(self) -> _Alarm:
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(self.seconds, self._ring)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self._timer.cancel()
        return self.rang and kind is asyncio.CancelledError

    def _ring(self) -> None:
        self.rang = True
        assert self._task is not None
        self._task.cancel()
