"""In which precision a machine multiplies."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Literal, get_args

import torch
from torch import nn

from transduce.compute.processor import multiplies_tiles
from transduce.errors import UserError
from transduce.protocols import Autoregressive, Chain, Distribution, Framewise, Parallel, Regressor, verbs

Precision = Literal["float32", "bfloat16"]
PrecisionSetting = Literal["auto", "float32", "bfloat16"]

WAYS = (Distribution, Autoregressive, Parallel, Framewise, Regressor, Chain)
VERBS = sorted({verb for way in WAYS for verb in verbs(way)})
"""What is asked of models."""


KERNELS = 1024 if multiplies_tiles() else 64


def bound_kernel_cache() -> None:
    """Let oneDNN, which multiplies bfloat16 on the CPU, remember ``KERNELS`` of them; to be called before its first
    product.

    It keeps one for each shape of product, and sentences have thousands of shapes. Where a kernel is made in no time
    its own 1,024 take two gigabytes and are slower than 64 (docs/log.md, 2026-11-20); where that takes 5 ms, training
    is a tenth to two fifths slower with 64 (2026-11-21). What the environment says already stands.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KERNELS))


def choose_precision(wanted: PrecisionSetting, device: torch.device) -> Precision:
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
    """A context to compute in: products in bfloat16, with sums and norms in float32."""
    if precision == "float32":
        return contextlib.nullcontext
    return lambda: torch.autocast(device.type, torch.bfloat16)


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Without gradients, amid what has them: what autocast converts meanwhile is forgotten, lest older versions of
    PyTorch (before its PR 165068) use it again where gradients are wanted, and lose them."""
    with torch.no_grad():
        yield
    torch.clear_autocast_cache()


def check_precision(name: str) -> None:
    """Raise ValueError unless it is the name of a precision."""
    if name not in get_args(Precision):
        raise UserError(f"precision {name!r}: expected {' or '.join(get_args(Precision))}")


def predict_in(precision: Precision, model: nn.Module, device: torch.device) -> None:
    """Let a model that is to be used and not trained compute in this precision, whoever asks it.

    In bfloat16 its matrices are held in it, which halves them and spares their conversion; vectors (biases, norms) and
    what runs between the products stay in float32, and so do log-probabilities, which whoever searches makes. What was
    counted, and has no gradient, stays as it is: nothing is multiplied by it.
    """
    if precision == "float32":
        return
    bound_kernel_cache()
    for parameter in model.parameters():
        if parameter.ndim > 1 and parameter.requires_grad:
            parameter.data = parameter.data.to(torch.bfloat16)
    for verb in VERBS:
        if hasattr(model, verb):
            setattr(model, verb, _within(autocast(precision, device), getattr(model, verb)))


def _within(context: Callable[[], AbstractContextManager[Any]], verb: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(verb)
    def called(*arguments: Any, **named: Any) -> Any:
        with context():
            return verb(*arguments, **named)

    return called
