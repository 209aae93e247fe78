"""A connection that limits the time of a client, its headers, and the number of its unanswered requests."""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from collections.abc import Callable
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from transduce.wings.serving.gate import ABORT
from transduce.wings.serving.limits import Limits
from transduce.wings.serving.problems import problem_body

PIPELINED = 8  # requests that a client may send before the answer to an earlier one


class Together:
    """A transport that sends what is written in one turn of the loop together. uvicorn writes the headers and the body
    of an answer apart, and each call of the system takes a twentieth of the time of a short request.
    """

    def __init__(self, transport: Transport, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._transport, self._call_soon, self._held = transport, call_soon, list[bytes]()

    def write(self, data: bytes) -> None:
        if not self._held:
            self._call_soon(self._send)
        self._held.append(data)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def abort(self) -> None:
        self._send()
        self._transport.abort()

    def _send(self) -> None:
        held, self._held = self._held, []
        if held:
            self._transport.write(b"".join(held))

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


def patient_for(limits: Limits) -> type[HttpToolsProtocol]:
    """A class of uvicorn's protocol that ends a connection in four cases:

    - The headers of a request take more than ``limits.body_seconds``.
    - They have more than ``limits.headers`` bytes. The client gets status 431.
    - An answer stays unread for ``limits.seconds``.
    - More than ``PIPELINED`` requests wait for an earlier one.

    uvicorn closes a connection that is idle between requests. But it has no time limit for the first request, for the
    rest of headers that have begun, and for a client that does not read. So a client could hold all connections with a
    byte each. uvicorn also keeps all requests in memory that arrive before an answer is finished. The gate can abort
    the connection by the extension ``ABORT`` of a request's scope.
    """

    class Connection(HttpToolsProtocol):
        _timer: TimerHandle | None = None
        _unread: TimerHandle | None = None
        _head = 0  # bytes of the headers so far

        def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
            super().connection_made(cast(Transport, Together(transport, self.loop.call_soon)))
            transport.set_write_buffer_limits(high=0)  # so uvicorn pauses writing as soon as the client does not read
            self._wait()

        def data_received(self, data: bytes) -> None:
            if self._timer is not None:  # these bytes continue headers
                self._head += len(data)
            super().data_received(data)
            if self._timer is not None and self._head > limits.headers:
                self._refuse_headers()
            if self._timer is None and self._between_requests() and self.timeout_keep_alive_task is None:
                self._wait()  # these bytes begin the headers of the next request

        def on_headers_complete(self) -> None:
            self._stop()
            if sum(len(name) + len(value) for name, value in self.headers) + len(self.url) > limits.headers:
                self._refuse_headers()
                return
            if len(self.pipeline) >= PIPELINED:
                self.transport.abort()
            if not self.transport.is_closing():
                cast(dict[str, object], self.scope)["extensions"] = {ABORT: self.transport.abort}
                super().on_headers_complete()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._unread = self.loop.call_later(limits.seconds, self.transport.abort)

        def resume_writing(self) -> None:
            self._read()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            self._read()
            super().connection_lost(exc)

        def _refuse_headers(self) -> None:
            """Answers with status 431 and closes the connection."""
            self._stop()
            if self.transport.is_closing():
                return
            body = problem_body(f"the headers have more than {limits.headers:,} bytes: send fewer or shorter ones", "/")
            head = (
                "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self.transport.close()

        def _between_requests(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _wait(self) -> None:
            self._head = 0
            self._timer = self.loop.call_later(limits.body_seconds, self.transport.abort)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _read(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None

    return Connection
