"""The request that a task answers: its id, who asks for it, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from starlette.types import Scope

GONE = 499  # status of a request whose client has gone before its answer
SHOWN = ("id", "client", "method", "path", "key", "model", "route", "status", "bytes")  # values in the log


@dataclass
class Visit:
    """A request and its answer, as the access log shows them. ``key`` is the name of the client's key. ``model`` is the
    name of the run that it asks for. ``bytes`` has the body of the answer only.
    """

    id: str
    client: str
    method: str
    path: str
    scope: Scope = field(repr=False)  # of ASGI
    key: str | None = None
    model: str | None = None
    route: str = "other"
    status: int = GONE
    bytes: int = 0
    seconds: float = 0.0
    ends: list[Callable[[], None]] = field(default_factory=list)  # called when the answer has ended

    def values(self) -> dict[str, object]:
        """The values for a log, in its order."""
        return {name: getattr(self, name) for name in SHOWN} | {"seconds": round(self.seconds, 6)}

    def __str__(self) -> str:
        """The line of a log. The path is quoted, so that a client cannot write lines of its own."""
        return (
            f"{self.client} {self.key or '-'} {self.method} {self.path!a} {self.model or '-'} {self.status} "
            f"{self.bytes} bytes {1000 * self.seconds:.1f} ms id={self.id}"
        )


current_visit: ContextVar[Visit | None] = ContextVar("visit", default=None)


def current() -> Visit | None:
    """The visit of the request that this task answers; None outside of one."""
    return current_visit.get()
