"""benchmarks/family_curves.py: where the curves of two families cross."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.usefixtures("benchmarks")


def test_two_curves_cross_between_measured_numbers_of_pairs() -> None:
    from family_curves import crossings

    rising, level = {100: 0.0, 10_000: 20.0, 100_000: 30.0}, {100: 10.0, 10_000: 10.0, 100_000: 30.0}
    assert crossings(rising, level) == [1000] == crossings(level, rising)  # half the way, on a scale of logarithms
    assert crossings({100: 1.0, 1000: 2.0}, {100: 0.0, 1000: 1.0}) == []
    assert crossings({100: 1.0}, {1000: 2.0}) == []


def test_the_table_of_crossings_names_the_better_family_with_the_most_pairs() -> None:
    from family_curves import crossing_lines

    curves = {"steep": {100: 0.0, 10_000: 20.0}, "flat": {100: 10.0, 10_000: 10.0}, "empty": {}}
    assert crossing_lines(curves)[2:] == ["| steep, flat | 1,000 | steep |"]
