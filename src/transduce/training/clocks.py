"""What the minutes of a training are counted by."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import torch

Clock = Literal["wall", "processor"]


def _processor() -> float:
    """Seconds of the processor that this process has used, shared out among its threads."""
    return time.process_time() / torch.get_num_threads()


CLOCKS: dict[Clock, Callable[[], float]] = {"wall": time.monotonic, "processor": _processor}
