"""Arithmetic: sums to compute, digit by digit."""

from __future__ import annotations

import random
import re
import string
from dataclasses import dataclass
from pathlib import Path

from transduce.core.errors import UserError
from transduce.data.corpora import DataError, Splits
from transduce.data.origins import held_out, made_up


@dataclass(frozen=True)
class Arithmetic:
    """Sums and differences of two integers, with letters as distractors, and their values: "3e36d9-h1h3" ->
    "3356".

    After the task of Zaremba and Sutskever 2014 and Jozefowicz et al. 2015. Each number has 1 to ``digits`` digits, and
    the first may be negative. Up to ``distractors`` letters follow every symbol but the last. No sum is in two splits.
    ``pairs`` are for training; valid and test have a tenth of that each, at least 100. The same ``seed`` gives the same
    sums. Raises DataError for a value that is not allowed, and ``prepare`` does if there are not as many different
    sums.
    """

    pairs: int = 100_000
    digits: int = 8
    distractors: int = 3
    seed: int = 1

    def __post_init__(self) -> None:
        if self.digits < 1 or self.distractors < 0:
            raise DataError(
                f"digits = {self.digits}, distractors = {self.distractors}: at least one digit, and no fewer than 0 "
                "letters"
            )

    def prepare(self, folder: Path) -> Splits:
        if self.pairs + 2 * held_out(self.pairs) > 10 ** (2 * self.digits):
            raise DataError(
                f"cannot draw {self.pairs} different sums of numbers of at most {self.digits} digits: draw fewer"
            )
        return made_up(folder, self.pairs, self.seed, self._sum, self._line)

    def _sum(self, draw: random.Random) -> str:
        first, second = (draw.randrange(10 ** draw.randint(1, self.digits)) for _ in range(2))
        return f"{draw.choice((first, -first))}{draw.choice('+-')}{second}"

    def _line(self, written: str, draw: random.Random) -> str:
        letters = (
            "".join(draw.choices(string.ascii_lowercase, k=draw.randint(0, self.distractors))) for _ in written[1:]
        )
        strewn = written[0] + "".join(inserted + symbol for inserted, symbol in zip(letters, written[1:], strict=True))
        return f"{strewn}\t{value(written)}"


def value(written: str) -> int:
    """The value of a sum or a difference of two integers, written without spaces. Raises UserError for any
    other text.
    """
    parts = re.fullmatch(r"(-?\d+)([+-]\d+)", written)
    if parts is None:
        raise UserError(f"{written!r} is not the sum of two numbers: expected, for example, '-12+345'")
    return int(parts[1]) + int(parts[2])
