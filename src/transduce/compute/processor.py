"""What the processor is, where that decides what is fastest, or what there is a kernel for."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

PRODUCT_INSTRUCTIONS = ("avx2", "avx512f", "avx512bw", "avx512_bf16", "amx_bf16")
"""Instructions that decide how fast products of matrices are, as Linux names them."""


def is_intel() -> bool:
    """Whether it is one that MKL is made for."""
    return "Intel" in _told()


def has_wide_vectors() -> bool:
    """Whether it has AVX-512, without which oneDNN has no kernels in bfloat16."""
    return "avx512bw" in _told()


def multiplies_best_by_onednn() -> bool:
    """Whether it has AVX-512, of which MKL makes use on Intel's alone (``modules/linear.py``)."""
    return has_wide_vectors() and not is_intel()


def multiplies_tiles() -> bool:
    """Whether it has AMX: bfloat16 is multiplied at seven times the speed of float32, and to make a kernel for a shape
    takes oneDNN 5 ms, which is many times the product itself."""
    return "amx_bf16" in _told()


def model_name() -> str:
    """The processor's name as the system gives it, such as "AMD EPYC"."""
    names = (line.partition(":")[2].strip() for line in _told().splitlines() if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def product_instructions() -> tuple[str, ...]:
    """Those of ``PRODUCT_INSTRUCTIONS`` that the processor has."""
    flags = set(_told().split())
    return tuple(name for name in PRODUCT_INSTRUCTIONS if name in flags)


@cache
def _told() -> str:
    information = Path("/proc/cpuinfo")
    return information.read_text(encoding="utf-8", errors="replace") if information.exists() else platform.processor()
