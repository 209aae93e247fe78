"""A connection that does not wait for ever for the headers of a request."""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


def patient_for(seconds: float) -> type[HttpToolsProtocol]:
    """A class of uvicorn's protocol that closes a connection if the headers of a request take more than ``seconds``.

    uvicorn closes a connection that is idle between requests, but it waits without end for the first request, and for
    the rest of headers that have begun. So a client could hold all connections with a byte each.
    """

    class Connection(HttpToolsProtocol):
        _timer: TimerHandle | None = None

        def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._timer is None and self._between_requests() and self.timeout_keep_alive_task is None:
                self._wait()  # these bytes begin the headers of the next request

        def on_headers_complete(self) -> None:
            self._stop()
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _between_requests(self) -> bool:
            cycle: Any = self.cycle
            return cycle is None or bool(cycle.response_complete)

        def _wait(self) -> None:
            self._timer = self.loop.call_later(seconds, self.transport.abort)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Connection
