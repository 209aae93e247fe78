"""benchmarks/compression.py: how far two editors of one sentence agree."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.usefixtures("benchmarks")


def test_two_editors_of_a_sentence_are_compared_in_both_orders() -> None:
    from compression import editors

    pairs = [
        ("a b c d", "a b d"),
        ("a b c d", "a x c"),  # a word of its own does not count
        ("a b c d", "a b c d"),  # nothing is left out
        ("a b c d", "x y"),  # nothing is kept
        ("a b c d", "a b d"),
        ("e f", "e"),
    ]
    assert editors(pairs) == [("a b c d", "a b d", "a c"), ("a b c d", "a c", "a b d")]
