"""The numbers of processor threads and of processes that one command may start."""

from __future__ import annotations

import os

from transduce.core.errors import UserError

MOST = max(256, os.cpu_count() or 1)  # of each; far more would end the program when the system gives no more


def check_number(name: str, value: int) -> int:
    """Returns ``value``, a number of threads or processes. Raises UserError, which has its ``name``, unless it is 1 to
    ``MOST``.
    """
    if not 1 <= value <= MOST:
        raise UserError(
            f"{name} = {value}: a number from 1 to {MOST} was expected (this machine has {os.cpu_count()} cores)"
        )
    return value


def use_threads(count: int | None) -> None:
    """Sets PyTorch's number of threads; None keeps it. Raises UserError for a number that is too small or too large."""
    if count is not None:
        import torch

        torch.set_num_threads(check_number("threads", count))
