"""The linear layer has two ways to compute the same product."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transduce.compute import processor
from transduce.compute.packing import OneDNNPacking, in_few_shapes
from transduce.layers.modules import linear
from transduce.layers.modules.linear import Linear

onednn_is_there = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this PyTorch has no oneDNN"
)


@pytest.fixture
def onednn_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chooses oneDNN, as on a processor for which it is faster."""
    monkeypatch.setattr(linear, "ONEDNN", True)


@onednn_is_there
@pytest.mark.usefixtures("onednn_is_faster")
@pytest.mark.parametrize("rows", [(1,), (8,), (3, 7), (0,), (2, 5, 9)])
@pytest.mark.parametrize("bias", [True, False])
@torch.inference_mode()
def test_a_product_is_the_same_however_it_is_computed(rows: tuple[int, ...], bias: bool) -> None:
    layer, x = Linear(12, 20, bias), torch.randn(*rows, 12)
    assert_close(layer(x), nn.functional.linear(x, layer.weight, layer.bias))
    parts = torch.randn(*rows, 24)[..., 6:18]  # a part of a larger tensor
    assert_close(layer(parts), nn.functional.linear(parts, layer.weight, layer.bias))
    chunk = layer.weight.chunk(2)[1]
    assert_close(linear.linear(x, chunk), nn.functional.linear(x, chunk))


@onednn_is_there
@pytest.mark.usefixtures("onednn_is_faster")
@torch.inference_mode()
def test_onednn_sees_few_shapes_whatever_the_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN makes a kernel for each shape, and a server has batches of every size."""
    layer, seen, product, kernel = Linear(4, 3), set[int](), linear._product, OneDNNPacking()
    copy = kernel.pack(layer.weight, layer.bias)
    monkeypatch.setattr(linear, "_product", lambda x, *rest: (seen.add(x.shape[0]), product(x, *rest))[1])
    for rows in range(1, 400):
        x = torch.randn(rows, 4)
        expected = nn.functional.linear(x, layer.weight, layer.bias)
        assert_close(layer(x), expected)
        assert_close(kernel.multiply(x, copy), expected)
        assert_close(in_few_shapes(x[None], lambda padded: seen.add(len(padded)) or padded), x[None])
    assert len(seen) < 60
    assert max(seen) <= 416


@onednn_is_there
@pytest.mark.usefixtures("onednn_is_faster")
def test_onednn_is_asked_where_nothing_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = Linear(4, 3), torch.randn(8, 4)
    monkeypatch.setattr(nn.functional, "linear", lambda *_: pytest.fail("not by oneDNN"))
    with torch.no_grad():
        layer(x)


@onednn_is_there
@pytest.mark.usefixtures("onednn_is_faster")
@pytest.mark.parametrize("rows", [(8,), (3, 7), (2, 5, 9)])
@pytest.mark.parametrize("bias", [True, False])
def test_large_products_have_the_same_gradients(
    rows: tuple[int, ...], bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, x = Linear(12, 20, bias), torch.randn(*rows, 12, requires_grad=True)
    inputs, weights = (x, *layer.parameters()), torch.randn(*rows, 20)
    expected = torch.autograd.grad((nn.functional.linear(x, layer.weight, layer.bias) * weights).sum(), inputs)
    monkeypatch.setattr(linear, "MUCH", 0)
    monkeypatch.setattr(nn.functional, "linear", lambda *_: pytest.fail("not by oneDNN"))
    y = layer(x)
    y += 0  # later code may write into the output
    assert_close(torch.autograd.grad((y * weights).sum(), inputs), expected)
    layer.requires_grad_(False)
    assert_close(torch.autograd.grad((layer(x) * weights).sum(), [x]), expected[:1])


@onednn_is_there
@pytest.mark.usefixtures("onednn_is_faster")
def test_parts_of_wider_matrices_are_multiplied_as_fast() -> None:
    """oneDNN takes a thousand times as long if the second factor is a part of a wider matrix."""

    def seconds(layer: Linear, rows: int, parts: bool) -> float:
        x, gradient = torch.randn(rows, 2 * layer.in_features), torch.randn(rows, 2 * layer.out_features)
        x, gradient = x[:, : layer.in_features], gradient[:, : layer.out_features]
        if not parts:
            x, gradient = x.contiguous(), gradient.contiguous()
        began = time.process_time()
        layer(x).backward(gradient)
        return time.process_time() - began

    for layer in (Linear(256, 1024), Linear(1024, 256)):
        whole = min(seconds(layer, 257, False) for _ in range(3))
        assert seconds(layer, 257, True) < 20 * whole


@pytest.mark.usefixtures("onednn_is_faster")
def test_small_gradients_and_other_types_are_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = Linear(4, 3), torch.randn(8, 4)
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", lambda *_: pytest.fail("by oneDNN"), raising=False)
    layer(x).sum().backward()
    assert layer.weight.grad is not None
    with torch.no_grad():
        layer(x[:7])
        layer.double()(x.double())
        layer.bfloat16()(x.bfloat16())
        layer.float()
        with torch.autocast("cpu", torch.bfloat16):
            assert layer(x).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("told", "best"), [("AMD avx2", False), ("AMD avx2 avx512bw", True), ("Intel avx512bw", False), ("arm64", False)]
)
def test_onednn_is_the_faster_where_mkl_leaves_avx512_unused(
    told: str, best: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "_description", lambda: told)
    assert processor.multiplies_best_by_onednn() == best


@pytest.mark.parametrize("rows", [(257,), (300,), (320,), (3, 7, 31)])
@pytest.mark.parametrize("bias", [True, False])
def test_rows_of_zeros_under_autocast_change_no_gradient(rows: tuple[int, ...], bias: bool) -> None:
    layer, x = Linear(12, 20, bias), torch.randn(*rows, 12, requires_grad=True)
    inputs, weights = (x, *layer.parameters()), torch.randn(*rows, 20).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        expected = nn.functional.linear(x, layer.weight, layer.bias)
        y = layer(x)
    assert y.dtype == torch.bfloat16
    assert_close(y, expected)
    y += 0  # later code may write into the output
    assert_close(
        torch.autograd.grad((y * weights).sum(), inputs), torch.autograd.grad((expected * weights).sum(), inputs)
    )
    with torch.autocast("cpu", torch.bfloat16):
        assert layer.double()(x.double()).dtype == torch.float64


def test_training_under_autocast_sees_few_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, seen, product = Linear(4, 3), set[int](), nn.functional.linear
    monkeypatch.setattr(nn.functional, "linear", lambda x, *rest: (seen.add(len(x)), product(x, *rest))[1])
    with torch.autocast("cpu", torch.bfloat16):
        for rows in range(257, 2000, 7):
            assert layer(torch.randn(rows, 4)).shape == (rows, 3)
    assert len(seen) < 30
    assert all(rows % 32 == 0 for rows in seen)
