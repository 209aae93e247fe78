"""Calibration: distributions of known calibration, and a loop as an oracle."""

from __future__ import annotations

import numpy as np
import pytest

from transduce.metrics.calibration import Shares, calibration


@pytest.mark.parametrize("shares", ["width", "mass"])
@pytest.mark.parametrize("seed", range(5))
def test_the_error_is_its_formula(shares: Shares, seed: int) -> None:
    draw = np.random.default_rng(seed)
    confidence = np.round(draw.random(200), 2)
    right = draw.random(200) < confidence**2
    found = calibration(confidence, right, bins=10, shares=shares)
    groups: dict[int, list[int]] = {}
    for rank, token in enumerate(np.argsort(confidence, kind="stable").tolist()):
        number = max(0, int(np.ceil(confidence[token] * 10 - 1e-9)) - 1) if shares == "width" else rank // 20
        groups.setdefault(number, []).append(token)
    error = sum(len(each) * abs(right[each].mean() - confidence[each].mean()) for each in groups.values()) / 200
    assert found.error == pytest.approx(error)
    assert [each.tokens for each in found.bins] == [len(groups[number]) for number in sorted(groups)]
    assert (found.tokens, found.accuracy) == (200, pytest.approx(right.mean()))
    assert all(each.low - 1e-9 <= each.confidence <= each.high + 1e-9 for each in found.bins)
    assert found.signature == f"unit:token|refs:first|bins:10|shares:{shares}"


def test_who_is_right_as_often_as_he_says_has_no_error() -> None:
    draw = np.random.default_rng(0)
    confidence = draw.random(200_000)
    honest = calibration(confidence, draw.random(200_000) < confidence)
    boasting = calibration(confidence**0.5, draw.random(200_000) < confidence)
    assert honest.error < 0.01
    assert boasting.error == pytest.approx(2 / 3 - 1 / 2, abs=0.01)  # E sqrt(u) - E u
    assert boasting.confidence > boasting.accuracy


def test_ends_of_the_scale() -> None:
    found = calibration([1.0, 1.0, 0.0], [True, False, False], bins=4)
    assert [(each.low, each.high, each.tokens) for each in found.bins] == [(0.0, 0.25, 1), (0.75, 1.0, 2)]
    assert found.error == pytest.approx(2 / 3 * 0.5)
    assert len(calibration([0.5], [True], bins=9, shares="mass").bins) == 1


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="0 confidences for 0 tokens"):
        calibration([], [])
    with pytest.raises(ValueError, match="2 confidences for 1 tokens"):
        calibration([0.1, 0.2], [True])
    with pytest.raises(ValueError, match=r"from -0\.1 to 0\.5: probabilities"):
        calibration([-0.1, 0.5], [True, False])
    with pytest.raises(ValueError, match=r"from 0\.5 to 1\.1: probabilities"):
        calibration([1.1, 0.5], [True, False])
    with pytest.raises(ValueError, match="bins = 0"):
        calibration([0.5], [True], bins=0)
