"""What the wing signals adds to test_precision.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from test_forecaster import series
from test_precision import CPU, fast, pair  # noqa: F401

from families import (
    NUMBERS,
)
from transduce.compute.precision import autocast


@pytest.mark.parametrize("family", NUMBERS)
def test_numbers_are_near_those_of_float32(family: str) -> None:
    exact, fast = pair(family)
    source = series([5, 3, 4])
    source = replace(source, values=source.values.float())
    steps_B = torch.tensor([3, 2, 6])
    one = exact.predict(source, steps_B).float()
    with autocast("bfloat16", CPU)():
        other = fast.predict(source, steps_B).float()
    torch.testing.assert_close(one, other, rtol=0.05, atol=0.05)
