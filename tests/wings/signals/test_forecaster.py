"""Models that write numbers: their laws, their parts by hand, which searches fit them, and a whole run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from families import FAMILIES, NUMBERS, NUMERIC, PARALLEL, build
from test_laws import pick
from transduce import api
from transduce.core import config
from transduce.core.config.errors import ConfigError
from transduce.core.protocols import Model
from transduce.core.types import EOS, Batch, Padded
from transduce.data.pairs import Pairs, Ragged
from transduce.layers.encoders.dense import DenseEncoder
from transduce.models.compatibility import check_fit
from transduce.models.mixtures import Ensemble
from transduce.objectives.cross_entropy import CrossEntropy, ParallelCrossEntropy
from transduce.runs.loading import load
from transduce.runs.run import Run
from transduce.search.beam import Beam
from transduce.wings.looking.inspection.attention import attention
from transduce.wings.signals.series.forecaster import Forecaster
from transduce.wings.signals.series.linear import LinearForecaster
from transduce.wings.signals.series.objectives import AbsoluteError, Huber, SquaredError
from transduce.wings.signals.series.search import Forecast

C = 2
STEPS_IN, STEPS_OUT = [5, 2, 7], [6, 1, 4]


def series(steps: list[int], seed: int = 1, width: int = 0, padding: float = 0.0) -> Padded:
    """Random series with the channels side by side, EOS at each row's end, and ``padding`` after it."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([C * count + 1 for count in steps])
    values = torch.full((len(steps), max(width, int(lengths.max()))), padding, dtype=torch.float64)
    for row, length in zip(values, lengths.tolist(), strict=True):
        row[: length - 1] = torch.randn(length - 1, generator=generator, dtype=torch.float64)
        row[length - 1] = EOS
    return Padded(values, lengths)


def batch() -> Batch:
    return Batch(series(STEPS_IN), series(STEPS_OUT, seed=2), torch.arange(3))


@pytest.fixture(params=NUMBERS, scope="module")
def family(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def model(family: str) -> Any:
    return build(NUMBERS[family])


def predicted(model: Any, source: Padded, steps: list[int]) -> list[Tensor]:
    numbers_BTC = model.predict(source, torch.tensor(steps))
    assert numbers_BTC.shape == (len(steps), max(1, *steps), C)
    return [row[:count] for row, count in zip(numbers_BTC, steps, strict=True)]


# ---------------------------------------------------------------------- laws


def test_row_and_company(model: Any) -> None:
    """A row has the same numbers alone and in any batch, beside rows of any length."""
    whole = predicted(model, series(STEPS_IN), STEPS_OUT)
    some = predicted(model, pick(series(STEPS_IN), [2, 0, 0]), [4, 6, 6])
    assert_close(some, [whole[2], whole[0], whole[0]])
    for row, steps in enumerate(STEPS_OUT):
        length = C * STEPS_IN[row] + 1
        source = series(STEPS_IN)
        alone = Padded(source.values[row : row + 1, :length], source.lengths[row : row + 1])
        assert_close(predicted(model, alone, [steps]), [whole[row]])


def test_padding(model: Any) -> None:
    """Neither more padding nor its values change the result."""
    for source in (series(STEPS_IN, width=19), series(STEPS_IN, width=19, padding=3.7)):
        assert_close(predicted(model, source, STEPS_OUT), predicted(model, series(STEPS_IN), STEPS_OUT))


def test_the_source_matters_to_its_first_and_last_step(model: Any) -> None:
    source = series(STEPS_IN)
    before = predicted(model, source, STEPS_OUT)[0]
    for place in (0, 2 * C - 1, 2 * (STEPS_IN[0] - 1)):
        values = source.values.clone()
        values[0, place] += 1
        assert (predicted(model, replace(source, values=values), STEPS_OUT)[0] - before).abs().max() > 1e-3


@pytest.mark.parametrize("objective", [SquaredError(), AbsoluteError(), Huber(0.5)])
def test_accumulate(model: Any, objective: Any) -> None:
    """The loss of a batch is the sum of its rows' losses, and so are the gradients."""
    together, parameters = batch(), [p for p in model.parameters() if p.requires_grad]
    whole, _ = objective(model, together)
    rows = []
    for row in range(3):
        source, target = pick(together.source, [row]), pick(together.target, [row])
        rows.append(objective(model, replace(together, source=source, target=target))[0])
    total = torch.stack([loss.total for loss in rows]).sum()
    assert_close(total, whole.total)
    assert sum(loss.count for loss in rows) == whole.count == C * sum(STEPS_OUT)
    if parameters:  # a counted model has no gradients
        ours, theirs = (torch.autograd.grad(each, parameters, allow_unused=True) for each in (total, whole.total))
        assert_close(dict(enumerate(ours)), dict(enumerate(theirs)))


def test_spec(family: str) -> None:
    resolved = config.resolve(NUMBERS[family], Model, NUMERIC)
    again = config.parse(config.write(resolved).encode(), "test")
    assert again == resolved
    assert_close(predicted(build(again), series(STEPS_IN), STEPS_OUT),
                 predicted(build(NUMBERS[family]), series(STEPS_IN), STEPS_OUT))  # fmt: skip


# --------------------------------------------------------------------- parts


@torch.no_grad()
def test_dense_to_dense_is_two_layers_and_a_readout() -> None:
    """The forecast equals plain loops. Zeros stand before shorter sources."""
    model = build(NUMBERS["dense to dense"])
    encoder, decoder = model.encoder, model.decoder
    source = series(STEPS_IN)
    for row, steps in enumerate(STEPS_IN):
        x_SC = source.values[row, : C * steps].reshape(steps, C)
        embedded = x_SC @ encoder.embedding.weight + encoder.embedding.bias
        flat = torch.cat([torch.zeros(16 * (7 - steps), dtype=torch.float64), embedded.flatten()])
        hidden = (encoder.linear.weight @ flat + encoder.linear.bias).clamp(min=0)
        got = predicted(model, source, STEPS_OUT)[row]
        for t in range(STEPS_OUT[row]):
            part = slice(8 * t, 8 * t + 8)
            y = (decoder.linear.weight[part] @ hidden + decoder.linear.bias[part]).clamp(min=0)
            assert_close(got[t], decoder.projection.weight @ y + decoder.projection.bias)


def test_a_dense_encoder_refuses_what_it_cannot_read() -> None:
    encoder = DenseEncoder(9, max_length=3, embedding_width=4, width=5)
    with pytest.raises(ValueError, match=r"a source of 4 .* at most model\.encoder\.max_length = 3; give the last 3"):
        encoder(Padded(torch.ones(1, 4, dtype=torch.long), torch.tensor([4])))
    with pytest.raises(ValueError, match="max_length = 0"):
        DenseEncoder(9, max_length=0)


@torch.no_grad()
@pytest.mark.parametrize("level", ["last", "window"])
def test_the_level_is_taken_and_given_back(level: str) -> None:
    """The result equals the same model without a level, if sources and outputs are moved by hand."""
    table = NUMBERS["dense to dense"]
    plain, levelled = build(table), build(table | {"level": level})
    levelled.load_state_dict(plain.state_dict())
    source = series(STEPS_IN)
    moved, levels = source.values.clone(), []
    for row, steps in enumerate(STEPS_IN):
        x_SC = source.values[row, : C * steps].reshape(steps, C)
        mean = x_SC[-1] if level == "last" else x_SC.mean(0)
        scale = torch.ones(C) if level == "last" else ((x_SC - mean).square().mean(0) + 1e-5).sqrt()
        moved[row, : C * steps] = ((x_SC - mean) / scale).flatten()
        levels.append((mean, scale))
    expected = predicted(plain, replace(source, values=moved), STEPS_OUT)
    for got, own, (mean, scale) in zip(predicted(levelled, source, STEPS_OUT), expected, levels, strict=True):
        assert_close(got, mean + scale * own)


def test_a_series_that_is_moved_moves_its_forecast() -> None:
    """If the level is the last step, a shifted series shifts its forecast. If it is the window, stretching also
    stretches it.
    """
    source = series(STEPS_IN)
    higher = replace(source, values=source.values + 5)
    model = build(NUMBERS["lstm to dense, from the last step"])
    moved = zip(predicted(model, higher, STEPS_OUT), predicted(model, source, STEPS_OUT), strict=True)
    for got, before in moved:
        assert_close(got, before + 5)
    model = build(NUMBERS["transformers, by the window"])
    wider = replace(source, values=1000 * source.values)
    huge = replace(source, values=2000 * source.values + 7)
    for got, before in zip(predicted(model, huge, STEPS_OUT), predicted(model, wider, STEPS_OUT), strict=True):
        assert_close(got, 2 * before + 7, rtol=1e-6, atol=1e-3)


def test_levels_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match=r'level = "first": expected "none", "last" or "window"'):
        Forecaster(None, None, 2, 2, level="first")  # type: ignore[arg-type]
    facts = replace(NUMERIC, target_vocabulary=1)
    with pytest.raises(ValueError, match=r"2 are read and 1 written: set model\.level"):
        config.build(NUMBERS["lstm to dense, from the last step"], Model, facts)
    config.build(NUMBERS["dense to dense"], Model, facts)


# ---------------------------------------------------------------- objectives


class Noted(nn.Module):
    """A model that predicts the given numbers."""

    steps, channels = 3, 2

    def __init__(self, numbers: Tensor) -> None:
        super().__init__()
        self.numbers = numbers

    def predict(self, source: Any, steps_B: Tensor) -> Tensor:
        return self.numbers[:, : max(1, int(steps_B.max()))]


TOLD = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [9.0, 9.0]]])
TRUE = Padded(torch.tensor([[1.0, 2.5, 5.0, 4.0, EOS], [4.0, 2.0, EOS, 0, 0]]), torch.tensor([5, 3]))
ERRORS = [0, -0.5, -2, 0, 1, 4]


@pytest.mark.parametrize(
    ("objective", "total"),
    [
        (SquaredError(), sum(e**2 for e in ERRORS)),
        (AbsoluteError(), sum(map(abs, ERRORS))),
        (Huber(), 0.125 + 1.5 + 0.5 + 3.5),
        (Huber(3.0), 0.125 + 2 + 0.5 + 3 * (4 - 1.5)),
    ],
)
def test_losses_by_hand(objective: Any, total: float) -> None:
    """EOS and everything behind it do not count."""
    loss, _ = objective(Noted(TOLD), Batch(TRUE, TRUE, torch.arange(2)))
    assert float(loss.total) == pytest.approx(total)
    assert loss.count == 6
    assert float(loss.plain) == pytest.approx(total)
    low, _ = objective(Noted(TOLD.bfloat16()), Batch(TRUE, TRUE, torch.arange(2)))
    assert low.total.dtype == torch.float32


def test_tokens_and_numbers_are_not_taken_for_each_other() -> None:
    tokens = Padded(torch.tensor([[5, 6, EOS]]), torch.tensor([3]))
    with pytest.raises(ValueError, match=r"the target is tokens, and a regressor writes numbers: set data\.units"):
        SquaredError()(Noted(TOLD), Batch(TRUE, tokens, torch.arange(1)))
    instant = build(PARALLEL["instant, lstm to dense"])
    mixed = Batch(Padded(tokens.values.expand(2, 3), torch.tensor([3, 3])), TRUE, torch.arange(2))
    with pytest.raises(ValueError, match=r'the target is numbers.*model\.type = "forecaster"'):
        ParallelCrossEntropy()(instant, mixed)
    with pytest.raises(ValueError, match="delta = 0"):
        Huber(0)


# -------------------------------------------------------------------- search


def test_a_forecast_is_what_the_model_predicts(model: Any) -> None:
    source = series(STEPS_IN)
    for search, steps in ((Forecast(), 6), (Forecast(2), 2)):
        for (hypothesis,), expected in zip(search(model, source), predicted(model, source, [steps] * 3), strict=True):
            assert hypothesis.tokens == pytest.approx((*expected.flatten().tolist(), EOS), abs=1e-12)
            assert hypothesis.log_prob == hypothesis.score == 0


PLAIN = [name for name, table in NUMBERS.items() if table["type"] == "forecaster"]
DENSE = [name for name in NUMBERS if name not in PLAIN]


@pytest.mark.parametrize("family", PLAIN)
def test_a_forecast_is_one_and_has_no_probability(family: str) -> None:
    source, model = series(STEPS_IN), build(NUMBERS[family])
    assert Forecast(2).resized(1) == Forecast(2).resized() == Forecast(2)
    for wrong in ({"nbest": 2}, {"size": 5}):
        with pytest.raises(ValueError, match="a forecast is one answer to a source"):
            Forecast().resized(**wrong)
    with pytest.raises(ValueError, match=r"gives numbers and no probabilities.* mae, rmse and mase"):
        Forecast().force(model, source, source)
    with pytest.raises(ValueError, match="cannot go on from a prefix"):
        Forecast()(model, source, source)
    with pytest.raises(ValueError, match="steps = 0"):
        Forecast(0)
    with pytest.raises(ValueError, match=r"7 steps wanted: .* at most model\.decoder\.max_length = 6; ask for fewer"):
        Forecast(7)(model, source)


def test_who_may_ask_whom() -> None:
    tables = NUMBERS["dense to dense"], FAMILIES["luong, dot"], PARALLEL["instant, lstm to dense"]
    forecaster, writer, instant = (type(build(table)) for table in tables)
    check_fit("search", "Search", Forecast, forecaster)
    check_fit("objective", "Objective", Huber, forecaster)
    with pytest.raises(ConfigError, match=r"Beam asks its model to start and .*extend, which Forecaster .*'forecast'$"):
        check_fit("search", "Search", Beam, forecaster)
    with pytest.raises(ConfigError, match="set objective to 'squared-error' or 'absolute-error' or 'huber'"):
        check_fit("objective", "Objective", CrossEntropy, forecaster)
    for other, fitting in ((writer, "greedy"), (instant, "length-beam")):
        with pytest.raises(ConfigError, match=rf"Forecast asks its model to predict, .* set search to .*'{fitting}'"):
            check_fit("search", "Search", Forecast, other)
    with pytest.raises(ValueError, match=r"forecaster model cannot start and .*extend, so it cannot be mixed"):
        Ensemble([build(NUMBERS["dense to dense"])])


# ---------------------------------------------------------------- end to end


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dense network that forecasts two waves of period 8 from a CSV file."""
    folder = tmp_path_factory.mktemp("series")
    rows = [f"{10 * math.sin(t * math.pi / 4):.6f},{1000 + 3 * math.cos(t * math.pi / 4):.6f}" for t in range(120)]
    (folder / "waves.csv").write_text("\n".join(["a,b", *rows]) + "\n", encoding="utf-8")
    windows = {"steps_in": 8, "steps_out": 4}
    settings = {
        "data.origin": {"type": "series", "path": str(folder / "waves.csv"), "windows": windows},
        "data.cache": str(folder / "cache"),
        "model.encoder.max_length": 8,
        "model.encoder.width": 32,
        "model.decoder.max_length": 4,
        "model.decoder.width": 16,
        "training.steps": 120,
        "training.optimizer.rate": 1e-2,
        "training.validation.times": 2,
        "metrics": ["mae", "rmse", "mase"],
    }
    api.train("series-dense", folder / "run", settings, device="cpu", progress=False)
    return folder / "run"


def test_a_metric_that_needs_longer_sources_is_refused_before_training(run: Path, tmp_path: Path) -> None:
    settings = {**Run.read(run).settings, "metrics": ["mae", "mase-12"]}
    (tmp_path / "longer.toml").write_text(config.write(settings), encoding="utf-8")
    with pytest.raises(ValueError, match="mase-12 needs sources of more than 12 steps"):
        api.train(tmp_path / "longer.toml", tmp_path / "run", device="cpu", progress=False)
    assert not (tmp_path / "run" / "config.toml").exists()


def test_raw_numbers_go_in_and_come_out(run: Path) -> None:
    """The forecast continues both waves in their own units. Two steps are the beginning of four."""
    transducer = load(run, device="cpu")
    t = range(12)
    source = " ".join(f"{10 * math.sin(i * math.pi / 4):.6f},{1000 + 3 * math.cos(i * math.pi / 4):.6f}" for i in t[:8])
    steps = [list(map(float, step.split(","))) for step in transducer(source).split()]
    assert len(steps) == 4
    for i, (a, b) in zip(t[8:], steps, strict=True):
        assert a == pytest.approx(10 * math.sin(i * math.pi / 4), abs=2)
        assert b == pytest.approx(1000 + 3 * math.cos(i * math.pi / 4), abs=0.6)
    shorter = transducer.changed(["search.steps=2"])(source)
    assert shorter == " ".join(transducer(source).split()[:2])


def test_the_command_line_forecasts_and_measures(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from transduce.cli.app import app

    source = tmp_path / "source.txt"
    source.write_text(" ".join(["1,1000"] * 8) + "\n" + " ".join(["2,1001"] * 5) + "\n", encoding="utf-8")
    app(["predict", str(run), str(source)], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert [[len(step.split(",")) for step in line.split()] for line in lines] == [[2] * 4] * 2
    app(["evaluate", str(run), "--json"], standalone_mode=False)
    scores = json.loads(capsys.readouterr().out)["metrics"]
    assert list(scores) == ["mae", "rmse", "mase"]
    assert scores["mase"] < 0.3
    with pytest.raises(ValueError, match="a forecast is one answer"):
        app(["predict", str(run), str(source), "--nbest", "2"], standalone_mode=False)
    source.write_text("1,2\t3,4\n", encoding="utf-8")
    with pytest.raises(ValueError, match="gives numbers and no probabilities"):
        app(["score", str(run), str(source)], standalone_mode=False)


def test_bad_input_is_told_by_its_number(run: Path) -> None:
    transducer = load(run, device="cpu")
    good = " ".join(["1,1000"] * 8)
    with pytest.raises(ValueError, match=r"input 2: '1,2 nan,3' has 'nan' for step 2, channel 1"):
        transducer([good, "1,2 nan,3"])
    with pytest.raises(ValueError, match=r"a source of 9 tokens or steps: .*max_length = 8"):
        transducer(" ".join(["1,1000"] * 9))
    with pytest.raises(ValueError, match=r"input 2 has 256 numbers, more than .*\(256, EOS included\): give the last"):
        transducer([good, " ".join(["1,1000"] * 128)])
    with pytest.raises(ValueError, match="does not write word by word"):
        attention(transducer, good)


# ------------------------------------------------------------ linear autoregression


def windows(series_S: Tensor, steps_in: int, steps_out: int) -> Pairs:
    """All windows on a series of one channel."""
    rows = series_S.unfold(0, steps_in + steps_out, 1).numpy()
    sides = [np.pad(part, ((0, 0), (0, 1)), constant_values=EOS) for part in np.split(rows, [steps_in], 1)]
    return Pairs(*(Ragged(side.ravel(), np.arange(len(rows) + 1) * side.shape[1]) for side in sides))


def counted(pairs: Pairs, **options: Any) -> LinearForecaster:
    model = LinearForecaster(1, 1, **options).double()
    counts = model.counts(pairs)
    assert counts.reestimate() <= counts.reestimate()
    counts.store()
    return model


def test_a_linear_autoregression_continues_a_sine_exactly() -> None:
    wave = torch.sin(torch.arange(80, dtype=torch.float64) / 3)
    pairs = windows(wave, 8, 4)
    for levels in (("none",), ("last",), ("none", "last")):
        model = counted(pairs, order=3, steps=4, ridge=0.0, levels=levels)
        batch = pairs.batch(np.arange(5))
        assert_close(
            model.predict(batch.source, torch.tensor([4] * 5)).flatten(1),
            batch.target.values[:, :4].double(),
            atol=1e-3,
            rtol=0,
        )


def test_a_linear_autoregression_is_the_mean_of_ridge_regressions() -> None:
    generator = torch.Generator().manual_seed(1)
    pairs = windows(torch.randn(60, generator=generator, dtype=torch.float64).cumsum(0), 5, 2)
    model = counted(pairs, order=5, steps=2, ridge=0.1)
    batch = pairs.batch(np.arange(len(pairs)))
    x, y = batch.source.values[:, :5].numpy(), batch.target.values[:, :2].numpy()
    forecasts = []
    for mean, scale in (
        (0 * x[:, :1], 1.0),
        (x[:, -1:], 1.0),
        (x.mean(1, keepdims=True), np.sqrt(x.var(1, keepdims=True) + 1e-5)),
    ):
        own, goal = (x - mean) / scale, (y - mean) / scale
        apart = own - own.mean(0)
        gram = apart.T @ apart
        weights = np.linalg.solve(gram + 0.1 * np.trace(gram) / 5 * np.eye(5), apart.T @ (goal - goal.mean(0)))
        forecasts.append(mean + scale * (goal.mean(0) + apart @ weights))
    got = model.predict(batch.source, torch.full((len(pairs),), 2)).flatten(1)
    assert_close(got, torch.from_numpy(np.mean(forecasts, 0)), atol=1e-5, rtol=1e-4)


def test_a_strong_ridge_is_chosen_for_noise_and_a_weak_one_for_a_wave() -> None:
    generator = torch.Generator().manual_seed(1)
    noise, wave = torch.randn(60, generator=generator).double(), torch.sin(torch.arange(60) / 3).double()
    strengths = [
        LinearForecaster(1, 1, 10, 2, levels=("none",)).counts(windows(x, 10, 2)).strengths[0] for x in (noise, wave)
    ]
    assert strengths[0] > 100 * strengths[1]


def test_a_network_starts_from_the_forecast_that_it_learns_beside() -> None:
    model = build(NUMBERS["dense to dense, beside a linear autoregression"])
    source = series(STEPS_IN)
    assert_close(predicted(model, source, STEPS_OUT), predicted(model.counted, source, STEPS_OUT))
    nn.init.ones_(model.decoder.projection.bias)  # scaled by the deviation of each source
    rows = zip(source.values, STEPS_IN, strict=True)
    scales = [row[: C * steps].view(-1, C).std(0, correction=0) for row, steps in rows]
    both = (predicted(each, source, STEPS_OUT) for each in (model, model.counted))
    for got, before, scale in zip(*both, scales, strict=True):
        assert_close(got - before, scale.expand_as(got), atol=1e-4, rtol=1e-4)


def test_what_a_linear_autoregression_refuses() -> None:
    for options, problem in (
        ({"order": 0}, "order = 0"),
        ({"steps": 0}, "steps = 0"),
        ({"ridge": math.nan}, "ridge = nan"),
        ({"levels": ()}, r"levels = \[\]"),
        ({"levels": ("first",)}, 'levels = "first"'),
    ):
        with pytest.raises(ValueError, match=problem):
            LinearForecaster(1, 1, **options)
    assert LinearForecaster(2, 1).levels == ("none",)
    gap = torch.arange(30.0).double()
    gap[5::6] = math.nan
    with pytest.raises(ValueError, match="missing numbers"):
        LinearForecaster(1, 1, 4, 3).counts(windows(gap, 4, 3))
    table = NUMBERS["dense to dense"]
    with pytest.raises(ValueError, match=r"counted = \"forecaster\": a counted model that writes numbers"):
        config.build(table | {"counted": table}, Model, NUMERIC, "model")
    with pytest.raises(ValueError, match=r"counted\.steps = 2: at least decoder\.max_length = 6"):
        config.build(table | {"counted": {"type": "linear", "steps": 2}}, Model, NUMERIC, "model")
