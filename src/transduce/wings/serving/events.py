"""Server-sent events: an answer that is sent in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi.responses import StreamingResponse

from transduce.answers.answer_values import json_text
from transduce.wings.serving.problems import problem

HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


async def events(values: AsyncIterator[object], last: object, seconds: float) -> StreamingResponse:
    """A response with an event for each of ``values``, and one for ``last``. A text is sent unchanged, and any other
    value as JSON.

    Waits for the first value, so that an error in the request is raised and gets its own status. A later error becomes
    an event with the name "error". The same happens if the answer takes longer than ``seconds``.
    """
    waiting = values.__aiter__()
    end = asyncio.get_running_loop().time() + seconds * 0.95  # before the gate cuts the connection
    begun = [value async for value in _first(waiting)]
    return StreamingResponse(_lines(begun, waiting, last, end), media_type="text/event-stream", headers=HEADERS)


async def _first(waiting: AsyncIterator[object]) -> AsyncIterator[object]:
    async for value in waiting:
        yield value
        return


async def _lines(begun: list[object], waiting: AsyncIterator[object], last: object, end: float) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    try:
        for value in begun:
            yield _event(value)
        while begun:
            try:
                yield _event(await asyncio.wait_for(waiting.__anext__(), max(0.0, end - loop.time())))
            except StopAsyncIteration:
                break
        yield _event(last)
    except Exception as error:
        yield f"event: error\n{_event({'error': problem(error)[1]})}"


def _event(value: object) -> str:
    return f"data: {value if isinstance(value, str) else json_text(value)}\n\n"
