"""Signals that end a program. Training saves before it ends, between two updates."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interruption:
    """A context that stores the name of the first SIGINT, SIGTERM or SIGHUP in ``signal``, so that training can save
    before it ends. A second signal has its usual effect. Outside of the main thread, it stores no signal.

    A signal that the process ignores stays ignored. For example, a shell ignores SIGINT for its background jobs, and
    ``nohup`` ignores SIGHUP.
    """

    def __init__(self) -> None:
        self.signal: str | None = None
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():  # other threads cannot set handlers
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number).name
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()


def raise_again(reason: str | None) -> None:
    """Ends the program like the signal that ``reason`` names. Raises KeyboardInterrupt for "SIGINT", and SystemExit
    with 128 plus the signal's number for "SIGTERM" and "SIGHUP". It is a no-op for any other reason.
    """
    if reason == "SIGINT":
        raise KeyboardInterrupt
    if reason in {number.name for number in SIGNALS}:
        raise SystemExit(128 + signal.Signals[str(reason)])
