"""Norms, residual connections, feed-forward networks and recurrent mixers against formulas, in float64."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from drawn import spread
from transduce.core import config
from transduce.core.protocols import Encoder, FeedForward
from transduce.core.types import Facts, Padded
from transduce.layers.modules.cells.gru import GRU
from transduce.layers.modules.cells.lstm import LSTM
from transduce.layers.modules.cells.ssru import SSRU
from transduce.layers.modules.feedforward import GatedFeedForward, PlainFeedForward
from transduce.layers.modules.mixers.recurrent import CausalRecurrence, Recurrence
from transduce.layers.modules.residual import PostNorm, PreNorm, RMSNorm

WIDTH = 6
LENGTHS = torch.tensor([4, 2])
exactly = partial(assert_close, rtol=0, atol=1e-12)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------------ norms


def test_rms_norm_is_torchs() -> None:
    ours, theirs = spread(RMSNorm(WIDTH, eps=1e-5)), nn.RMSNorm(WIDTH, eps=1e-5).double()
    theirs.weight.data = ours.weight.data.clone()
    x, away = randn(2, 3, WIDTH), randn(2, 3, WIDTH, seed=1)
    grads = []
    for norm in (ours, theirs):
        y = x.clone().requires_grad_()
        out = norm(y)
        (out * away).sum().backward()
        grads.append((out.detach(), y.grad, norm.weight.grad))
    exactly(*grads)


def test_rms_norm_of_nothing_is_nothing() -> None:
    """If all features are 0, the output is 0 and the gradient is finite."""
    x = torch.zeros(1, WIDTH, requires_grad=True)
    y = RMSNorm(WIDTH)(x)
    y.sum().backward()
    assert (y == 0).all()
    assert x.grad.isfinite().all()


def test_rms_norm_in_a_narrow_type_is_rounded_at_the_end() -> None:
    x = 100 * randn(4, 512).bfloat16()
    wide = x.double()
    expected = wide / wide.square().mean(-1, keepdim=True).sqrt()
    assert_close(RMSNorm(512).bfloat16()(x).double(), expected, rtol=2**-8, atol=0)


@pytest.mark.parametrize(("kind", "oracle"), [("layer", nn.LayerNorm), ("rms", partial(nn.RMSNorm, eps=1e-6))])
def test_residual_connections_are_their_formulas(kind: Any, oracle: Any) -> None:
    x, f, norm = randn(2, WIDTH), lambda z: 3 * z + 1, oracle(WIDTH).double()
    pre, post = PreNorm(WIDTH, 0.0, kind).double(), PostNorm(WIDTH, 0.0, kind).double()
    exactly(pre.leave(x, f(pre.enter(x))), x + f(norm(x)))
    exactly(post.leave(x, f(post.enter(x))), norm(x + f(x)))
    exactly(pre.final()(x), norm(x))
    exactly(post.final()(x), x)


# ---------------------------------------------------------------- feed-forward

FORMULAS: dict[str, Any] = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: torch.special.ndtr(torch.tensor(x)).numpy() * x,
}


def parts(linear: nn.Linear, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    weights, biases = (np.split(p.detach().numpy(), count) for p in (linear.weight, linear.bias))
    return list(zip(weights, biases, strict=True))


@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
def test_the_plain_form_is_its_formula(activation: Any) -> None:
    ours, x = spread(PlainFeedForward(WIDTH, 5, 0.0, activation)), randn(2, 3, WIDTH)
    ((w1, b1),), ((w2, b2),) = parts(ours.widen, 1), parts(ours.narrow, 1)
    expected = FORMULAS[activation](x.numpy() @ w1.T + b1) @ w2.T + b2
    np.testing.assert_allclose(ours(x).detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("activation", ["sigmoid", "relu", "gelu", "swish"])
def test_the_gated_form_is_its_formula(activation: Any) -> None:
    ours, x = spread(GatedFeedForward(WIDTH, 5, 0.0, activation)), randn(2, 3, WIDTH)
    ((w, b), (v, c)), ((w2, b2),) = parts(ours.widen, 2), parts(ours.narrow, 1)
    gated = FORMULAS[activation](x.numpy() @ w.T + b) * (x.numpy() @ v.T + c)
    np.testing.assert_allclose(ours(x).detach().numpy(), gated @ w2.T + b2, atol=1e-12)


@pytest.mark.parametrize("form", [PlainFeedForward, GatedFeedForward])
@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
def test_gradients_are_those_of_differences(form: Any, activation: str) -> None:
    """An in-place activation must not overwrite values that the backward pass needs."""
    ours = spread(form(WIDTH, 5, 0.0, activation))
    assert torch.autograd.gradcheck(ours, randn(2, WIDTH, seed=4).requires_grad_())


def test_a_number_is_the_plain_form() -> None:
    stack = {"type": "transformer", "positions": "none", "width": 8, "layers": 1, "heads": 2}
    for given, form, hidden in ((12, PlainFeedForward, 12), ({"type": "gated", "hidden": 7}, GatedFeedForward, 7)):
        built: Any = config.build(stack | {"feedforward": given}, Encoder, Facts(5, 5), "encoder")
        assert type(built.layers[0].feedforward) is form
        assert built.layers[0].feedforward.narrow.in_features == hidden


def test_a_wrong_form_is_told() -> None:
    with pytest.raises(config.ConfigError, match='"gatd" is no FeedForward; did you mean "gated"'):
        config.build({"type": "gatd"}, FeedForward)
    with pytest.raises(config.ConfigError, match="activation"):
        config.build({"type": "plain", "width": 4, "hidden": 4, "dropout": 0.0, "activation": "sigmoid"}, FeedForward)


# ------------------------------------------------------------ recurrent mixers


@pytest.mark.parametrize("cell", [LSTM, GRU, SSRU])
def test_the_causal_recurrence_is_its_cell(cell: Any) -> None:
    ours, x = spread(CausalRecurrence(WIDTH, 3, 0.1, cell)), randn(2, 4, WIDTH)
    y, _ = ours(x, ours.start(2, x), torch.arange(4).expand(2, -1))
    state = ours.cell.start(2, x)
    for t in range(4):
        expected, state = ours.cell.step(ours.cell.project(x[:, t]), state)
        exactly(y[:, t], expected)


def test_the_recurrence_reads_each_row_both_ways() -> None:
    ours, x = spread(Recurrence(WIDTH, 3, 0.1, LSTM)), randn(2, 4, WIDTH)
    got = ours(Padded(x, LENGTHS))
    for row, length in enumerate(LENGTHS.tolist()):
        directions = []
        for cell, places in (
            (ours.cells.forward_cell, range(length)),
            (ours.cells.backward_cell, reversed(range(length))),
        ):
            state, seen = cell.start(1, x), {}
            for t in places:
                seen[t], state = cell.step(cell.project(x[row : row + 1, t]), state)
            directions.append(torch.cat([seen[t] for t in range(length)]))
        exactly(got[row, :length], ours.out(torch.cat(directions, -1)))
