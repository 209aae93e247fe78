"""Numbers as people read them."""

from __future__ import annotations

import pytest

from transduce.core.finite import readable


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [(380.4, 2, "380"), (12345.6, 3, "12,300"), (0.01234, 3, "0.0123"), (-1999.9, 2, "-2,000"), (1.0, 4, "1"),
     (float("inf"), 4, "inf"), (float("nan"), 4, "nan"), (9.99, 2, "10")],
)  # fmt: skip
def test_a_number_is_readable_without_an_exponent(number: float, digits: int, text: str) -> None:
    assert readable(number, digits) == text
