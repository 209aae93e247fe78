"""Minimum risk: the objective by its definition, whole runs with it, and errors for wrong settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from test_resume import At, KilledError, kill, same_bytes
from torch.testing import assert_close

import transduce
from families import FAMILIES, build, sources
from transduce import api
from transduce.core.types import EOS, PAD, UNK, Batch, Padded
from transduce.objectives import readout
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.objectives.risk import ExpectedRisk
from transduce.search.beam import Beam
from transduce.search.forcing import shifted
from transduce.search.greedy import Greedy
from transduce.search.sampling import Sampling
from transduce.training.callbacks import Callback, Update

LUONG, TRANSFORMER = "luong, gru, scaled dot, fed", "transformer, pre-norm"


def read(ids: Sequence[int]) -> str:
    return " ".join(map(str, [one for one in ids if one != EOS]))


def batch() -> Batch:
    rows = [[5, 4, EOS], [6, EOS], [7, 8, 4, EOS]]
    target = torch.tensor([row + [PAD] * (4 - len(row)) for row in rows])
    return Batch(sources([5, 2, 4]), Padded(target, torch.tensor([3, 2, 4])), torch.arange(3))


def model_in_training(name: str) -> Any:
    model = build(FAMILIES[name], seed=1)
    model.training = True  # its parts are not: no dropout
    return model


def one_by_one(model: Any, found: list[list[tuple[int, ...]]], risk: Any, sharpness: float) -> torch.Tensor:
    """The sum over sources of the risk to be expected, each output asked about by itself."""
    given, total = batch(), torch.tensor(0.0, dtype=torch.float64)
    for row, outputs in enumerate(found):
        alone = Padded(given.source.values[[row]], given.source.lengths[[row]])
        target = given.target.values[row, : given.target.lengths[row]].tolist()
        log_p = []
        for output in outputs:
            ids = Padded(torch.tensor([output]), torch.tensor([len(output)]))
            features, _ = model.extend(shifted(ids), model.start(alone))
            log_p.append(model.readout(features).log_softmax(-1).gather(2, ids.values[..., None]).sum())
        q = (sharpness * torch.stack(log_p)).softmax(0)
        total = total + sum(
            weight * len(target) * risk(output, target) for weight, output in zip(q, outputs, strict=True)
        )
    return total


def edits(output: Sequence[int], target: Sequence[int]) -> float:
    """Returns the word edit distance, divided by the number of target words."""
    row = list(range(len(target)))
    for one in output[:-1]:
        before, row = row, [row[0] + 1]
        for place, other in enumerate(target[:-1]):
            row.append(min(before[place + 1] + 1, row[place] + 1, before[place] + (one != other)))
    return row[-1] / (len(target) - 1)


def wrong(output: Sequence[int], target: Sequence[int]) -> bool:
    return tuple(output) != tuple(target)


DEFINITIONS = [*product([LUONG, TRANSFORMER], [("wer", edits), ("exact", wrong)], [1.0, 0.2])]


@pytest.mark.parametrize(
    ("name", "measure", "sharpness"),
    [
        pytest.param(*each, marks=[] if each in (DEFINITIONS[0], DEFINITIONS[-1]) else [pytest.mark.slow])
        for each in DEFINITIONS
    ],
)
def test_it_is_its_definition(
    name: str, measure: tuple[str, Any], sharpness: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric, risk = measure
    model, given = model_in_training(name), batch()
    search = Beam(size=5, nbest=3, max_length=6)
    objective = ExpectedRisk(metric, 3, Beam(size=5, max_length=6), sharpness, likelihood=0.25).reading(read)
    found = [[each.tokens for each in row] for row in search(model, given.source)]
    plain, _ = CrossEntropy()(model, given)
    expected = one_by_one(model, found, risk, sharpness)
    loss, _ = objective(model, given)
    assert model.training
    assert_close(loss.parts["risk"], expected.detach())
    assert_close(loss.parts["nll"], plain.plain)
    assert_close(loss.total, expected + 0.25 * plain.total)
    assert loss.count == 9
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(expected + 0.25 * plain.total, parameters, allow_unused=True)
    assert_close(torch.autograd.grad(loss.total, parameters, allow_unused=True), gradients)
    monkeypatch.setattr(readout, "CHUNK", 30)  # readout in parts
    by_parts, _ = objective(model, given)
    assert_close(torch.autograd.grad(by_parts.total, parameters, allow_unused=True), gradients)


@pytest.mark.slow
def test_with_all_outputs_in_view_it_is_the_models_expectation() -> None:
    """The candidates are all outputs of up to two words, weighted by their probabilities."""
    model, given = model_in_training(LUONG), batch()
    every = [(*words, EOS) for length in range(3) for words in product([UNK, *range(4, 11)], repeat=length)]
    whole = Beam(size=len(every), max_length=3, unknown=True)
    loss, _ = ExpectedRisk("wer", len(every), whole, likelihood=0.0).reading(read)(model, given)
    assert_close(loss.total, one_by_one(model, [every] * 3, edits, 1.0))


def test_what_was_drawn_twice_counts_once() -> None:
    model, given = model_in_training(LUONG), batch()
    search = Sampling(size=24, max_length=4)
    found = [list(dict.fromkeys(each.tokens for each in row)) for row in search(model, given.source)]
    assert len(set(map(len, found))) > 1, "rows of unequal width"
    loss, _ = ExpectedRisk("wer", 24, search, likelihood=0.0).reading(read)(model, given)
    assert_close(loss.total, one_by_one(model, found, edits, 1.0))


@pytest.mark.slow
def test_an_update_makes_better_outputs_more_probable() -> None:
    model, given = model_in_training(TRANSFORMER), batch()
    objective = ExpectedRisk("wer", 4, Beam(size=4, max_length=6), likelihood=0.0).reading(read)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    risks = []
    for _ in range(20):
        loss, _ = objective(model, given)
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
        risks.append(float(loss.parts["risk"]))
    assert risks[-1] < 0.9 * risks[0]


def test_outputs_are_sought_without_dropout_and_what_was_frozen_stays_at_rest() -> None:
    model, given = model_in_training(LUONG), batch()
    model.decoder.training, seen = True, []

    class Watching(Greedy):
        def __call__(self, model: Any, source: Any, prefix: Padded | None = None) -> Any:
            seen.append([part.training for part in model.modules()])
            return super().__call__(model, source, prefix)

        def resized(self, size: int | None = None, nbest: int | None = None) -> Any:
            return self

    before = [part.training for part in model.modules()]
    ExpectedRisk("wer", 2, Watching(max_length=5)).reading(read)(model, given)
    assert seen == [[False] * len(before)]
    assert [part.training for part in model.modules()] == before


def test_better_may_be_more() -> None:
    """``exact`` is right in percent, ``item_error`` wrong."""
    model, given = model_in_training(LUONG), batch()
    right, wrong = (
        ExpectedRisk(metric, 3, Beam(size=3, max_length=6)).reading(read)(model, given)[0]
        for metric in ("exact", "item_error")
    )
    assert_close(right.total, wrong.total)


def test_validation_is_plain_cross_entropy() -> None:
    model = build(FAMILIES[LUONG], seed=1)
    ours, _ = ExpectedRisk("wer").reading(read)(model, batch())
    plain, _ = CrossEntropy()(model, batch())
    assert_close((ours.total, ours.parts), (plain.total, plain.parts))


# ------------------------------------------------------------------ whole runs

RISK = {"objective": {"type": "minimum-risk", "metric": "cer", "candidates": {"type": "beam", "max_length": 6}}}


def train(run: Path, settings: dict[str, Any], *callbacks: Callback, **options: Any) -> transduce.Transducer:
    return api.train("reverse", run, settings, callbacks=callbacks, device="cpu", progress=False, **options)


@pytest.mark.slow
def test_a_killed_run_goes_on(tiny: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    train(tmp_path / "whole", tiny | RISK, init=trained)
    with pytest.raises(KilledError):
        train(tmp_path / "killed", tiny | RISK, At(3, kill), init=trained)
    train(tmp_path / "killed", {}, resume=True)
    same_bytes(tmp_path / "killed", tmp_path / "whole")


class Losses(Callback):
    def __init__(self) -> None:
        self.found: list[float] = []

    def on_update(self, update: Update) -> None:
        self.found.append(update.loss)


@pytest.mark.slow
def test_risk_falls_from_where_cross_entropy_has_led(tiny: dict[str, Any], own_run: Path, tmp_path: Path) -> None:
    """Training on risk starts from a trained run and lowers the loss by more than a tenth."""
    quiet = {"model.encoder.dropout": 0.0, "model.decoder.dropout": 0.0, "training.validation.every": 1000}
    settings = tiny | quiet | {"training.steps": 60, "training.optimizer.rate": 3e-3}
    losses = Losses()
    risk = {"objective": RISK["objective"] | {"likelihood": 0.0}}
    student = train(tmp_path / "risk", settings | risk, losses, init=own_run)
    assert losses.found[-1] < 0.9 * losses.found[0]
    (scored,) = student.score([("abc", "cba")])
    assert math.isfinite(scored.log_prob)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, r"objective\.metric: missing"),
        ({"metric": "werr"}, r'objective: no metric .werr.: did you mean "wer"'),
        ({"metric": "perplexity"}, r"metric 'perplexity' compares no texts; minimum risk takes"),
        ({"metric": "wer", "outputs": 1}, r"outputs = 1: .*at least 2"),
        ({"metric": "wer", "sharpness": 0}, r"sharpness = 0\.0: more than 0"),
        ({"metric": "wer", "likelihood": -1}, r"likelihood = -1\.0: 0, for the risk alone, or more"),
    ],
)
def test_mistakes_leave_no_run(settings: dict[str, Any], message: str, tiny: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        train(tmp_path / "run", tiny | {"objective": {"type": "minimum-risk"} | settings})
    assert not (tmp_path / "run" / "config.toml").exists()


def test_who_has_not_told_it_how_to_read_is_told() -> None:
    with pytest.raises(ValueError, match=r"function that decodes ids, ExpectedRisk\(\.\.\.\)\.reading\(decode\)"):
        ExpectedRisk("wer")(model_in_training(LUONG), batch())
