"""The progress of a command: one line on the terminal, which moves, or a line now and then in a log.

All of it goes to standard error. A command that ends within two seconds shows nothing.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO

from transduce.core.stages import Stage, open_stages

FIRST, AGAIN = 2.0, 0.2  # seconds before the line on a terminal, and between its changes
IN_LOG, LONGEST = 15.0, 600.0  # seconds before the first line of a log; at most between two lines
BAR = 20  # characters
WAITING = {"chat", "complete", "embed", "generate", "predict", "score", "serve"}  # they may wait for a person
ERASE = "\r\x1b[K"


@contextmanager
def shown() -> Iterator[None]:
    """A context in which the stages of the work are shown. The command's own name is the first stage, unless the
    command may wait for input.
    """
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    if sys.stderr is None or not words or os.environ.get("RANK", "0") != "0":
        yield
        return
    with ExitStack() as own:
        if words[0] not in WAITING:
            own.enter_context(Stage(words[0]))
        own.enter_context(_on_terminal() if _moves(sys.stderr) else _in_log(sys.stderr, sys.argv))
        yield


def described(stages: Sequence[Stage], now: float) -> str | None:
    """The open stages in words: names, then "1,200 of 3,000 examples, about 0:20 left". None if nothing is to be shown.

    The first stage with a total is counted; stages inside it, such as batches, only move it on.
    """
    if not stages or not all(each.name for each in stages):
        return None
    place = next((place for place, each in enumerate(stages) if each.total), None)
    if place is None:
        names = [f"{each.done:,} {each.name}" if each.done else each.name for each in stages]
        return ": ".join(names)
    counted = stages[place]
    assert counted.total
    part = share(stages[place:])
    seconds = now - counted.began
    left = f", about {clock(seconds * (1 - part) / part)} left" if part > 0.02 and seconds > FIRST else ""
    names = [each.name for each in stages[:place]]
    return ": ".join([*names, f"{int(part * counted.total):,} of {counted.total:,} {counted.name}{left}"])


def share(stages: Sequence[Stage]) -> float:
    """The share of the work that is done, from 0 to 1. Stages without a total do not count."""
    with_total = [each for each in stages if each.total]
    if not with_total:
        return 0.0
    first = with_total[0]
    assert first.total
    return min((first.done + min(first.step, first.total - first.done) * share(with_total[1:])) / first.total, 1.0)


def clock(seconds: float) -> str:
    """Minutes and seconds, "1:05"."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def drawn(text: str, part: float, seconds: float, width: int, coloured: bool) -> str:
    """The line on a terminal of ``width`` columns: the bar (if ``part`` is not 0), the time, and ``text``."""
    done = round(BAR * part)
    bar = f"{'━' * done}{'╌' * (BAR - done)} {100 * part:3.0f} %  " if part else ""
    line = f"{bar}{clock(seconds)}  {text}"
    line = line if len(line) < width else line[: max(width - 2, 0)] + "…"
    return f"\x1b[36m{line[:done]}\x1b[0m{line[done:]}" if coloured and part and width > BAR else line


class Above:
    """A stream to the terminal. What is written to it stands above the moving line, which is erased first."""

    def __init__(self, stream: IO[str], line: MovingLine) -> None:
        self._stream, self._line = stream, line

    def write(self, text: str) -> int:
        """Erases the line, and writes the text."""
        with self._line.lock:
            self._line.erase(bool(text) and not text.endswith("\n"))
            return self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


class MovingLine:
    """The line on the terminal. It is not drawn while the cursor stands behind other text."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self.lock = stream, threading.RLock()
        self._drawn = self._waiting = False

    def erase(self, waiting: bool = False) -> None:
        """Removes the line. ``waiting`` tells that text without a line end follows."""
        if self._drawn:
            self._stream.write(ERASE)
            self._stream.flush()
        self._drawn, self._waiting = False, waiting

    def draw(self, line: str) -> None:
        """Replaces the line."""
        with self.lock:
            if not self._waiting:
                self._stream.write(ERASE + line)
                self._stream.flush()
                self._drawn = True


@contextmanager
def _on_terminal() -> Iterator[None]:
    out, err = sys.stdout, sys.stderr
    moving, began = MovingLine(err), time.monotonic()
    plain = "utf" not in (err.encoding or "").lower()

    def tick() -> float:
        now = time.monotonic()
        text = described(list(open_stages), now)
        if text is None:
            with moving.lock:
                moving.erase(moving._waiting)
            return AGAIN
        width = os.get_terminal_size(err.fileno()).columns or 80
        line = drawn(text, share(list(open_stages)), now - began, width, not os.environ.get("NO_COLOR"))
        moving.draw(line.replace("━", "#").replace("╌", "-").replace("…", "~") if plain else line)
        return AGAIN

    sys.stderr = Above(err, moving)
    if out is not None and out.isatty():
        sys.stdout = Above(out, moving)
    try:
        with _ticking(tick, FIRST):
            yield
    finally:
        with moving.lock:
            moving.erase()
        sys.stdout, sys.stderr = out, err


@contextmanager
def _in_log(stream: IO[str], words: Sequence[str]) -> Iterator[None]:
    """A line after 15 seconds, and then whenever the time has grown by half. None if the command writes JSON, which
    people may read together with standard error.
    """
    began = time.monotonic()

    def tick() -> float:
        now = time.monotonic()
        text = described(list(open_stages), now)
        if text is not None:
            stream.write(f"{clock(now - began)}  {text}\n")
            stream.flush()
        return min((now - began) / 2, LONGEST)

    if any("json" in word for word in words):
        yield
        return
    with _ticking(tick, IN_LOG):
        yield


@contextmanager
def _ticking(tick: Callable[[], float], first: float) -> Iterator[None]:
    """Calls ``tick`` in a thread after ``first`` seconds, and then after the seconds that it returns."""
    ended = threading.Event()

    def work() -> None:
        wait = first
        while not ended.wait(wait):
            try:
                wait = tick()
            except (OSError, ValueError):  # the terminal or the log is gone
                return

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _moves(stream: IO[str]) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"
