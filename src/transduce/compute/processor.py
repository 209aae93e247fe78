"""Facts about the processor. They decide which kernels are available, and which is fastest.

They come from /proc/cpuinfo. If this file does not exist (outside Linux), the instructions count as missing.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

PRODUCT_INSTRUCTIONS = ("avx2", "avx512f", "avx512bw", "avx512_bf16", "amx_bf16")
"""Instructions that decide how fast products of matrices are, as Linux names them."""


def is_intel() -> bool:
    """True if the processor is from Intel; MKL is optimised for these."""
    return "Intel" in _description()


def has_wide_vectors() -> bool:
    """True if the processor has AVX-512 (BW). Without it, oneDNN has no bfloat16 kernels."""
    return "avx512bw" in _description()


def multiplies_best_by_onednn() -> bool:
    """True if the processor has AVX-512 and is not from Intel.

    MKL uses AVX-512 only on Intel's processors, so oneDNN is faster on the others (layers/modules/linear.py).
    """
    return has_wide_vectors() and not is_intel()


def multiplies_tiles() -> bool:
    """True if the processor has AMX for bfloat16.

    With AMX, bfloat16 products are seven times as fast as float32. However, oneDNN needs 5 ms to build the kernel of a
    new shape, which is much longer than the product itself.
    """
    return "amx_bf16" in _description()


def model_name() -> str:
    """The processor's name as the system gives it, such as "AMD EPYC"."""
    names = (line.partition(":")[2].strip() for line in _description().splitlines() if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def product_instructions() -> tuple[str, ...]:
    """The names in ``PRODUCT_INSTRUCTIONS`` that the processor has, in their order there."""
    flags = set(_description().split())
    return tuple(name for name in PRODUCT_INSTRUCTIONS if name in flags)


@cache
def _description() -> str:
    information = Path("/proc/cpuinfo")
    return information.read_text(encoding="utf-8", errors="replace") if information.exists() else platform.processor()
