"""Dropout by the compiled library or by random bytes: how much is dropped, and when nothing happens."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from transduce.compute import kernels, library
from transduce.layers.modules.dropout import Dropout

MANY = 400_000
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])


@pytest.fixture(params=["library", "bytes"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Sets how dropout is computed: by the library, or by random bytes without it."""
    if request.param == "library" and not library.built():
        pytest.skip("no C++ compiler was found when transduce was installed")
    if request.param == "bytes":
        monkeypatch.setattr(kernels, "_functions", lambda: None)
    return str(request.param)


@TYPES
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_a_share_of_p_is_dropped_and_the_expectation_kept(way: str, p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    exact = way == "library" and dtype != torch.float64
    rounded = p if exact else round(p * 256) / 256
    y = Dropout(p)(torch.ones(MANY, dtype=dtype))
    assert y.dtype == dtype
    dropped = (y == 0).double().mean().item()
    assert abs(rounded - p) <= 1 / 512
    assert dropped == pytest.approx(rounded, abs=5 * (rounded * (1 - rounded) / MANY) ** 0.5)
    kept = y[y != 0].double().unique()
    assert len(kept) == 1
    assert kept.item() == pytest.approx(1 / (1 - rounded), rel=torch.finfo(dtype).eps)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("p", [0.001, 0.003, 0.02, 0.99, 0.999])
def test_a_p_that_a_byte_would_round_too_much_is_exact(p: float) -> None:
    torch.manual_seed(0)
    y = Dropout(p)(torch.ones(MANY))
    dropped = (y == 0).double().mean().item()
    assert dropped == pytest.approx(p, abs=5 * (p * (1 - p) / MANY) ** 0.5)
    assert y.max().item() == pytest.approx(1 / (1 - p))


@pytest.mark.usefixtures("way")
def test_neighbours_are_dropped_independently() -> None:
    """The bytes of one 64-bit draw are neighbours. No two of them may agree more often than by chance."""
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(MANY)) != 0).view(-1, 8).double()
    correlation = torch.corrcoef(kept.T) - torch.eye(8)
    assert correlation.abs().max() < 5 / len(kept) ** 0.5
    assert (kept.mean(0) - 0.5).abs().max() < 5 * 0.5 / len(kept) ** 0.5


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (8,), (9, 1, 3), (0,), (2, 0, 3)])
def test_any_size(shape: tuple[int, ...]) -> None:
    y = Dropout(0.5)(torch.ones(shape))
    assert y.shape == shape
    assert set(y.flatten().tolist()) <= {0.0, 2.0}


@TYPES
def test_gradients_pass_where_values_did(dtype: torch.dtype) -> None:
    x = torch.randn(5, 11).to(dtype).requires_grad_()
    y = Dropout(0.4)(x)
    y.sum().backward()
    assert_close(y, x * x.grad)
    assert (x.grad == 0).any()


@TYPES
def test_evaluation_and_p_of_zero_are_the_identity(dtype: torch.dtype) -> None:
    x = torch.randn(4, 5).to(dtype)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


@pytest.mark.usefixtures("way")
def test_the_seed_decides() -> None:
    x, dropout = torch.ones(1000), Dropout(0.5)
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(dropout(x))
    assert masks[0].equal(masks[1])
    assert not masks[0].equal(masks[2])
    assert not masks[2].equal(dropout(x))  # and each call draws anew


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, float("nan")])
def test_what_is_no_probability_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match=rf"dropout = {p}: .*at least 0 and less than 1"):
        Dropout(p)


@pytest.mark.usefixtures("way")
def test_a_p_next_to_1_drops_everything_and_a_sum_keeps_its_type() -> None:
    assert (Dropout(1 - 1e-15)(torch.ones(1000)) == 0).all()
    torch.manual_seed(0)
    dropout, base, x = Dropout(0.5), torch.ones(1000), torch.ones(1000)
    assert set(dropout.added_to(base, x).tolist()) == {1.0, 3.0}
    assert dropout.added_to(base.bfloat16(), x).dtype == torch.float32  # as in PyTorch, where such a sum is float32
    assert set(dropout.of_relu(torch.tensor([-1.0, 1.0]).repeat(500)).tolist()) == {0.0, 2.0}
