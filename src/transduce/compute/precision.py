"""The precision of matrix products: how it is chosen, and the context in which a model computes in it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal, get_args

import torch
from torch import nn

from transduce.compute.processor import multiplies_tiles
from transduce.errors import UserError

Precision = Literal["float32", "bfloat16"]
PrecisionSetting = Literal["auto", "float32", "bfloat16"]

KERNELS = 1024 if multiplies_tiles() else 64


def bound_kernel_cache() -> None:
    """Let oneDNN, which computes bfloat16 products on the CPU, cache ``KERNELS`` kernels. Call it before the first
    product. A value that the environment sets already is kept.

    oneDNN makes one kernel for each shape of product, and sentences have thousands of shapes. On processors that make
    a kernel quickly, its default of 1,024 takes two gigabytes and is slower than 64 (docs/log.md, 2026-11-20). On
    processors that need 5 ms for one, training is 10 to 40 % slower with 64 (2026-11-21).
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KERNELS))


def choose_precision(setting: PrecisionSetting, device: torch.device) -> Precision:
    """The precision of a setting. "auto" is bfloat16 if that is faster on this device: a processor without
    instructions for bfloat16 emulates it slowly."""
    if setting != "auto":
        return setting
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    if device.type == "cpu":
        return "bfloat16" if _product_seconds(torch.bfloat16) < 0.7 * _product_seconds(torch.float32) else "float32"
    return "float32"


def _product_seconds(dtype: torch.dtype, size: int = 256) -> float:
    """The shortest time of a few products. Measuring takes five milliseconds; each vendor's flags would differ."""
    matrix = torch.ones(size, size, dtype=dtype)
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        torch.mm(matrix, matrix)
        best = min(best, time.perf_counter() - began)
    return best


def autocast(precision: Precision, device: torch.device) -> Callable[[], AbstractContextManager[Any]]:
    """Makes the context to compute in: for bfloat16, products are in bfloat16, sums and norms in float32."""
    if precision == "float32":
        return contextlib.nullcontext
    return lambda: torch.autocast(device.type, torch.bfloat16)


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """A context without gradients, within a computation that has them.

    It clears the weights that autocast converted meanwhile. Older versions of PyTorch (before its PR 165068) would use
    them again where gradients are needed, and lose the gradients.
    """
    with torch.no_grad():
        yield
    torch.clear_autocast_cache()


def check_precision(name: str) -> None:
    """Raises UserError unless this is the name of a precision."""
    if name not in get_args(Precision):
        raise UserError(f"precision {name!r}: expected {' or '.join(get_args(Precision))}")


def hold_matrices(precision: Precision, model: nn.Module) -> None:
    """Keep the matrices of a model that is used and not trained in this precision; in bfloat16 they take half the
    memory, and no product has to convert them. Call the model within ``autocast`` of the same precision.

    Vectors (biases, norms) and all that is not a product stay in float32, and so do log-probabilities, which searches
    compute. Counted parameters, which have no gradient, stay as they are: no product uses them.
    """
    if precision == "float32":
        return
    bound_kernel_cache()
    for parameter in model.parameters():
        if parameter.ndim > 1 and parameter.requires_grad:
            parameter.data = parameter.data.to(torch.bfloat16)
