"""The machine of a measurement: its processor, and how fast it multiplies."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.compute import processor
from transduce.compute.packing import ONEDNN, OneDNNPacking

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


def float32_limit() -> float:
    """The GFLOP/s in float32 of the kernel that models use here: oneDNN's where it is the faster, else PyTorch's own.
    ``Machine.float32_gflops`` is always of PyTorch's own.
    """
    onednn = OneDNNPacking()
    return measure_gflops(torch.float32, multiply=lambda a, b: onednn.multiply(a, (b, None)) if ONEDNN else a @ b)


def measure_gflops(
    dtype: torch.dtype,
    size: int = SIZE,
    seconds: float = SECONDS,
    multiply: Callable[[Tensor, Tensor], Tensor] = torch.mm,
) -> float:
    """Billions of floating-point operations per second, in the fastest product of two ``size`` by ``size`` matrices on
    the processor. After one product to warm up, products are repeated for ``seconds``, and at least once. ``multiply``
    computes a product.
    """
    matrix = torch.ones(size, size, dtype=dtype)
    multiply(matrix, matrix)
    fastest, end = float("inf"), time.perf_counter() + seconds
    while fastest == float("inf") or time.perf_counter() < end:
        began = time.perf_counter()
        multiply(matrix, matrix)
        fastest = min(fastest, time.perf_counter() - began)
    return round(2 * size**3 / fastest / 1e9, 1)
