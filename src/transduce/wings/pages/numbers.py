"""Probabilities as people read them."""

from __future__ import annotations

from transduce.core.finite import readable

RARE, RAREST = 1e-3, 1e-9  # below them: "1 in 5,000", and no number at all


def percent(p: float) -> str:
    """A probability as "23.3 %". One that would be written as 0 or 100 without being so is "less than 0.1 %" or "more
    than 99.9 %".
    """
    if 0 < p < 0.0005:
        return "less than 0.1 %"
    return "more than 99.9 %" if 0.9995 <= p < 1 else f"{100 * p:.1f} %"


def chance(p: float) -> str:
    """The probability of a whole output, which may be very small: "23.3 %", "1 in 5,000" or "less than 1 in a
    billion".
    """
    if p >= RARE:
        return percent(p)
    return f"1 in {readable(1 / p, 2)}" if p >= RAREST else "less than 1 in a billion"
