"""In which precision a machine multiplies."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from transduce.training.settings import Precision


def bound_kernel_cache() -> None:
    """Let oneDNN, which multiplies bfloat16 on the CPU, remember few kernels; to be called before its first product.

    It keeps one for each shape of product, and sentences have thousands of shapes: its 1,024 take two gigabytes and
    are slower than 64 (docs/log.md, 2026-11-20). What the environment says already stands.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")


def choose_precision(wanted: Precision, device: torch.device) -> Precision:
    """ "auto" is bfloat16 where it is faster: on a processor without instructions for it, it is emulated, and slow."""
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    if device.type == "cpu":
        return "bfloat16" if _product_seconds(torch.bfloat16) < 0.7 * _product_seconds(torch.float32) else "float32"
    return "float32"


def _product_seconds(dtype: torch.dtype, size: int = 256) -> float:
    """The best of a few products: five milliseconds spent once a run, against asking each vendor's flags."""
    matrix = torch.ones(size, size, dtype=dtype)
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        torch.mm(matrix, matrix)
        best = min(best, time.perf_counter() - began)
    return best


def autocast(precision: Precision, device: torch.device) -> Callable[[], AbstractContextManager[Any]]:
    """A context to compute losses in: products in bfloat16, with weights, sums and norms in float32."""
    if precision == "float32":
        return contextlib.nullcontext
    return lambda: torch.autocast(device.type, torch.bfloat16)
