"""The compiled library's attention and dropout for training. They have the numbers and gradients of plain operators, in
every variant of the library and with any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from libraries import needs_library, usable
from transduce.compute import kernels, library
from transduce.compute.cross_entropy import smoothed_cross_entropy
from transduce.layers.modules.attention.heads import Heads, merge_heads, split_heads

pytestmark = needs_library
SIZES = [(3, 2, 5, 7, 8), (2, 3, 33, 40, 24), (1, 1, 1, 1, 1), (2, 2, 18, 16, 80), (4, 2, 1, 17, 64)]
SHARED = torch.float32, torch.bfloat16
CLOSE = {torch.float32: {"rtol": 1e-5, "atol": 2e-6}, torch.bfloat16: {"rtol": 1e-2, "atol": 1e-2}}


def numbers(B: int, H: int, T: int, S: int, D: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys, values and a bias that masks keys. The keys and values have the strides of one linear layer."""
    torch.manual_seed(1)
    query = torch.randn(B, H, T, D).to(dtype)
    key, value = torch.randn(B, S, 2, H, D).to(dtype).permute(2, 0, 3, 1, 4)
    bias = torch.randn(B, 1, T, S)
    bias[0, :, :, S // 2 + 1 :] = -torch.inf
    return query, key, value, bias


def plain(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, factors: Tensor | float = 1.0) -> Tensor:
    energies = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    return (torch.softmax(energies + bias, -1) * factors) @ value


def with_gradients(function: Any, *parts: Tensor) -> list[Tensor]:
    leaves = [part.detach().requires_grad_() for part in parts]
    y = function(*leaves)
    torch.manual_seed(2)
    gradient = torch.randn(y.shape).to(parts[0].dtype)
    return [y.detach(), *torch.autograd.grad(y, leaves, gradient.to(y.dtype))]


@pytest.fixture(params=range(len(library.VARIANTS)), ids=library.VARIANTS)
def variant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    found = usable()
    if request.param >= len(found):
        pytest.skip("this processor does not run the variant, or it was not built")
    functions = kernels.declared(found[request.param])
    monkeypatch.setattr(kernels, "_functions", lambda: functions)


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("dtype", SHARED)
@pytest.mark.parametrize("sizes", SIZES)
def test_attention_and_its_gradients_are_those_of_plain_operators(sizes: Any, dtype: torch.dtype) -> None:
    *parts, bias = numbers(*sizes, dtype)
    found = with_gradients(lambda *each: kernels.attend(*each, bias, 0.0), *parts)
    expected = with_gradients(lambda *each: plain(*each, bias.double()), *(part.double() for part in parts))
    for one, other in zip(found, expected, strict=True):
        assert_close(one.double(), other, **CLOSE[dtype])


@pytest.mark.usefixtures("variant")
def test_dropout_in_attention_drops_the_same_weights_backward() -> None:
    B, H, T, S = 2, 3, 20, 32
    query, key, _, bias = numbers(B, H, T, S, S, torch.float32)
    one = torch.eye(S).expand(B, H, S, S)  # with these values, the output is the weights
    torch.manual_seed(3)
    dropped = kernels.attend(query.requires_grad_(), key, one, bias, 0.4).detach()
    factors = torch.where(dropped == 0, 0.0, 1 / 0.6).double()
    torch.manual_seed(3)
    found = with_gradients(lambda *each: kernels.attend(*each, bias, 0.4), query, key, one)
    expected = with_gradients(
        lambda *each: plain(*each, bias.double(), factors), *(each.double() for each in (query, key, one))
    )
    for each, other in zip(found, expected, strict=True):
        assert_close(each.double(), other, **CLOSE[torch.float32])
    real = factors[1]  # no key is masked there
    assert (real == 0).double().mean().item() == pytest.approx(0.4, abs=5 * (0.24 / real.numel()) ** 0.5)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", SHARED)
def test_the_number_of_threads_changes_no_number(dtype: torch.dtype) -> None:
    *parts, bias = numbers(9, 2, 21, 19, 16, dtype)
    x = torch.randn(50_001).to(dtype)
    found = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        torch.manual_seed(4)
        attended = with_gradients(lambda *each: kernels.attend(*each, bias, 0.2), *parts)
        torch.manual_seed(4)
        found.append([*attended, *with_gradients(lambda each: kernels.drop(each, 0.3), x)])
    for each in zip(*found, strict=True):
        assert all(one.equal(each[0]) for one in each)


def test_a_query_whose_keys_are_all_barred_reads_zeros() -> None:
    *parts, bias = numbers(2, 1, 3, 4, 8, torch.float32)
    bias[1, :, 2] = -torch.inf
    y, *gradients = with_gradients(lambda *each: kernels.attend(*each, bias, 0.0), *parts)
    assert (y[1, :, 2] == 0).all()
    assert (gradients[0][1, :, 2] == 0).all()
    assert all(each.isfinite().all() for each in (y, *gradients))


@pytest.mark.parametrize("dtype", SHARED)
def test_heads_compute_the_same_without_the_library(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(5)
    x, bias = torch.randn(3, 9, 3 * 2 * 8).to(dtype), torch.zeros(3, 1, 1, 9)
    bias[1, ..., 4:] = -torch.inf
    heads = Heads(0.0)

    def run(x: Tensor) -> Tensor:
        return merge_heads(heads(*split_heads(x, 3, 2), bias.to(dtype)))

    found = with_gradients(run, x)
    monkeypatch.setattr(kernels, "_functions", lambda: None)
    for one, other in zip(found, with_gradients(run, x), strict=True):
        assert_close(one, other, **CLOSE[dtype])


@pytest.mark.parametrize("turned", [False, True], ids=["one memory", "another memory"])
def test_the_parts_of_a_projection_get_their_own_gradients(turned: bool) -> None:
    torch.manual_seed(6)
    x, bias = torch.randn(3, 5, 3 * 2 * 4), torch.zeros(3, 1, 1, 5)

    def run(attend: Any, x: Tensor) -> Tensor:
        query, key, value = split_heads(x, 3, 2)
        return merge_heads(attend(query, 2 * key if turned else key, value, bias))

    found = with_gradients(lambda x: run(lambda *each: kernels.attend(*each, 0.0), x), x)
    expected = with_gradients(lambda x: run(plain, x), x)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("dtype", SHARED)
def test_dropout_with_relu_and_in_a_sum_are_dropout_after_and_before_them(dtype: torch.dtype) -> None:
    torch.manual_seed(7)
    x, base = torch.randn(3, 7001).to(dtype), torch.randn(3, 7001)
    pairs = [
        (lambda x: kernels.drop_rectified(x, 0.3), lambda x: kernels.drop(torch.relu(x), 0.3), (x,)),
        (lambda b, x: kernels.add_dropped(b, x, 0.3), lambda b, x: b + kernels.drop(x, 0.3), (base, x)),
        (lambda b, x: kernels.add_dropped(b, x, 0.3), lambda b, x: b + kernels.drop(x, 0.3), (base.to(dtype), x)),
    ]
    for at_once, apart, inputs in pairs:
        found = []
        for function in (at_once, apart):
            torch.manual_seed(8)
            found.append(with_gradients(function, *inputs))
        for one, other in zip(*found, strict=True):
            assert one.dtype == other.dtype
            assert_close(one, other, **CLOSE[dtype])


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("dtype", SHARED)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("words", [1, 7, 50])
def test_cross_entropy_and_its_gradient_are_those_of_pytorch(words: int, smoothing: float, dtype: torch.dtype) -> None:
    torch.manual_seed(9)
    logits = (20 * torch.randn(9, words) + 30).to(dtype)
    target = torch.arange(9) % words
    nll, smooth, gradient = kernels.cross_entropy(logits, target, smoothing)
    exact = logits.double().requires_grad_()
    loss = torch.nn.functional.cross_entropy(exact, target, reduction="sum", label_smoothing=smoothing)
    (expected,) = torch.autograd.grad(loss, exact)
    assert_close((1 - smoothing) * nll + smoothing * smooth, loss.detach(), rtol=1e-6, atol=1e-5)
    assert_close(nll, torch.nn.functional.cross_entropy(exact, target, reduction="sum").detach(), rtol=1e-6, atol=1e-5)
    assert gradient.dtype == dtype
    assert_close(gradient.double(), expected, **CLOSE[dtype])


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("words", [1, 7, 50])
def test_a_logit_that_is_no_number_makes_a_loss_that_is_none(words: int) -> None:
    """The exponential of NaN converts nothing to an integer: ``scripts/sanitize`` looks."""
    logits = torch.zeros(2, words)
    logits[1, -1] = torch.nan
    nll, _, gradient = kernels.cross_entropy(logits, torch.tensor([0, 0]), 0.1)
    assert nll.isnan()
    assert gradient[0].isfinite().all()


def test_a_barred_word_counts_only_with_smoothing(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, target = torch.tensor([[1.0, -torch.inf, 0.0]]), torch.tensor([0])
    expected = torch.tensor(0.31326166)
    with_library = smoothed_cross_entropy(logits, target, 0.0)
    monkeypatch.setattr(kernels, "_functions", lambda: None)
    for total, nll in (with_library, smoothed_cross_entropy(logits, target, 0.0)):
        assert_close(total, expected)
        assert_close(nll, expected)


@pytest.mark.parametrize("target", [-1, 3])
def test_a_target_outside_the_vocabulary_is_refused(target: int) -> None:
    with pytest.raises(IndexError, match=f"target {target} is outside a vocabulary of 3"):
        kernels.cross_entropy(torch.zeros(2, 3), torch.tensor([0, target]), 0.0)


def test_keys_that_all_rows_share_are_for_plain_operators() -> None:
    query, key, value, bias = numbers(3, 2, 5, 7, 8, torch.float32)
    key, value = key[:1], value[:1]
    assert not kernels.fits_attention(query, key, value, bias)
    assert_close(Heads(0.0)(query.requires_grad_(), key, value, bias), plain(query, key, value, bias))


def test_double_precision_and_mixed_types_do_not_fit() -> None:
    one = torch.ones(2)
    assert kernels.fits(one)
    assert not kernels.fits(one.double())
    assert not kernels.fits(one, one.bfloat16())
