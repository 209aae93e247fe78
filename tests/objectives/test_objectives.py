"""Cross-entropy against torch's, in value and gradient; in chunks and not; at real positions only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from transduce.compute.cross_entropy import _largest, smoothed_cross_entropy
from transduce.core.types import Batch, Padded
from transduce.objectives import readout
from transduce.objectives.base import Trainable
from transduce.objectives.cross_entropy import CrossEntropy

SMOOTHINGS = pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
VOCABULARY = 7
LENGTHS = [3, 1, 4]


def some_logits(dtype: torch.dtype = torch.float64, rows: int = 8, spread: float = 3.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, VOCABULARY, dtype=torch.float64, generator=generator) * spread
    return logits.to(dtype).requires_grad_(), torch.randint(VOCABULARY, (rows,), generator=generator)


@SMOOTHINGS
@pytest.mark.parametrize(
    # bfloat16 has 8 bits: each of the sum's terms, and each probability, is off by up to 2^-8 of itself
    ("dtype", "tolerance"),
    [(torch.float64, 1e-12), (torch.float32, 1e-6), (torch.bfloat16, 2**-7)],
)
def test_it_is_torchs_cross_entropy(dtype: torch.dtype, tolerance: float, smoothing: float) -> None:
    logits, target = some_logits(dtype)
    exact = logits.detach().double().requires_grad_()
    total, nll = smoothed_cross_entropy(logits, target, smoothing)
    expected = nn.functional.cross_entropy(exact, target, reduction="sum", label_smoothing=smoothing)
    assert_close(total.double(), expected, rtol=tolerance, atol=0)
    assert_close(nll.double(), nn.functional.cross_entropy(exact, target, reduction="sum"), rtol=tolerance, atol=0)
    (total * 3).backward()
    (expected * 3).backward()
    assert logits.grad.dtype == dtype
    assert_close(logits.grad.double(), exact.grad, rtol=0, atol=3 * tolerance)


@SMOOTHINGS
def test_its_gradient_is_its_derivative(smoothing: float) -> None:
    """Compares with central differences. ``gradcheck`` would use one graph twice, which raises an error (see below)."""
    logits, target = some_logits()
    (gradient,) = torch.autograd.grad(smoothed_cross_entropy(logits, target, smoothing)[0], logits)
    step = 1e-5 * torch.eye(logits.numel(), dtype=torch.float64).view(-1, *logits.shape)
    with torch.no_grad():
        ahead = torch.stack([smoothed_cross_entropy(logits + by, target, smoothing)[0] for by in step])
        behind = torch.stack([smoothed_cross_entropy(logits - by, target, smoothing)[0] for by in step])
    assert_close(gradient.flatten(), (ahead - behind) / 2e-5, rtol=0, atol=1e-8)


def test_its_gradient_is_multiplied_in_place_and_only_once() -> None:
    logits, target = some_logits()
    total, _ = smoothed_cross_entropy(logits, target, 0.1)
    (2 * total).backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


@SMOOTHINGS
def test_large_logits_stay_finite(smoothing: float) -> None:
    logits, target = some_logits(torch.float32, spread=1000.0)
    total, _ = smoothed_cross_entropy(logits, target, smoothing)
    total.backward()
    exact = nn.functional.cross_entropy(logits.detach().double(), target, reduction="sum", label_smoothing=smoothing)
    assert_close(total.double(), exact, rtol=1e-6, atol=0)
    assert logits.grad.isfinite().all()


def test_a_vocabulary_ruled_out_costs_nothing() -> None:
    """Logits of minus infinity have no probability, and no gradient."""
    logits, target = some_logits()
    ruled_out = torch.cat([logits, torch.full((8, 2), -torch.inf, dtype=torch.float64)], 1)
    total, _ = smoothed_cross_entropy(ruled_out, target, 0.0)
    assert_close(total, smoothed_cross_entropy(logits, target, 0.0)[0])
    (gradient,) = torch.autograd.grad(total, logits)
    assert gradient.isfinite().all()


# ------------------------------------------------------------------- the whole


@dataclass(frozen=True)
class Features:
    """An output that is a tree, not a tensor: objectives may not look into it."""

    hidden: Tensor


class Bigram(nn.Module):
    """Logits of a next token are a function of the last, so that every loss can be worked out by hand."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.hidden = nn.Parameter(torch.randn(VOCABULARY, 5, dtype=torch.float64))
        self.out = nn.Parameter(torch.randn(VOCABULARY, 5, dtype=torch.float64))
        self.asked: list[int] = []

    def start(self, source: Any) -> None:
        return None

    def extend(self, tokens_BT: Tensor, state: None) -> tuple[Features, None]:
        return Features(self.hidden[tokens_BT]), None

    def readout(self, output: Features, candidates: Tensor | None = None) -> Tensor:
        self.asked.append(output.hidden.shape[0])
        return output.hidden @ self.out.T


TARGET = Padded(torch.tensor([[4, 5, 2, 0], [2, 0, 0, 0], [6, 3, 4, 2]]), torch.tensor(LENGTHS))
BATCH = Batch(Padded(torch.full((3, 1), 2), torch.ones(3, dtype=torch.long)), TARGET, torch.arange(3))


def gradients(model: nn.Module, total: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(total, list(model.parameters())))


@SMOOTHINGS
def test_the_loss_by_hand(smoothing: float) -> None:
    model = Bigram()
    loss, carry = CrossEntropy(smoothing)(model, BATCH, carry="carried")
    table = (model.hidden @ model.out.T).log_softmax(-1)
    total = nll = torch.zeros((), dtype=torch.float64)
    for row in ([4, 5, 2], [2], [6, 3, 4, 2]):
        for before, token in zip([1, *row], row, strict=False):
            nll = nll - table[before, token]
            q = torch.full((VOCABULARY,), smoothing / VOCABULARY, dtype=torch.float64)
            q[token] += 1 - smoothing
            total = total - (q * table[before]).sum()
    assert_close(loss.total, total)
    assert_close(loss.parts["nll"], nll)
    assert loss.count == sum(LENGTHS)
    assert carry == "carried"
    assert not loss.parts["nll"].requires_grad
    assert_close(gradients(model, loss.total), gradients(model, total))


def test_what_stands_in_the_padding_does_not_matter() -> None:
    model, objective = Bigram(), CrossEntropy(0.1)
    loss, _ = objective(model, BATCH)
    wide = nn.functional.pad(TARGET.values, (0, 3))
    junk = Padded(wide.masked_fill(torch.arange(7) >= TARGET.lengths[:, None], 5), TARGET.lengths)
    other, _ = objective(model, Batch(BATCH.source, junk, BATCH.ids))
    assert_close(other.total, loss.total)
    assert other.count == loss.count
    assert_close(gradients(model, other.total), gradients(model, loss.total))
    assert max(model.asked) == sum(LENGTHS)  # no padding is ever read out


@SMOOTHINGS
@pytest.mark.parametrize("rows", [1, 3, 7, 8])
def test_in_chunks_the_loss_is_the_same(monkeypatch: pytest.MonkeyPatch, rows: int, smoothing: float) -> None:
    model, objective = Bigram(), CrossEntropy(smoothing)
    whole, _ = objective(model, BATCH)
    expected = gradients(model, whole.total)
    monkeypatch.setattr(readout, "CHUNK", rows * VOCABULARY)
    model.asked.clear()
    loss, _ = objective(model, BATCH)
    assert max(model.asked) == {1: 1, 3: 2, 7: 4, 8: 8}[rows]  # a power of two, so that products are not filled up
    read_out = sum(model.asked)
    assert_close(loss.total, whole.total)
    assert_close(loss.parts, whole.parts)
    assert loss.count == whole.count
    assert_close(gradients(model, 2 * loss.total), [2 * each for each in expected])
    assert sum(model.asked) == read_out  # nothing is read out again for the gradient


def test_trainable_is_the_objective_of_the_model() -> None:
    model, objective = Bigram(), CrossEntropy(0.1)
    loss, carry = Trainable(model, objective)(BATCH, 0.5, "carried")
    assert_close(loss.total, objective(model, BATCH)[0].total)
    assert carry == "carried"


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_smoothing_is_a_share(smoothing: float) -> None:
    with pytest.raises(ValueError, match=f"smoothing = {smoothing}: a share"):
        CrossEntropy(smoothing)


def test_the_largest_of_a_row_in_bfloat16_is_that_of_amax() -> None:
    x_NV = torch.randn(40, 9).bfloat16()
    x_NV[:20] = -x_NV[:20].abs() - 0.1
    x_NV[30, 2], x_NV[31, 2], x_NV[3] = float("inf"), float("-inf"), float("-inf")
    assert torch.equal(_largest(x_NV), x_NV.amax(-1))
    assert _largest(torch.full((1, 3), float("nan")).bfloat16()).isnan().all()
