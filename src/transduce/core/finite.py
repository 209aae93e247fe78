"""The checks of numbers where they enter the program: each is finite, and so small that no product overflows and every
library can hold it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from transduce.core.errors import UserError

if TYPE_CHECKING:  # options of commands are read without NumPy
    import numpy as np
    from numpy.typing import NDArray

LARGEST: Final = 1e15  # sums of squares of it fit into float32
COUNT: Final = 2**31 - 1  # libraries hold counts in 32 bits
SEED: Final = 2**63 - 1


def finite_number(text: str | bytes) -> float:
    """The number that a text writes. Raises ValueError for a text that is no number, and UserError, which is one,
    unless its size is at most ``LARGEST``, so also for "nan" and "inf".
    """
    number = float(text)
    if not abs(number) <= LARGEST:  # False for NaN
        raise UserError(f"{number} is not finite, or too large: at most {LARGEST:g} was expected")
    return number


def check_options(arguments: Mapping[str, object]) -> None:
    """Raises UserError, which names the option, for a number among a command's arguments that is not finite, for an
    integer above ``COUNT`` in size, and for a seed above ``SEED``.
    """
    from transduce.core.config.errors import shown

    for name, value in arguments.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{option} {value}: a finite number was expected")
        limit = SEED if name == "seed" else COUNT
        if isinstance(value, int) and abs(value) > limit:
            raise UserError(f"{option} {shown(value)}: at most {limit:,} was expected")


def first_wrong(x: NDArray[np.floating], largest: float = LARGEST) -> int | None:
    """The index, in the flat array, of the first number that is NaN, infinite or larger than ``largest`` in size. None
    if there is none.
    """
    if not x.size or (math.isfinite(low := float(x.min())) and max(-low, float(x.max())) <= largest):
        return None  # NaN and infinity would be the smallest or the largest number
    wrong = ~(abs(x.ravel()) <= largest)
    return int(wrong.argmax()) if wrong.any() else None


def readable(number: float, digits: int) -> str:
    """The number with this many significant digits, for people: "12,300" and never "1.23e+04"."""
    text = f"{number:.{digits}g}"
    return f"{float(text):,.0f}" if "e+" in text else text
