"""The precision of matrix products: its choice, and the context in which a model computes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import nn

from transduce.compute.packing import ONEDNN, HalfPacking, OneDNNPacking, multiplies_halves, pack
from transduce.compute.processor import multiplies_tiles
from transduce.core.errors import UserError
from transduce.core.finite import readable

Precision = Literal["float32", "bfloat16", "float16", "int8"]  # only the native engine has int8
PrecisionSetting = Literal["auto", "float32", "bfloat16"]

FASTER = 0.7  # "auto" takes bfloat16 if a product needs less than this share of the time in float32
MEASURED_SECONDS, MEASURED_ROUNDS = 0.2, 5  # least seconds and rounds of the measurement

KERNELS = 1024 if multiplies_tiles() else 64


def bound_kernel_cache() -> None:
    """Lets oneDNN, which computes bfloat16 products on the CPU, cache ``KERNELS`` kernels.

    Call it before the first product. If the environment sets a value already, this value is kept.

    oneDNN makes one kernel for each shape of product, and sentences have thousands of shapes. Its default is 1,024. If
    a processor makes a kernel quickly, that takes two gigabytes and is slower than 64 (docs/log.md, 2026-11-20). If a
    kernel takes 5 ms, training is 10 to 40 % slower with 64 (2026-11-21).
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KERNELS))


@dataclass(frozen=True)
class PrecisionChoice:
    """The precision to compute in, and the ``reason`` in words why the setting "auto" chose it.

    The reason is empty if the setting itself names the precision, or if "auto" chose float32 without a measurement (on
    a device other than cpu).
    """

    precision: Precision
    reason: str = ""


def choose_precision(setting: PrecisionSetting, device: torch.device) -> PrecisionChoice:
    """The precision that a setting names. "auto" chooses one for this ``device``.

    On cpu, "auto" measures both precisions, which takes at least a fifth of a second. The reason is that a processor
    without instructions for bfloat16 emulates the type slowly. "auto" chooses bfloat16 if a product then needs less
    than ``FASTER`` of the time in float32. It chooses bfloat16 on cuda if the GPU multiplies the type natively.
    Otherwise it chooses float32. Keep the choice with the run: on a processor with other work, or on another processor,
    it may differ.
    """
    if setting != "auto":
        return PrecisionChoice(setting)
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
        return PrecisionChoice("bfloat16", "the GPU multiplies it") if native else PrecisionChoice("float32")
    if device.type != "cpu":
        return PrecisionChoice("float32")
    ratio = _bfloat16_time()
    measured = f"here a product in bfloat16 takes {readable(ratio, 2)} times as long as in float32, and"
    if ratio < FASTER:
        return PrecisionChoice("bfloat16", f"{measured} less than {FASTER:g} is faster in training")
    return PrecisionChoice("float32", f"{measured} only less than {FASTER:g} would be faster in training")


def _bfloat16_time(size: int = 256) -> float:
    """The time of a bfloat16 product on the processor, as a multiple of the time of a float32 product.

    Compares the shortest times of many products that alternate, so that other work on the machine slows both.
    """
    matrices = [torch.ones(size, size, dtype=dtype) for dtype in (torch.bfloat16, torch.float32)]
    shortest = [float("inf"), float("inf")]
    began, rounds = time.perf_counter(), 0
    while rounds < MEASURED_ROUNDS or time.perf_counter() - began < MEASURED_SECONDS:
        for number, matrix in enumerate(matrices):
            start = time.perf_counter()
            torch.mm(matrix, matrix)
            shortest[number] = min(shortest[number], time.perf_counter() - start)
        rounds += 1
    return shortest[0] / shortest[1]


def autocast(precision: Precision, device: torch.device) -> Callable[[], AbstractContextManager[object]]:
    """Returns a function that makes the context in which the model computes.

    For bfloat16, products are in bfloat16, sums and norms in float32. For the other precisions, the context changes
    nothing. float16 is only the precision in which matrices are kept.
    """
    if precision != "bfloat16":
        return contextlib.nullcontext
    return lambda: torch.autocast(device.type, torch.bfloat16)


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """A context without gradients, to use inside a computation that has gradients.

    At its end it clears the weights that autocast has converted inside it. Older versions of PyTorch (before its PR
    165068) would use them again in computations that need gradients, and lose the gradients.
    """
    with torch.no_grad():
        yield
    torch.clear_autocast_cache()


def check_precision(name: str) -> None:
    """Raises UserError unless this is the name of a precision."""
    if name not in get_args(Precision):
        *first, last = get_args(Precision)
        raise UserError(f"precision {name!r}: expected {', '.join(first)} or {last}")


def hold_matrices(precision: Precision, model: nn.Module) -> None:
    """Converts the matrices of a model that only predicts to this precision, in place.

    bfloat16 needs half the memory, and no product has to convert the matrices. Call the model within ``autocast`` of
    the same precision. Vectors (biases, norms) stay in float32. Operations that are not products, and the
    log-probabilities that searches compute, stay in float32, too.

    float16 is for the CPU. On another device, it raises UserError. The matrices are rounded to float16 and stay in
    float32. On processors with FBGEMM, each product uses a copy in float16. Sums are in float32. A matrix with numbers
    too large for float16 does not change.

    float32 changes no number. On processors where oneDNN is fastest, each product uses a copy in oneDNN's order.

    Counted parameters have no gradient and are not converted, because no product uses them.
    """
    trained = [parameter for parameter in model.parameters() if parameter.ndim > 1 and parameter.requires_grad]
    on_cpu = all(parameter.device.type == "cpu" for parameter in trained)
    if precision == "bfloat16":
        bound_kernel_cache()
        for parameter in trained:
            parameter.data = parameter.data.to(torch.bfloat16)
    elif precision == "float16":
        if not on_cpu:
            raise UserError("precision 'float16' is for the cpu: on this device use bfloat16, or --device cpu")
        fitting = [parameter for parameter in trained if parameter.data.half().isfinite().all()]
        for parameter in fitting:
            parameter.data = parameter.data.half().to(parameter.dtype)
        if multiplies_halves():
            pack(fitting, HalfPacking())
    elif ONEDNN and on_cpu:
        pack(trained, OneDNNPacking())
