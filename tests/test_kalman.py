"""Linear-Gaussian models: filter, smoother and estimation against dense algebra and statsmodels, and a run.

The figures of statsmodels 0.15 come from the functions in this file that are named ``statsmodels_...``.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from transduce.statistical.kalman.components import Autoregression, Season, Trend, joined
from transduce.statistical.kalman.estimation import Estimated, GradientAscent, em_pass, log_likelihood, moments
from transduce.statistical.kalman.filtering import Observed, Parameters, kalman_filter
from transduce.statistical.kalman.smoothing import smooth

B, T, C, N = 3, 5, 2, 3
NAN = math.nan


def covariance(size: int, generator: torch.Generator) -> Tensor:
    root = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return root @ root.T + 0.3 * torch.eye(size, dtype=torch.float64)


def drawn(seed: int = 1, states: int = N, channels: int = C) -> Parameters:
    """Random parameters. The last state has no noise of its own, and begins with the others' covariance."""
    generator = torch.Generator().manual_seed(seed)
    Q = covariance(states, generator)
    Q[-1] = Q[:, -1] = 0
    return Parameters(
        0.6 * torch.randn(states, states, generator=generator, dtype=torch.float64),
        Q,
        torch.randn(channels, states, generator=generator, dtype=torch.float64),
        covariance(channels, generator),
        torch.randn(states, generator=generator, dtype=torch.float64),
        covariance(states, generator),
    )


def series(gaps: bool, seed: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(B, T, C, generator=generator, dtype=torch.float64)
    if gaps:
        values[0, 1, 0] = values[0, 3] = values[1, 0] = values[1, 4, 1] = NAN
    return values


class Dense:
    """All states and numbers of one series as one normal distribution, by multiplication of matrices alone."""

    def __init__(self, model: Parameters, steps: int = T) -> None:
        n = len(model.mean)
        mean, spread = torch.zeros(steps, n, dtype=torch.float64), torch.zeros(steps, n, steps, n, dtype=torch.float64)
        mean[0], spread[0, :, 0] = model.mean, model.covariance
        for t in range(1, steps):
            mean[t] = model.transition @ mean[t - 1]
            for s in range(t):
                spread[t, :, s] = model.transition @ spread[t - 1, :, s]
                spread[s, :, t] = spread[t, :, s].T
            spread[t, :, t] = model.transition @ spread[t - 1, :, t - 1] @ model.transition.T + model.state_noise
        every_H = torch.block_diag(*[model.observation] * steps)
        self.mean, self.spread = mean.flatten(), spread.reshape(steps * n, steps * n)
        self.y_mean = every_H @ self.mean
        self.cross = self.spread @ every_H.T
        self.y_spread = every_H @ self.cross + torch.block_diag(*[model.noise] * steps)

    def posterior(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and covariance of all states given the numbers of ``y`` [T, C] that are not missing."""
        flat = y.flatten()
        known = ~flat.isnan()
        gain = self.cross[:, known] @ torch.linalg.inv(self.y_spread[known][:, known])
        return self.mean + gain @ (flat - self.y_mean)[known], self.spread - gain @ self.cross[:, known].T

    def log_prob(self, y: Tensor) -> float:
        flat = y.flatten()
        known = ~flat.isnan()
        spread = self.y_spread[known][:, known]
        return float(torch.distributions.MultivariateNormal(self.y_mean[known], spread).log_prob(flat[known]))


@pytest.mark.parametrize("gaps", [False, True])
def test_the_smoother_is_the_batch_least_squares_solution(gaps: bool) -> None:
    """Means, covariances, and covariances of neighbours, to 1e-10; a state without noise makes matrices singular."""
    model, y = drawn(), series(gaps)
    observed = Observed.of(y)
    found = smooth(model, observed, kalman_filter(model, observed))
    dense = Dense(model)
    for row in range(B):
        mean, spread = dense.posterior(y[row])
        spread = spread.reshape(T, N, T, N)
        own = observed.pattern[row]
        assert_close(found.mean[row], mean.view(T, N), rtol=1e-10, atol=1e-10)
        for t in range(T):
            assert_close(found.covariance[own, t], spread[t, :, t], rtol=1e-10, atol=1e-10)
            if t + 1 < T:
                assert_close(found.lagged[own, t], spread[t + 1, :, t], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("gaps", [False, True])
def test_the_log_density_is_that_of_the_joint_normal_distribution(gaps: bool) -> None:
    model, y = drawn(), series(gaps)
    found = kalman_filter(model, Observed.of(y)).log_density
    assert found.sum((1, 2)).tolist() == pytest.approx([Dense(model).log_prob(row) for row in y], rel=1e-12)
    assert (found == 0).equal(y.isnan())
    before = Dense(model).log_prob(y[2, 0].new_tensor([*y[2, 0], *[NAN] * (C * T - C)]).view(T, C))
    assert float(found[2, 0].sum()) == pytest.approx(before)  # each number given those before it alone
    first = y[2].clone()
    first[0, 1:] = first[1:] = NAN
    assert float(found[2, 0, 0]) == pytest.approx(Dense(model).log_prob(first))


def test_expected_products_of_noise_are_those_of_the_joint_distribution() -> None:
    """v = y - H x, for numbers that are known and for missing ones: by the posterior of states and missing numbers."""
    model, y = drawn(), series(gaps=True)
    observed = Observed.of(y)
    found = moments(model, observed, smooth(model, observed, kalman_filter(model, observed)))
    dense = Dense(model)
    noise, noise_state = torch.zeros(C, C, dtype=torch.float64), torch.zeros(C, N, dtype=torch.float64)
    for row in y:
        flat = row.flatten()
        known = ~flat.isnan()
        joint_mean = torch.cat([dense.mean, dense.y_mean])
        joint = torch.cat([torch.cat([dense.spread, dense.cross], 1), torch.cat([dense.cross.T, dense.y_spread], 1)])
        seen = torch.cat([torch.zeros(len(dense.mean), dtype=torch.bool), known])
        gain = joint[:, seen] @ torch.linalg.inv(joint[seen][:, seen])
        mean = joint_mean + gain @ (flat - dense.y_mean)[known]
        spread = joint - gain @ joint[seen]
        for t in range(T):
            states, numbers = slice(N * t, N * t + N), slice(N * T + C * t, N * T + C * t + C)
            to_noise = torch.zeros(C, len(joint), dtype=torch.float64)
            to_noise[:, states], to_noise[:, numbers] = -model.observation, torch.eye(C, dtype=torch.float64)
            v, x = to_noise @ mean, mean[states]
            noise += to_noise @ spread @ to_noise.T + v[:, None] * v
            noise_state += (to_noise @ spread)[:, states] + v[:, None] * x
    assert_close(found.noise, noise, rtol=1e-9, atol=1e-9)
    assert_close(found.noise_state, noise_state, rtol=1e-9, atol=1e-9)


ALL = Estimated(torch.ones(N, N).bool(), torch.ones(N, N).bool(), torch.ones(C, N).bool(), start=True)


def simulated(model: Parameters, rows: int, steps: int, seed: int = 5, gaps: float = 0.0) -> Tensor:
    """Series [rows, steps, C] of the model, a share of their numbers missing."""
    generator = torch.Generator().manual_seed(seed)

    def normal(covariance: Tensor, *shape: int) -> Tensor:
        values, vectors = torch.linalg.eigh(covariance)
        root = vectors * values.clamp(min=0).sqrt()
        return torch.randn(*shape, len(covariance), generator=generator, dtype=torch.float64) @ root.T

    x = model.mean + normal(model.covariance, rows)
    numbers = []
    for _ in range(steps):
        numbers.append(x @ model.observation.T + normal(model.noise, rows))
        x = x @ model.transition.T + normal(model.state_noise, rows)
    y = torch.stack(numbers, 1)
    y[torch.rand(y.shape, generator=generator) < gaps] = NAN
    return y


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_the_likelihood_never_falls_and_the_gradient_climbs_as_high(gaps: float) -> None:
    truth = drawn(3)
    groups = [Observed.of(simulated(truth, 40, 6, gaps=gaps)), Observed.of(simulated(truth, 10, 9, seed=6, gaps=gaps))]
    model = replace(drawn(4), state_noise=covariance(N, torch.Generator().manual_seed(1)))
    values = []
    for _ in range(30):
        model, value = em_pass(model, ALL, groups)
        values.append(value)
    assert all(after >= before - 1e-8 for before, after in itertools.pairwise(values))
    assert values[-1] > values[0] + 10
    ascent = GradientAscent(model, ALL)
    for _ in range(5):
        ascent(groups)
    assert float(log_likelihood(ascent.parameters(), groups).detach()) >= values[-1]


def test_what_is_not_estimated_stays_the_same() -> None:
    block = joined([Trend(damped=True).block(C), Season(4).block(C), Autoregression(2).block(C)])
    estimated = Estimated(block.transition_free, block.state_noise != 0, block.observation_free, start=True)
    n = len(block.transition)
    eye = torch.eye(n, dtype=torch.float64)
    model = Parameters(block.transition, block.state_noise, block.observation, 0.1 * torch.eye(C).double(), eye[0], eye)
    groups = [Observed.of(simulated(model, 20, 12, gaps=0.1))]
    ascent = GradientAscent(model, estimated)
    ascent(groups)
    for new in (em_pass(model, estimated, groups)[0], ascent.parameters()):
        for name, mask in (
            ("transition", estimated.transition),
            ("state_noise", estimated.state_noise),
            ("observation", estimated.observation),
        ):
            changed = (getattr(new, name) - getattr(model, name)).abs() > 1e-9
            assert changed.equal(mask), name
    kept = em_pass(model, replace(estimated, start=False), groups)[0]
    assert kept.mean.equal(model.mean)
    assert kept.covariance.equal(model.covariance)


def structural_parameters() -> tuple[Parameters, Tensor]:
    """Trend and a season of 4, one channel, and a series with gaps."""
    block = joined([Trend().block(1), Season(4).block(1)])
    eye = torch.eye(5, dtype=torch.float64)
    model = Parameters(
        block.transition,
        block.state_noise,
        block.observation,
        torch.tensor([[0.3]], dtype=torch.float64),
        0.5 * eye[0],
        2 * eye,
    )
    generator = torch.Generator().manual_seed(8)
    y = torch.randn(1, 20, 1, generator=generator, dtype=torch.float64).cumsum(1)
    y[0, [3, 4, 11], 0] = NAN
    return model, y


def statsmodels_log_likelihood() -> float:
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    model, y = structural_parameters()
    theirs = UnobservedComponents(y.flatten().numpy(), level="lltrend", seasonal=4)
    theirs.ssm.initialize_known(model.mean.numpy(), model.covariance.numpy())
    theirs.ssm.loglikelihood_burn = 0
    return float(theirs.loglike([0.3, 0.1, 0.01, 0.01]))


def test_the_likelihood_is_that_of_statsmodels() -> None:
    """By ``python -c "import test_kalman; print(test_kalman.statsmodels_log_likelihood())"`` in tests/."""
    model, y = structural_parameters()
    assert float(kalman_filter(model, Observed.of(y)).log_density.sum()) == pytest.approx(-34.83079666963078, rel=1e-10)
