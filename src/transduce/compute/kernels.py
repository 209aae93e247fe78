"""Attention, dropout and cross-entropy of a training on the CPU, by the compiled library.

compute/native/training.h describes the functions. If the library was not built, ``fits`` is False, and
PyTorch's own operators compute the same.

B rows, H heads, T queries, S keys, D features; N positions, V vocabulary.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Sequence
from ctypes import CDLL, POINTER, Structure, byref, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from transduce.compute.autograd import Context
from transduce.compute.library import declare, optional_library
from transduce.compute.processor import multiplies_tiles

log = logging.getLogger("transduce")

TYPES = (torch.float32, torch.bfloat16)
OPENMP = ("libgomp.so.1", "libiomp5.so", "libomp.so")  # the libraries that PyTorch's threads may come from
FEW = 64  # most keys in bfloat16: for more keys, products by AMX save more time than a single kernel
LANES = 16  # the library pads rows of weights to a multiple of this number
BARRED = -1e30  # replaces minus infinity, which the library does not support
WHOLE = 2**32


class Dropped(Structure):
    _fields_ = (("seed", c_uint64), ("dropped", c_uint32), ("scale", c_float))


class Numbers(Structure):
    _fields_ = (("data", c_void_p), ("halves", c_int32))


class Vectors(Structure):
    _fields_ = (("data", c_void_p), ("row", c_int64), ("head", c_int64), ("place", c_int64))


class Attention(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("rows", "heads", "queries", "keys", "features")),
        ("halves", c_int32),
        ("threads", c_int32),
        ("scale", c_float),
        *((name, Vectors) for name in ("query", "key", "value", "context")),
        ("bias", c_void_p),
        *((name, c_int64) for name in ("bias_row", "bias_head", "bias_query")),
        ("weights", c_void_p),
        ("dropped", Dropped),
    )


def fits(*tensors: Tensor) -> bool:
    """True if the library supports these tensors: float32 or bfloat16 on the CPU, all of the same type."""
    return (
        all(each.device.type == "cpu" and each.dtype == tensors[0].dtype for each in tensors)
        and tensors[0].dtype in TYPES
        and not torch.compiler.is_compiling()
        and _functions() is not None
    )


def fits_attention(query_BHTD: Tensor, key_BHSD: Tensor, value_BHSD: Tensor, bias: Tensor) -> bool:
    """True if ``attend`` supports these tensors, and is faster than PyTorch's operators. The tensors must have the same
    rows, heads and features, ``fits`` must allow them, and the bias must need no gradient.
    """
    B, H, _, D = query_BHTD.shape
    alike = key_BHSD.shape == value_BHSD.shape == (B, H, key_BHSD.shape[2], D)
    few = key_BHSD.shape[2] <= FEW or key_BHSD.dtype != torch.bfloat16 or not multiplies_tiles()
    return alike and few and not bias.requires_grad and fits(query_BHTD, key_BHSD, value_BHSD)


def drop(x: Tensor, p: float) -> Tensor:
    """Dropout of a tensor that ``fits`` allows: each element becomes 0 with probability ``p``, and the others are
    multiplied by 1 / (1 - p). The seed of the elements is one number a call from PyTorch's random generator.
    """
    y: Tensor = _Dropout.apply(x, _dropped(p))  # type: ignore[no-untyped-call]
    return y


def drop_rectified(x: Tensor, p: float) -> Tensor:
    """dropout(relu(x)) of a tensor that ``fits`` allows, in one pass."""
    y: Tensor = _RectifiedDropout.apply(x, _dropped(p))  # type: ignore[no-untyped-call]
    return y


def add_dropped(base: Tensor, x: Tensor, p: float) -> Tensor:
    """base + dropout(x) of two tensors of one shape, in one pass. ``fits`` must allow each of the two. The result
    has the type of ``base``.
    """
    y: Tensor = _Sum.apply(base, x, _dropped(p))  # type: ignore[no-untyped-call]
    return y


def attend(query_BHTD: Tensor, key_BHSD: Tensor, value_BHSD: Tensor, bias: Tensor, p: float) -> Tensor:
    """dropout(softmax(q k' / sqrt(D) + bias)) v, [B, H, T, D], of tensors that ``fits_attention`` allows. ``bias``
    broadcasts to [B, H, T, S]; minus infinity masks a key. A query without a key reads zeros. ``p`` is the probability
    of dropout.
    """
    y: Tensor = _Attention.apply(query_BHTD, key_BHSD, value_BHSD, bias, _dropped(p))  # type: ignore[no-untyped-call]
    return y


def cross_entropy(logits_NV: Tensor, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Two sums and a gradient, for logits that ``fits`` allows and targets [N]. The first sum is -log p(target), and
    the second is the mean of -log p over the vocabulary, both summed over N. They are float64 scalars. The gradient
    [N, V] is the gradient of (1 - smoothing) times the first sum plus smoothing times the second. Raises IndexError for
    a target that is not from 0 to V - 1.
    """
    logits_NV, target_N = logits_NV.contiguous(), target_N.long().contiguous()
    outside = target_N[(target_N < 0) | (target_N >= logits_NV.shape[1])]
    if len(outside):  # the library would write outside of its memory
        raise IndexError(f"target {int(outside[0])} is outside a vocabulary of {logits_NV.shape[1]}")
    gradient_NV = torch.empty_like(logits_NV)
    losses_2N = torch.empty(2, len(logits_NV), dtype=torch.float64)
    _functions().transduce_cross_entropy(
        byref(_numbers(logits_NV)),
        target_N.data_ptr(),
        *logits_NV.shape,
        smoothing,
        torch.get_num_threads(),
        byref(_numbers(gradient_NV)),
        *(each.data_ptr() for each in losses_2N),
    )
    nll, smooth = losses_2N.sum(1)
    return nll, smooth, gradient_NV


class _Dropping(Context, Protocol):
    dropped: Dropped
    type: torch.dtype


class _Dropout(torch.autograd.Function):
    """Keeps no mask. Like the other functions here, it draws the same random numbers again in the backward pass."""

    @staticmethod
    def forward(ctx: _Dropping, x: Tensor, dropped: Dropped) -> Tensor:
        ctx.dropped = dropped
        return _drop(x, x.dtype, dropped)

    @staticmethod
    @once_differentiable
    def backward(ctx: _Dropping, gradient: Tensor) -> tuple[Tensor, None]:
        return _drop(gradient, gradient.dtype, ctx.dropped), None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Dropping, base: Tensor, x: Tensor, dropped: Dropped) -> Tensor:
        ctx.dropped, ctx.type = dropped, x.dtype
        return _drop(x, base.dtype, dropped, base.contiguous())

    @staticmethod
    @once_differentiable
    def backward(ctx: _Dropping, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        return gradient, _drop(gradient, ctx.type, ctx.dropped), None


class _RectifiedDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Dropping, x: Tensor, dropped: Dropped) -> Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        described = byref(_numbers(x)), byref(_numbers(y)), x.numel(), torch.get_num_threads(), byref(dropped)
        _functions().transduce_drop_rectified(*described)
        ctx.save_for_backward(y)
        ctx.dropped = dropped
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: _Dropping, gradient: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        gradient = gradient.contiguous()
        for_x = torch.empty_like(y)
        arrays = (byref(_numbers(each)) for each in (gradient, y, for_x))
        _functions().transduce_drop_rectified_backward(*arrays, y.numel(), torch.get_num_threads(), byref(ctx.dropped))
        return for_x, None


def _drop(x: Tensor, to: torch.dtype, dropped: Dropped, base: Tensor | None = None) -> Tensor:
    """dropout(x), or ``base`` + dropout(x), in the type ``to``, which is the type of the base."""
    x = x.contiguous()
    y = torch.empty_like(x, dtype=to)
    below = None if base is None else byref(_numbers(base))
    _functions().transduce_drop(
        byref(_numbers(x)), below, byref(_numbers(y)), x.numel(), torch.get_num_threads(), byref(dropped)
    )
    return y


def _numbers(x: Tensor) -> Numbers:
    return Numbers(x.data_ptr(), x.dtype == torch.bfloat16)


class _Attention(torch.autograd.Function):
    """Saves the softmax, and draws the same random numbers of dropout again in the backward pass."""

    @staticmethod
    def forward(
        ctx: _Dropping, query_BHTD: Tensor, key_BHSD: Tensor, value_BHSD: Tensor, bias: Tensor, dropped: Dropped
    ) -> Tensor:
        parts = tuple(_with_features_together(each) for each in (query_BHTD, key_BHSD, value_BHSD))
        (B, H, T, D), S = query_BHTD.shape, key_BHSD.shape[2]
        context_BHTD = query_BHTD.new_empty(B, T, H, D).transpose(1, 2)  # this order merges the heads without a copy
        weights_BHTS = query_BHTD.new_empty(B, H, T, -(-S // LANES) * LANES, dtype=torch.float32)
        bias_BHTS = bias.float().clamp(min=BARRED).contiguous().expand(B, H, T, S)
        described = _described(parts, context_BHTD, bias_BHTS, weights_BHTS, dropped)
        _functions().transduce_attend(byref(described))
        ctx.save_for_backward(*parts, weights_BHTS)
        ctx.dropped = dropped
        return context_BHTD

    @staticmethod
    @once_differentiable
    def backward(ctx: _Dropping, gradient_BHTD: Tensor) -> tuple[Tensor | None, ...]:
        *parts, weights_BHTS = ctx.saved_tensors
        gradient_BHTD = _with_features_together(gradient_BHTD)
        described = _described(parts, gradient_BHTD, weights_BHTS, weights_BHTS, ctx.dropped)  # the bias is not read
        gradients = _places_like(*parts)
        _functions().transduce_attend_backward(byref(described), *(byref(_vectors(each)) for each in gradients))
        return (*gradients, None, None)


def _described(parts: Sequence[Tensor], context: Tensor, bias: Tensor, weights: Tensor, dropped: Dropped) -> Attention:
    """The structure of training.h. ``parts`` are the queries, keys and values."""
    query, key, _ = parts
    vectors = (_vectors(each) for each in (*parts, context))
    return Attention(
        *query.shape[:3],
        key.shape[2],
        query.shape[3],
        query.dtype == torch.bfloat16,
        torch.get_num_threads(),
        query.shape[3] ** -0.5,
        *vectors,
        bias.data_ptr(),
        *bias.stride()[:3],
        weights.data_ptr(),
        dropped,
    )


def _vectors(x: Tensor) -> Vectors:
    return Vectors(x.data_ptr(), *x.stride()[:3])


def _with_features_together(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _places_like(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    """Memory for the three gradients. If one linear layer computed all parts (``split_heads``), this memory becomes its
    gradient without a copy.
    """
    B, H, T, D = query.shape
    if query.stride() == key.stride() == value.stride() == (3 * T * H * D, D, 3 * H * D, 1):
        return query.new_empty(B, T, 3, H, D).permute(2, 0, 3, 1, 4).unbind(0)
    return tuple(each.new_empty(B, each.shape[2], H, D).transpose(1, 2) for each in (query, key, value))


def _dropped(p: float) -> Dropped:
    if p == 0:
        return Dropped(0, 0, 1.0)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    dropped = min(round(p * WHOLE), WHOLE - 1)
    return Dropped(seed, dropped, WHOLE / (WHOLE - dropped))


@cache
def _functions() -> Any:
    """The library with its functions ``declared``. None if the library was not built."""
    functions = optional_library()
    if functions is not None and _parallel() is None and torch.get_num_threads() > 1:
        log.warning(
            "attention, dropout and cross-entropy run on one thread: PyTorch here has none of the OpenMP libraries "
            f"{', '.join(OPENMP)} with the function GOMP_parallel"
        )
    return None if functions is None else declared(functions)


def declared(functions: CDLL) -> CDLL:
    """A variant of the library, with the functions of training.h declared, and with PyTorch's threads."""
    with_memory: dict[str, Sequence[type]] = {
        "attend": [POINTER(Attention)],
        "attend_backward": [POINTER(Attention)] + [POINTER(Vectors)] * 3,
        "cross_entropy": [
            *(POINTER(Numbers), c_void_p, c_int64, c_int64, c_float, c_int32),
            *(POINTER(Numbers), c_void_p, c_void_p),
        ],
    }
    declare(functions, with_memory, structures={each.__name__: each for each in (Dropped, Numbers, Vectors, Attention)})
    signatures: dict[str, Sequence[type]] = {
        "set_parallel": [c_void_p],
        "drop": [POINTER(Numbers)] * 3 + [c_int64, c_int32, POINTER(Dropped)],
        "drop_rectified": [POINTER(Numbers)] * 2 + [c_int64, c_int32, POINTER(Dropped)],
        "drop_rectified_backward": [POINTER(Numbers)] * 3 + [c_int64, c_int32, POINTER(Dropped)],
    }
    declare(functions, signatures, None)
    functions.transduce_set_parallel(_parallel())
    return functions


def _parallel() -> c_void_p | None:
    """The address of GOMP_parallel in the OpenMP library that PyTorch has loaded; None if there is no such function."""
    for name in OPENMP:
        try:
            return ctypes.cast(ctypes.CDLL(name, os.RTLD_NOLOAD | os.RTLD_NOW).GOMP_parallel, c_void_p)
        except (OSError, AttributeError):
            continue
    return None
