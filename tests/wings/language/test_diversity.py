"""Metrics of outputs without references, counted by hand."""

from __future__ import annotations

import math

import pytest

from transduce.core.types import Example, Prediction
from transduce.metrics.base import metric

OUTPUTS = ["I do not know", "i do not care", "", "no"]


@pytest.mark.parametrize(("name", "expected"), [("distinct1", 600 / 9), ("distinct2", 400 / 6), ("mean_length", 9 / 4)])
def test_diversity_is_counted_over_all_outputs(name: str, expected: float) -> None:
    measured = metric(name)
    rows = [measured.statistics(Prediction(output), Example("", ())) for output in OUTPUTS]
    assert measured.score([sum(column) for column in zip(*rows, strict=True)]) == pytest.approx(expected)
    assert math.isnan(measured.score([0.0, 0.0]))
