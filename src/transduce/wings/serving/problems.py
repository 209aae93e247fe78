"""The answer to a request that fails: a status and one line.

For a mistake of the client, the line is the same as on the command line. For a bug, the line has only the id of the
request, which the server's log has too.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterable

from pydantic import ValidationError

from transduce.answers.answer_values import json_text
from transduce.core.errors import BusyError, RequestError, StoppedError, UserError
from transduce.core.files import FULL
from transduce.core.registry import alternatives
from transduce.wings.serving.catalogue import UnknownModelError, UnloadedError
from transduce.wings.serving.visit import current

log = logging.getLogger("transduce.wings.serving")

RETRY_AFTER = 1  # seconds; the queue is short, so it is empty soon after a load has ended
REFUSAL_SECONDS = 0.25  # delay of a refusal, so that clients that retry at once do not use up the server's time


class RefusalError(RequestError):
    """A request that is refused before it is read, with its HTTP ``status``."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


def problem(error: BaseException) -> tuple[int, str]:
    """The status and the line for an error. For a bug, the log gets the traceback with the id in the line."""
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
    if isinstance(error, UnloadedError):
        return 503, str(error)
    if isinstance(error, StoppedError):
        return 503, "the server stops: it takes no more requests"
    if isinstance(error, OSError) and error.errno in FULL:
        log.error("the disk is full: %s", error)
        return 507, "the disk of the server is full: try again later"
    visit = current()
    number = secrets.token_hex(4) if visit is None else visit.id
    log.error("error %s", number, exc_info=error)
    return 500, f"an error inside the server; its log has it as {number}"


def headers_of(status: int) -> dict[str, str]:
    """The headers that a status needs: Retry-After if the server is busy or stops, and WWW-Authenticate for 401."""
    if status in (429, 503):
        return {"retry-after": str(RETRY_AFTER)}
    return {"www-authenticate": "Bearer"} if status == 401 else {}


def problem_body(line: str, path: str) -> bytes:
    """The body of an answer with an error. For a ``path`` under /v1/, which clients of OpenAI's interface use, the line
    is in an object.
    """
    return json_text({"error": {"message": line, "type": "error"} if path.startswith("/v1/") else line}).encode()


def first_mistake(error: ValidationError, known: Iterable[str]) -> RequestError:
    """The first mistake of a body as RequestError. ``known`` are the keys that the body may have."""
    mistake, *others = error.errors()
    key = ".".join(str(part) for part in mistake["loc"][:1]) or "the body"
    if mistake["type"] == "extra_forbidden":
        return RequestError(f"{key[:60]!r} is not a key of this request{alternatives(key[:60], known)}")
    if mistake["type"] == "missing":
        return RequestError(f"there is no {key}: this request needs it")
    expected = [mistake["msg"][:1].lower() + mistake["msg"][1:]]
    for other in others:  # of the same value, where there is a choice of kinds
        if other["loc"][:1] == mistake["loc"][:1] and other["input"] == mistake["input"]:
            expected.append(other["msg"].removeprefix("Input should be "))
    return RequestError(f"{key} = {str(mistake['input'])[:60]!r}: {' or '.join(dict.fromkeys(expected))}")
