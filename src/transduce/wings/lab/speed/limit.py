"""The limit of a machine: the speed of its fastest matrix products, by all kernels that models use.

One kernel on one shape is no limit. MKL leaves half of an AMD processor unused, oneDNN computes bfloat16 twice as fast
as MKL elsewhere, and some shapes are faster than large squares.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

Shape = tuple[int, int, int]  # rows, inner, columns

SHAPES: tuple[Shape, ...] = ((1024, 1024, 1024), (512, 512, 512), (2048, 256, 1024), (2048, 1024, 256))
SECONDS = 0.1  # for each kernel and shape
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

Clock = Callable[[], float]


def fastest_products(
    precision: str, shapes: Sequence[Shape] = (), clock: Clock = time.perf_counter, seconds: float = SECONDS
) -> float:
    """GFLOP/s of the fastest matrix product on the processor, with the threads that PyTorch uses.

    Measures each kernel on ``SHAPES`` and on further ``shapes``, for ``seconds`` by the ``clock``, and at least once
    after one product to warm up. Other work on the machine slows it, so measure it beside the work that it limits.
    """
    with torch.no_grad():
        return max(
            2 * shape[0] * shape[1] * shape[2] / _shortest(product, clock, seconds) / 1e9
            for shape in dict.fromkeys((*SHAPES, *shapes))
            for product in _products(shape, TYPES[precision])
        )


def _products(shape: Shape, dtype: torch.dtype) -> Iterator[Callable[[], Tensor]]:
    """The product of ``shape`` by each kernel: PyTorch's choice for both orders of the second matrix, and oneDNN's with
    the unchanged matrix and with its own order of blocks.
    """
    rows, inner, columns = shape
    x, weight = torch.randn(rows, inner).to(dtype), torch.randn(columns, inner).to(dtype)
    turned = weight.t().contiguous()
    yield lambda: x @ turned
    yield lambda: torch.nn.functional.linear(x, weight)
    onednn = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    if onednn is not None and (dtype != torch.bfloat16 or _has_bfloat16()):
        blocks = torch.ops.mkldnn._reorder_linear_weight(weight)
        yield lambda: onednn(x, weight, None, "none", [], "")
        yield lambda: onednn(x, blocks, None, "none", [], "")


def _has_bfloat16() -> bool:
    """True if oneDNN computes in bfloat16 here. Otherwise it refuses, for example with AVX2 alone."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _shortest(work: Callable[[], Tensor], clock: Clock, seconds: float) -> float:
    """The shortest time of some repetitions."""
    work()
    shortest, end = float("inf"), clock() + seconds
    while shortest == float("inf") or clock() < end:
        began = clock()
        work()
        shortest = min(shortest, max(clock() - began, 1e-9))
    return shortest
