"""Linear-Gaussian models: filter, smoother and estimation against dense algebra and statsmodels, and a run.

The figures of statsmodels 0.15 come from the functions in this file that are named ``statsmodels_...``.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from families import NUMBERS, NUMERIC, build, paired
from selection import mostly_slow
from transduce import api
from transduce.answers.request import Request
from transduce.cli.formats import as_jsonl
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.core.types import EOS, Batch, Example, Padded, Prediction
from transduce.metrics.base import metric
from transduce.training.counting import Counting
from transduce.training.settings import Training
from transduce.wings.counted.kalman.components import Autoregression, Season, Trend, joined
from transduce.wings.counted.kalman.estimation import Estimated, GradientAscent, em_pass, log_likelihood, moments
from transduce.wings.counted.kalman.filtering import Observed, Parameters, kalman_filter
from transduce.wings.counted.kalman.smoothing import smooth
from transduce.wings.looking.commands.views import _other_view
from transduce.wings.looking.inspection.series import read_series
from transduce.wings.recipes.origins.series import NumberTable, Series
from transduce.wings.recipes.origins.windows import Windows
from transduce.wings.signals.series.objectives import LogDensity
from transduce.wings.signals.tokenizers.numbers import Numbers

B, T, C, N = 3, 5, 2, 3
NAN = math.nan


def covariance(size: int, generator: torch.Generator) -> Tensor:
    root = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return root @ root.T + 0.3 * torch.eye(size, dtype=torch.float64)


def drawn(seed: int = 1, states: int = N, channels: int = C) -> Parameters:
    """Random parameters. The last state has no noise of its own, but an initial covariance like the other states."""
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
    """The joint normal distribution of all states and numbers of one series, computed by matrix products alone."""

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
        """Mean and covariance of all states, given those numbers of ``y`` [T, C] that are not missing."""
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
    """Means, covariances and lagged covariances agree to 1e-10. A state without noise makes matrices singular."""
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
    assert float(found[2, 0].sum()) == pytest.approx(before)  # each number is given only the numbers before it
    first = y[2].clone()
    first[0, 1:] = first[1:] = NAN
    assert float(found[2, 0, 0]) == pytest.approx(Dense(model).log_prob(first))


def test_expected_products_of_noise_are_those_of_the_joint_distribution() -> None:
    """The noise is v = y - H x, for known and for missing numbers. Its products follow from the joint posterior of
    states and numbers.
    """
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
    """Series [rows, steps, C] drawn from the model. The share ``gaps`` of their numbers is missing."""
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


@pytest.mark.parametrize("gaps", mostly_slow([0.0, 0.3], fast=[0.3]))
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


@pytest.mark.slow
def test_the_likelihood_does_not_fall_if_slopes_with_own_damping_have_common_noise() -> None:
    """Each slope has one free entry, so the rows of F cannot be fitted one by one."""
    block = Trend(damped=True).block(C)
    n = len(block.transition)
    correlated = torch.kron(torch.diag(torch.tensor([0.1, 1.0])), torch.full((C, C), 0.95) + 0.05 * torch.eye(C))
    damping = block.transition.clone()
    damping[block.transition_free] = torch.linspace(0.2, 0.9, C, dtype=torch.float64)
    eye = torch.eye(n, dtype=torch.float64)
    model = Parameters(damping, correlated.double(), block.observation, 0.1 * eye[:C, :C], 0 * eye[0], eye)
    noise = torch.kron(torch.eye(2), torch.ones(C, C)).bool()
    estimated = Estimated(block.transition_free, noise, block.observation_free, start=True)
    groups = [Observed.of(simulated(model, 10, 40))]
    ascent = GradientAscent(model, estimated)
    for _ in range(4):
        ascent(groups)
    found = ascent.parameters()
    model = Parameters(**{name: value.detach() for name, value in vars(found).items()})
    values = []
    for _ in range(4):
        model, value = em_pass(model, estimated, groups)
        values.append(value)
    assert all(after >= before - 1e-6 for before, after in itertools.pairwise(values))


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
    """The expected number is the output of ``python -c "import test_kalman;
    print(test_kalman.statsmodels_log_likelihood())"`` in tests/.
    """
    model, y = structural_parameters()
    assert float(kalman_filter(model, Observed.of(y)).log_density.sum()) == pytest.approx(-34.83079666963078, rel=1e-10)


# ------------------------------------------------------------------------ model


def kalman(**options: Any) -> Any:
    """A model of two channels: a trend and a season of 4."""
    table = {"type": "kalman", "components": ["trend", {"type": "season", "period": 4}], **options}
    return config.build(table, Model, NUMERIC)


def rows_of(values_BTC: Tensor, steps: list[int]) -> Padded:
    """The first ``steps`` of each series as a source: its numbers side by side, then EOS, and then padding of 7."""
    lengths = torch.tensor([C * count + 1 for count in steps])
    padded = torch.full((len(steps), int(lengths.max())), 7.0, dtype=torch.float64)
    for row, values, count in zip(padded, values_BTC, steps, strict=True):
        row[: C * count] = values[:count].flatten()
        row[C * count] = EOS
    return Padded(padded, lengths)


def test_forecasts_and_densities_are_those_of_the_joint_normal_distribution() -> None:
    """The sources have several lengths and gaps, and one is empty. The targets have gaps."""
    model, y = kalman(), series(gaps=True)
    known, later = [3, 0, 4], [2, 3, 1]
    source = rows_of(y, known)
    target = rows_of(torch.stack([row.roll(-count, 0) for row, count in zip(y, known, strict=True)]), later)
    found = model.distribution(source, torch.tensor(later))
    log_density = model.log_density(source, target)
    assert model.predict(source, torch.tensor(later)).equal(found.mean)
    assert log_density.shape == (3, C * 3)
    dense = Dense(model.parameters_now())
    for row, (seen, ahead) in enumerate(zip(known, later, strict=True)):
        history = y[row].clone()
        history[seen:] = NAN
        both = history.clone()
        both[seen : seen + ahead] = y[row, seen : seen + ahead]
        before = dense.log_prob(history) if not history.isnan().all() else 0.0
        assert float(log_density[row].sum()) == pytest.approx(dense.log_prob(both) - before)
        assert not log_density[row, C * ahead :].any()
        mean, spread = dense.posterior(history) if not history.isnan().all() else (dense.mean, dense.spread)
        every_H = torch.block_diag(*[model.observation.data] * T)
        variance = (every_H @ spread @ every_H.T).diagonal() + model.noise.diagonal().repeat(T)
        ours = slice(seen, seen + ahead)
        assert_close(found.mean[row, :ahead], (every_H @ mean).view(T, C)[ours])
        assert_close(found.deviation[row, :ahead], variance.sqrt().view(T, C)[ours])


def test_components_and_their_sum_are_the_smoothed_states() -> None:
    model, y = kalman(), series(gaps=True)
    parts, whole = model.smoothed(rows_of(y, [T] * B))
    assert len(parts) == 2
    assert_close(parts[0].mean + parts[1].mean, whole.mean)
    for row in range(B):
        mean, spread = Dense(model.parameters_now()).posterior(y[row])
        every_H = torch.block_diag(*[model.observation.data] * T)
        assert_close(whole.mean[row], (every_H @ mean).view(T, C))
        assert_close(whole.deviation[row], (every_H @ spread @ every_H.T).diagonal().sqrt().view(T, C))
        first = torch.block_diag(*[model.observation.data * (torch.arange(10) < 2 * C)] * T)
        assert_close(parts[0].deviation[row], (first @ spread @ first.T).diagonal().sqrt().view(T, C))
    with pytest.raises(UserError, match="a series without steps has no states"):
        model.smoothed(rows_of(y, [0] * B))


@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_intervals_of_known_parameters_hold_what_they_promise(gaps: float) -> None:
    """90 % intervals of 30,000 forecasts contain 89 to 91 % of the numbers, and 50 % intervals contain 49 to 51 %."""
    model = kalman()
    y = simulated(model.parameters_now(), 3000, 25, gaps=gaps)
    later = simulated(model.parameters_now(), 3000, 25)[:, 20:]  # the same draws, without gaps
    found = model.distribution(rows_of(y, [20] * 3000), torch.tensor([5] * 3000))
    apart = ((later - found.mean) / found.deviation).abs()
    for level, reach in ((0.9, 1.6448536), (0.5, 0.6744898)):
        assert float((apart <= reach).double().mean()) == pytest.approx(level, abs=0.01)


def test_a_density_of_a_network_by_hand() -> None:
    model = build(NUMBERS["lstm to dense, a density"])
    torch.nn.init.normal_(model.spread.weight)
    y = series(gaps=False)
    source, target = rows_of(y, [4, 5, 2]), rows_of(y, [2, 1, 3])
    target.values[0, 1] = NAN
    found, log_density = model.distribution(source, torch.tensor([2, 1, 3])), model.log_density(source, target)
    for row, steps in enumerate([2, 1, 3]):
        each = torch.distributions.Normal(found.mean[row, :steps], found.deviation[row, :steps])
        expected = each.log_prob(target.values[row, : C * steps].view(steps, C).nan_to_num(0.0)).flatten()
        if row == 0:
            expected[1] = 0
        assert_close(log_density[row, : C * steps], expected)
        assert not log_density[row, C * steps :].any()
    loss, _ = LogDensity()(model, Batch(source, target, torch.arange(3)))
    assert float(loss.total.detach()) == pytest.approx(-float(log_density.sum().detach()))
    assert loss.count == C * 6 - 1
    loss.total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    twice = build(NUMBERS["lstm to dense, a density"])
    wider = replace(source, values=torch.where(source.mask, 10 * source.values, 7.0))
    before, after = (twice.distribution(each, torch.tensor([2, 1, 3])).deviation for each in (source, wider))
    assert_close(after, 10 * before, rtol=1e-3, atol=1e-6)  # the deviation has the level's scale


def test_what_a_kalman_filter_cannot_be() -> None:
    for options, message in (
        ({"components": []}, r"components = \[\]: at least one"),
        ({"components": [{"type": "season", "period": 1}]}, "period = 1: a season has at least 2"),
        ({"components": [{"type": "autoregression", "order": 0}]}, "order = 0"),
        ({"components": [{"type": "free", "states": 0}]}, "states = 0"),
        ({"steps": 0}, "steps = 0"),
        ({"estimation": "guess"}, "estimation"),
        ({"start": "cold"}, "start"),
    ):
        with pytest.raises(ValueError, match=message):
            kalman(**options)
    with pytest.raises(UserError, match=r"2 are read and 1 written: set data\.origin\.targets"):
        config.build({"type": "kalman"}, Model, replace(NUMERIC, target_vocabulary=1))
    with pytest.raises(UserError, match="a Kalman filter reads series of numbers, and the data has tokens"):
        kalman().counts(paired([([4, 5, EOS], [6, EOS])]))


def test_a_singular_matrix_has_its_line() -> None:
    model = kalman()
    model.noise.data.zero_()
    model.observation.data[1] = model.observation.data[0]  # the second channel repeats the first
    with pytest.raises(UserError, match=r"errors is singular at step 1: one channel follows exactly .* leave out"):
        model.predict(rows_of(series(gaps=False), [3] * B), torch.tensor([2] * B))
    network = build(NUMBERS["dense to dense"])
    with pytest.raises(UserError, match=r'the source has missing numbers, and a network reads none: .*"kalman"'):
        network.predict(rows_of(series(gaps=True), [3] * B), torch.tensor([2] * B))


# ---------------------------------------------------------------- end to end


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run on waves with gaps, from a CSV file."""
    folder = tmp_path_factory.mktemp("gaps")
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(160, generator=generator).tolist()
    rows = ["" if t % 7 == 3 else f"{100 + 10 * math.sin(t * math.pi / 2) + each:.3f}" for t, each in enumerate(noise)]
    (folder / "gaps.csv").write_text("\n".join(["sold,day", *(f"{row},{t}" for t, row in enumerate(rows))]) + "\n")
    settings = {
        "data.origin": {
            "type": "series",
            "path": str(folder / "gaps.csv"),
            "columns": ["sold"],
            "missing": True,
            "windows": {"steps_in": 12, "steps_out": 4},
        },
        "data.cache": str(folder / "cache"),
        "model.components": ["level", {"type": "season", "period": 4}],
        "model.steps": 4,
        "metrics": ["mae", "mase-4", "crps", "coverage", "coverage-50", "log_score"],
        "training.steps": 3,
    }
    return api.train("series-kalman", folder / "run", settings, device="cpu", progress=False)


def test_a_run_with_gaps(run: Any) -> None:
    """Scores, intervals and densities are in the units of the input lines."""
    source = "100 110 nan 90 " * 3
    (answer,) = run.answer([Request(source)])
    numbers = [float(number) for number in answer.best.text.split()]
    assert numbers == pytest.approx([100, 110, 100, 90], abs=3)
    low, high = answer.best.interval(0.9)
    assert all(1 < above - below < 20 for below, above in zip(low, high, strict=True))
    (line,) = as_jsonl(answer)
    record = json.loads(line)
    assert record["deviations"] == pytest.approx(answer.best.deviations)
    assert (record["low"], record["high"]) == (pytest.approx(low), pytest.approx(high))
    with pytest.raises(UserError, match=r"level = 1\.5"):
        answer.best.interval(1.5)
    (scored,) = run.score([(source, "101 nan 99 91")])
    spread = torch.distributions.Normal(
        torch.tensor(numbers[0], dtype=torch.float64), torch.tensor(answer.best.deviations[0], dtype=torch.float64)
    )
    assert scored.token_log_probs[0] == pytest.approx(float(spread.log_prob(torch.tensor(101.0))), abs=1e-4)
    assert scored.token_log_probs[1] == scored.token_log_probs[-1] == 0
    assert scored.log_prob == pytest.approx(sum(scored.token_log_probs))
    examples = [Example(source, ("101 nan 99 91",)), Example(source, ("nan 112 99 91",))]
    found = run.evaluate(examples, [metric(name) for name in run.settings["metrics"]]).scores
    assert found["log_score"] == pytest.approx(
        -sum(each.log_prob for each in run.score([(one.source, one.references[0]) for one in examples])) / 6
    )


def test_passes_end_when_they_gain_too_little(tmp_path: Path) -> None:
    """A pass ends the training if it raises the log-probability by at most a share ``gain`` of its size."""

    class Rising:
        def __init__(self) -> None:
            self.report: tuple[str, ...] = ()
            self.tokens = 1
            self.values = iter([-200.0, -100.0, -50.0, -49.0, -48.99, -48.99, -60.0])

        def reestimate(self) -> float:
            return next(self.values)

        def store(self) -> None: ...

    def passes(gain: float, steps: int = 9) -> int:
        training = Training(steps=steps, gain=gain)
        return Counting(torch.nn.Linear(1, 1), Rising(), training, None, None, (), tmp_path, "")().step

    assert [passes(gain) for gain in (1.0, 0.1, 1e-3, 0.0)] == [2, 4, 5, 6]
    assert passes(-1.0, steps=7) == 7
    assert passes(0.0, steps=3) == 3
    with pytest.raises(UserError, match=r"training\.gain = -2: at least -1"):
        Training(steps=1, gain=-2)


def test_gaps_are_refused_unless_they_are_allowed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'nan' for step 2, channel 1: a number was expected; fill in .*missing=true"):
        Numbers().learn(["1 nan 3"])
    learned = Numbers(missing=True).learn(["1 nan 3", "nan 5 nan"])
    assert learned.normalize("3 NaN 5") == "3 nan 5"
    assert type(learned).from_json(learned.as_json()).fingerprint == learned.fingerprint
    assert learned.fingerprint != Numbers().learn(["1 3", "5"]).fingerprint
    assert learned.encode(["3"])[0][0] == pytest.approx(0)  # the mean of 1, 3 and 5
    with pytest.raises(ValueError, match=r"'inf' for step 1.*a number or \"nan\" was expected"):
        learned.encode(["inf"])
    (tmp_path / "a.csv").write_text("x\n1\n\n3\n")
    (tmp_path / "b.csv").write_text("x,y\n1,2\n,4\nNA,5\n")
    windows = Windows(1, 1)
    with pytest.raises(ValueError, match=r"b\.csv:3: column 'x' has ''.*data\.origin\.missing = true"):
        Series(str(tmp_path / "b.csv"), windows).prepare(tmp_path)
    table = NumberTable.parse((tmp_path / "b.csv").read_text(), "b.csv")
    assert table.steps(["x", "y"], missing=True) == ["1,2", "nan,4", "nan,5"]


# ---------------------------------------------------------------------- metrics


def test_metrics_of_densities_by_hand() -> None:
    forecast = Prediction("1 2 3", deviations=(1.0, 0.5, 0.0))
    example = Example("0", ("1.5 nan 3.25",))
    score = {name: metric(name).score(metric(name).statistics(forecast, example)) for name in ("crps", "coverage")}
    grid = torch.linspace(-12, 12, 240_001, dtype=torch.float64)
    integral = float((torch.special.ndtr(grid) - (grid >= 0.5).double()).square().sum() * (grid[1] - grid[0]))
    assert score["crps"] == pytest.approx((integral + 0.25) / 2, abs=1e-4)
    assert score["coverage"] == 50
    assert metric("coverage-50").statistics(forecast, example) == (100.0, 2.0)  # 0.5 < 0.674
    wide = Prediction("1 2 3", deviations=(0.31, 1, 1))
    assert metric("coverage").statistics(wide, example) == (200.0, 2.0)
    assert metric("coverage-50").statistics(wide, example) == (100.0, 2.0)
    with pytest.raises(UserError, match="crps needs the distribution of each number"):
        metric("crps").statistics(Prediction("1 2 3"), example)
    assert metric("coverage").statistics(forecast, Example("0", ("nan nan nan",))) == (0.0, 0.0)
    assert metric("mae").statistics(forecast, example) == (0.75, 2.0)
    assert metric("mase").statistics(Prediction("4"), Example("1 nan 3 4", ("5",))) == (1.0, 1.0, 1.0, 1.0)
    assert metric("log_score").statistics(Prediction("", forced_log_prob=-3.0), example) == (3.0, 2.0)


# ---------------------------------------------------------------------- inspect


def test_inspect_shows_components_and_intervals(run: Any, tmp_path: Path) -> None:
    """The components sum to the series without noise, in its units. Missing numbers are filled in."""
    source = "100 110 nan 90 " * 3
    found = read_series(run, source)
    (answer,) = run.answer([Request(source)])
    assert found.forecast.ends(0.9)[0].flatten().tolist() == pytest.approx(answer.best.interval(0.9)[0])
    assert [each.name for each in found.components] == ["level", "season"]
    assert found.smoothed is not None
    assert found.components[0].mean + found.components[1].mean == pytest.approx(found.smoothed.mean)
    assert found.smoothed.mean[2::4, 0] == pytest.approx([100] * 3, abs=3)
    assert found.smoothed.deviation[2, 0] > found.smoothed.deviation[1, 0] > 0
    lines = found.lines()
    assert lines[0].split() == ["step", "channel", "given", "without", "noise", "level", "season"]
    assert lines[3].split()[:3] == ["3", "1", "missing"]
    assert len(lines) == 1 + 12 + 1 + 1 + 4
    found.plot(tmp_path / "series.svg")
    assert "<svg" in (tmp_path / "series.svg").read_text()
    with pytest.raises(UserError, match=r"pictures are drawn as \.png"):
        found.plot(tmp_path / "series.doc")


def test_it_is_the_view_of_the_model(run: Any) -> None:
    assert _other_view(type(run.model)) == "--series"
