"""Schedules against their formulas, worked out by hand, and optimisers against torch's."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transduce.core.errors import UserError
from transduce.training.optimization import (
    Adam,
    AdamW,
    ConstantRate,
    CosineDecay,
    InverseSquareRoot,
    LinearDecay,
    ReduceOnPlateau,
    Sgd,
    StepDecay,
)


@pytest.mark.parametrize(
    ("schedule", "step", "progress", "share"),
    [
        (ConstantRate(), 1, 0.0, 1.0),
        (ConstantRate(), 10**6, 1.0, 1.0),
        (ConstantRate(warmup=4), 1, 0.0, 0.25),
        (ConstantRate(warmup=4), 4, 0.5, 1.0),
        (ConstantRate(warmup=4), 5, 0.9, 1.0),
        (InverseSquareRoot(warmup=100), 1, 0.0, 0.01),
        (InverseSquareRoot(warmup=100), 50, 0.0, 0.5),
        (InverseSquareRoot(warmup=100), 100, 0.0, 1.0),
        (InverseSquareRoot(warmup=100), 400, 0.0, 0.5),
        (InverseSquareRoot(warmup=100), 10_000, 0.0, 0.1),
        (InverseSquareRoot(warmup=0), 1, 0.0, 1.0),
        (InverseSquareRoot(warmup=0), 25, 0.0, 0.2),
        (CosineDecay(), 1, 0.0, 1.0),
        (CosineDecay(), 7, 1 / 3, 0.75),
        (CosineDecay(), 7, 0.5, 0.5),
        (CosineDecay(), 7, 1.0, 0.0),
        (CosineDecay(), 7, 1.2, 0.0),  # past the end of the budget it stays where it is
        (CosineDecay(floor=0.2), 7, 0.5, 0.6),
        (CosineDecay(floor=0.2), 7, 1.0, 0.2),
        (CosineDecay(warmup=10), 5, 0.5, 0.25),
        (LinearDecay(), 7, 0.25, 0.75),
        (LinearDecay(floor=0.5), 7, 0.5, 0.75),
        (LinearDecay(floor=0.5), 7, 1.5, 0.5),
        (LinearDecay(warmup=10), 5, 0.5, 0.25),
        (StepDecay(), 7, 3.99 / 13, 1.0),
        (StepDecay(), 7, 4 / 13, 0.5),
        (StepDecay(), 7, 12 / 13, 0.5**9),
        (StepDecay(), 7, 1.1, 0.5**9),
        (StepDecay(parts=4, hold=0, factor=0.1), 7, 0.5, 1e-3),
    ],
    ids=repr,
)
def test_schedules_by_hand(schedule: Any, step: int, progress: float, share: float) -> None:
    assert schedule(step, progress, []) == pytest.approx(share, abs=1e-12)


def test_inverse_square_root_is_the_papers_up_to_its_peak() -> None:
    """Vaswani et al. 2017, eq. 3: d^-0.5 min(step^-0.5, step warmup^-1.5), whose peak is at step = warmup."""
    warmup, schedule = 4000, InverseSquareRoot(4000)
    peak = warmup**-0.5
    for step in (1, 399, 3999, 4000, 4001, 123_456):
        assert schedule(step, 0.0, []) * peak == pytest.approx(min(step**-0.5, step * warmup**-1.5))


@pytest.mark.parametrize(
    ("validations", "share"),
    [
        ([], 1.0),
        ([5.0], 1.0),
        ([5.0, 4.0, 3.0, 2.0], 1.0),
        ([5.0, 5.0], 1.0),
        ([5.0, 5.0, 5.0], 0.1),  # as good is no better: two in a row were not
        ([5.0, 6.0, 4.0, 4.5], 1.0),  # a better one in between begins the count anew
        ([5.0, 6.0, 4.0, 4.5, 4.2], 0.1),
        ([5.0, 6.0, 6.0, 6.0], 0.1),
        ([5.0, 6.0, 6.0, 6.0, 6.0], 0.01),
        ([5.0, 6.0, 6.0, 1.0, 6.0, 6.0], 0.01),  # a better loss does not raise the rate again
        ([math.inf, 5.0, math.nan, math.nan], 0.1),  # nan is never better
    ],
)
def test_plateaus_by_hand(validations: list[float], share: float) -> None:
    schedule = ReduceOnPlateau(factor=0.1, patience=2)
    assert schedule(9, 0.5, validations) == pytest.approx(share)
    assert schedule(9, 0.5, validations) == pytest.approx(share)  # a function: nothing was remembered
    assert ReduceOnPlateau(0.1, 2, warmup=90)(9, 0.5, validations) == pytest.approx(share / 10)


# ------------------------------------------------------------------ optimisers


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 2)).double()


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 5) -> list[torch.Tensor]:
    x = torch.linspace(-1, 1, 12, dtype=torch.float64).view(3, 4)
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


@pytest.mark.parametrize("kind", [Adam, AdamW, Sgd])
@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan, 2.0])
def test_constants_outside_their_range_are_refused(kind: Any, value: float) -> None:
    for field in dataclasses.fields(kind):
        if value == 2 and field.name in ("rate", "epsilon", "decay"):
            continue
        with pytest.raises(UserError, match=f"^{field.name} = {value}: .* was expected$"):
            kind(**{field.name: value})


def test_adam_is_torchs() -> None:
    ours, theirs = network(), network()
    adam = Adam(rate=0.01, beta1=0.8, beta2=0.95, epsilon=1e-6)
    got = train(ours, adam(ours.parameters()))
    assert_close(got, train(theirs, torch.optim.Adam(theirs.parameters(), 0.01, (0.8, 0.95), 1e-6)))


def test_adam_is_its_papers_algorithm() -> None:
    """Kingma and Ba 2015, algorithm 1, on f(x) = x^2 from x = 3."""
    adam, x = Adam(rate=0.1), nn.Parameter(torch.tensor(3.0, dtype=torch.float64))
    optimizer = adam([x])
    theirs, m, v = 3.0, 0.0, 0.0
    for t in range(1, 6):
        optimizer.zero_grad()
        x.square().backward()
        optimizer.step()
        m, v = 0.9 * m + 0.1 * 2 * theirs, 0.98 * v + 0.02 * (2 * theirs) ** 2
        theirs -= 0.1 * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.98**t)) + 1e-9)
        assert x.item() == pytest.approx(theirs, abs=1e-12)


def test_adamw_decays_matrices_and_nothing_else() -> None:
    model = network()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = AdamW(rate=0.1, decay=0.5)(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)  # no gradient: all that changes is decay
    optimizer.step()
    for parameter, was in zip(model.parameters(), before, strict=True):
        assert_close(parameter.detach(), was * (1 - 0.1 * 0.5) if was.ndim >= 2 else was)


def test_adamw_is_torchs_for_the_groups() -> None:
    ours, theirs = network(), network()
    got = train(ours, AdamW(0.01, decay=0.3)(ours.parameters()))
    groups = [
        {"params": [p for p in theirs.parameters() if p.ndim == 2]},
        {"params": [p for p in theirs.parameters() if p.ndim == 1], "weight_decay": 0.0},
    ]
    oracle = torch.optim.AdamW(groups, 0.01, (0.9, 0.98), 1e-9, weight_decay=0.3)
    assert_close(got, train(theirs, oracle))


def test_adamw_takes_any_iterable_once() -> None:
    model = network()
    optimizer = AdamW()(parameter for parameter in model.parameters())
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))


def test_sgd_is_torchs() -> None:
    ours, theirs = network(), network()
    got = train(ours, Sgd(0.1, momentum=0.9, decay=0.01)(ours.parameters()))
    assert_close(got, train(theirs, torch.optim.SGD(theirs.parameters(), 0.1, 0.9, weight_decay=0.01)))
