"""Log-probabilities of the next token: the compiled library and PyTorch's operators agree."""

from __future__ import annotations

import pytest
import torch

from transduce.compute import choice
from transduce.core.types import EOS
from transduce.search.reading import allowed_log_softmax, log_softmax

NEVER = float("-inf")


def logits(rows: int, vocabulary: int) -> torch.Tensor:
    """Random logits of many sizes, with an impossible token in each row."""
    generator = torch.Generator().manual_seed(vocabulary)
    found_NV = 30 * torch.randn(rows, vocabulary, generator=generator)
    found_NV[:, EOS + 2] = NEVER
    return found_NV


@pytest.mark.parametrize(("rows", "vocabulary"), [(1, 7), (5, 100), (3, 8003)])
def test_the_library_normalises_as_pytorch_does(rows: int, vocabulary: int) -> None:
    logits_NV = logits(rows, vocabulary)
    expected_NV = logits_NV.double().log_softmax(-1).float()
    torch.testing.assert_close(log_softmax(logits_NV.clone()), expected_NV, rtol=1e-6, atol=2e-6)
    expected_NV[:, :EOS] = NEVER  # PAD and BOS
    torch.testing.assert_close(allowed_log_softmax(logits_NV.clone()), expected_NV, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_operators_do_what_the_library_does_not(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "FEW", 0)
    allowed_NV = allowed_log_softmax(logits(3, 50).to(dtype))
    assert allowed_NV.dtype == dtype
    assert (allowed_NV[:, :EOS] == NEVER).all()
    assert (allowed_NV[:, EOS] > NEVER).all()


def test_logits_that_are_a_view_are_changed_in_their_places() -> None:
    wide_NV = logits(4, 60)
    expected_NV = wide_NV[:, 10:].log_softmax(-1)
    log_softmax(wide_NV[:, 10:])
    torch.testing.assert_close(wide_NV[:, 10:], expected_NV)


def test_a_row_without_a_number_stays_without() -> None:
    logits_NV = logits(2, 40)
    logits_NV[0, 7] = float("nan")
    found_NV = log_softmax(logits_NV)
    assert found_NV[0].isnan().all()
    assert not found_NV[1].isnan().any()
