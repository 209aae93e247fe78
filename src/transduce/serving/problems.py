"""What a client is told when a request cannot be answered: a status and one line.

A mistake has the line that the command line would print. A bug has a number that the server's log has too, and nothing
else.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from transduce.answers.answer_values import json_text
from transduce.errors import BusyError, RequestError, StoppedError, UserError
from transduce.names import alternatives
from transduce.serving.catalogue import UnknownModelError

log = logging.getLogger("transduce.serving")

RETRY_AFTER = 1  # seconds; the queue is short, so that it is empty soon after a load has ended
REFUSAL_SECONDS = 0.25  # a client that asks again at once waits so long; else refusals take the time of the answers


class RefusalError(RequestError):
    """A request that is refused before it is read, with its HTTP ``status``."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


def problem(error: BaseException) -> tuple[int, str]:
    """The status and the line for an error. The log gets the traceback of a bug, with a number that the line has."""
    if isinstance(error, RefusalError):
        return error.status, str(error)
    if isinstance(error, UnknownModelError):
        return 404, str(error)
    if isinstance(error, UserError):
        return 400, str(error)
    if isinstance(error, BusyError):
        return 429, str(error)
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return 504, "the request was not answered before its deadline"
    if isinstance(error, StoppedError):
        return 503, "the server stops: it takes no more requests"
    number = secrets.token_hex(4)
    log.error("error %s", number, exc_info=error)
    return 500, f"an error inside the server; its log has it as {number}"


def headers_of(status: int) -> dict[str, str]:
    """The headers that a status needs: Retry-After if the server is busy or stops, and how to log in for 401."""
    if status in (429, 503):
        return {"retry-after": str(RETRY_AFTER)}
    return {"www-authenticate": "Bearer"} if status == 401 else {}


def problem_body(line: str, path: str) -> bytes:
    """The body of an answer that tells of a problem. Clients of OpenAI's interface, whose routes have a ``path`` under
    /v1/, find the line in an object.
    """
    return json_text({"error": {"message": line, "type": "error"} if path.startswith("/v1/") else line}).encode()


def first_mistake(error: ValidationError, known: Iterable[str]) -> RequestError:
    """The first mistake of a body as RequestError. ``known`` are the keys that the body may have."""
    mistake: Mapping[str, Any] = error.errors()[0]
    key = ".".join(str(part) for part in mistake["loc"][:1]) or "the body"
    if mistake["type"] == "extra_forbidden":
        return RequestError(f"{key[:60]!r} is not a key of this request{alternatives(key[:60], known)}")
    if mistake["type"] == "missing":
        return RequestError(f"there is no {key}: this request needs it")
    return RequestError(f"{key} = {str(mistake['input'])[:60]!r}: {mistake['msg'][:1].lower()}{mistake['msg'][1:]}")
