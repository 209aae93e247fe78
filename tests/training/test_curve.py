"""What the curve of validations says at the end of training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_training import Events, loop, steady

from transduce import api
from transduce.runs.checkpoints import Rank
from transduce.training.callbacks import Notice
from transduce.training.curve import Constant, Curve, DivergenceError, conclusions, unusable
from transduce.training.settings import Validation
from transduce.training.validation import Judgement

NONE = Constant("a", 90.0)  # an error rate


def curve(values: Sequence[float], untrained: float = 4.0) -> Curve:
    """Values at updates 100, 200, ... The losses are hundredths of them."""
    return Curve([100 * (place + 1) for place in range(len(values))], values, [v / 100 for v in values], untrained)


def told(values: Sequence[float], constant: Constant | None = NONE, ended: bool = True) -> list[str]:
    return conclusions(curve(values), Rank("per", min(values), min(values) / 100), constant, ended)


def test_a_curve_that_still_falls_is_told() -> None:
    (line,) = told([88, 80, 75, 70, 60, 50])
    assert "the curve still rises: 50 % of the gain in per came in the last third of the 600 updates" in line
    assert "--resume --set training.steps=1200" in line


@pytest.mark.parametrize(
    "values", [[40, 20, 14, 12, 11, 10.5], [0.1, 0.1, 0.1, 0.1, 0.1, 0.09], [30, 20, 12, 10, 11, 12], [50]]
)
def test_a_curve_that_has_flattened_is_not_told(values: Sequence[float]) -> None:
    assert not told(values)


def test_a_metric_that_reaches_its_end_beside_a_flat_loss_is_not_told() -> None:
    found = Curve([75, 150, 225, 300], [-2, -77, -80, -100], [1.7, 0.09, 0.12, 0.01], 4.0)
    assert not conclusions(found, Rank("exact", -100, 0.01), Constant("a", -0.5), True)


def test_a_curve_is_not_told_without_a_start_or_if_patience_ended_it() -> None:
    falling = [88.0, 80, 75, 70, 60, 50]
    assert not told(falling, None)
    assert not told(falling, ended=False)


def test_a_loss_has_its_start_in_the_untrained_model() -> None:
    found = Curve([10, 20, 30], [3.5, 3.0, 2.0], [3.5, 3.0, 2.0], 4.0)
    assert "50 % of the gain in loss" in conclusions(found, Rank("loss", 2.0, 2.0), None, True)[0]


def test_a_model_that_is_no_better_than_one_output_is_told() -> None:
    (line,) = told([95, 92, 90.5])
    assert "learned nothing that per measures: it has 90.5, and the same output for every source ('a') has 90" in line
    (line,) = conclusions(curve([0, 0, 0]), Rank("exact", -2.0, 1.0), Constant("b", -2.0), True)
    assert "it has 2, and the same output for every source ('b') has 2" in line


@pytest.mark.parametrize(
    ("loss", "why"),
    [
        (7e10, "is 70,000,000,000, and the untrained model's loss was 4"),
        (math.nan, "no validation loss was"),
        (math.inf, "no validation loss was"),
    ],
)
def test_a_model_whose_loss_has_exploded_is_unusable(loss: float, why: str) -> None:
    assert why in str(unusable(curve([1]), Rank("loss", loss, loss), None))
    assert unusable(curve([1]), Rank("per", 20.0, loss), NONE) is None, "its outputs are good"
    assert unusable(curve([1]), Rank("per", 95.0, 30.0), NONE) is None, "bad, and not exploded"


def test_a_divergence_after_the_best_model_is_told() -> None:
    (line,) = conclusions(Curve([1, 2], [10, 95], [1.0, 1e5], 4.0), Rank("per", 10, 1.0), NONE, True)
    assert "training diverged after the best model: the last validation loss is 100,000" in line


def judged(run: Path, losses: Sequence[float], constant: Constant | None = None) -> Events:
    made, events = loop(run, steady(steps=12, validation=Validation(times=len(losses))), values=[])
    given = iter(losses)

    def judge(allowed: float, part: float) -> Judgement:
        loss = next(given)
        return Judgement(loss, {}, loss, constant=constant)

    made.validations.judge = judge
    made()
    return events


def test_a_diverged_training_ends_with_an_error(tmp_path: Path) -> None:
    """After it has saved its state, so that --resume can go on from it, too."""
    with pytest.raises(DivergenceError, match=r"usable: training diverged: the best .* is 70,000,000,000"):
        judged(tmp_path, [7e10, 8e10])
    assert (tmp_path / "checkpoints" / "last" / "state.json").exists()


def test_a_diverged_training_without_validation_data_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.training.curve.EXPLODED", 0.0)
    made, _ = loop(tmp_path, steady(steps=12))
    made.validations.judge, made.course.state = None, replace(made.course.state, start=0.1)
    with pytest.raises(DivergenceError, match=r"training diverged: .* the untrained model's loss was 0\.1"):
        made()


def test_conclusions_are_notices(tmp_path: Path) -> None:
    (notice,) = judged(tmp_path, [1.5, 1.4, 1e9]).of(Notice)
    assert "training diverged after the best model" in notice.text


def test_a_run_that_learned_nothing_says_so(tiny: dict[str, Any], tmp_path: Path) -> None:
    """With a tiny rate, it writes the same as at its start."""
    events, nothing = Events(), {"training.optimizer.rate": 1e-12, "training.steps": 6}
    api.train("reverse", tmp_path / "run", tiny | nothing, callbacks=[events], device="cpu", progress=False)
    assert any("learned nothing that exact measures" in notice.text for notice in events.of(Notice))
