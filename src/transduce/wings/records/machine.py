"""The machine of a measurement: its processor, and how fast it multiplies."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import torch

from transduce.compute import processor

SIZE = 1024  # of the square matrices
SECONDS = 0.4  # for each precision; a slow processor needs one product to warm up and one to measure


@dataclass(frozen=True)
class Machine:
    """A machine with ``cores`` cores, of which PyTorch uses ``threads``. ``processor`` is the model's name.

    ``instructions`` are the ones that decide the speed of products. The GFLOP/s are measured on the fastest of several
    products of 1,024 by 1,024 matrices with these threads. ``load`` is the system's load average over one minute at the
    time; None if the system has none. More than ``threads`` means that other processes were busy, and that the GFLOP/s
    are a lower bound.
    """

    processor: str
    cores: int
    threads: int
    instructions: tuple[str, ...]
    float32_gflops: float
    bfloat16_gflops: float
    load: float | None = None

    @classmethod
    def here(cls) -> Machine:
        """This machine. Takes about a second, and three where bfloat16 is emulated."""
        load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
        return cls(
            processor.model_name(),
            os.cpu_count() or 1,
            torch.get_num_threads(),
            processor.product_instructions(),
            measure_gflops(torch.float32),
            measure_gflops(torch.bfloat16),
            load,
        )


def measure_gflops(dtype: torch.dtype, size: int = SIZE, seconds: float = SECONDS) -> float:
    """Billions of floating-point operations per second, in the fastest product of two ``size`` by ``size`` matrices on
    the processor, by PyTorch's own kernel. After one product to warm up, products are repeated for ``seconds``, and at
    least once.

    It describes the machine. It is not the limit of the machine's products: see ``speed.limit``.
    """
    matrix = torch.ones(size, size, dtype=dtype)
    torch.mm(matrix, matrix)
    fastest, end = float("inf"), time.perf_counter() + seconds
    while fastest == float("inf") or time.perf_counter() < end:
        began = time.perf_counter()
        torch.mm(matrix, matrix)
        fastest = min(fastest, time.perf_counter() - began)
    return round(2 * size**3 / fastest / 1e9, 1)
