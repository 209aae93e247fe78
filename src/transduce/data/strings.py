"""Random strings and transformations of them, for smoke tests."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from transduce.data.corpora import DataError, Splits
from transduce.data.origins import held_out, made_up


@dataclass(frozen=True)
class Reverse:
    """Strings of 1 to ``longest`` lower-case letters and their reversals, for smoke tests. No string is in
    two splits.

    ``pairs`` are for training; valid and test have a tenth of that each, at least 100. The same ``seed`` gives the same
    strings. ``prepare`` raises DataError if the strings would be more than half of all that are possible.
    """

    pairs: int = 10_000
    longest: int = 10
    seed: int = 1

    def prepare(self, folder: Path) -> Splits:
        _check(self.pairs, self.longest)
        return made_up(folder, self.pairs, self.seed, partial(_letters, self.longest), self._line)

    def _line(self, text: str, draw: random.Random) -> str:
        return f"{text}\t{text[::-1]}"


ORDERS: dict[str, Callable[[str], str]] = {
    "double": lambda text: text + text,
    "reverse": lambda text: text[::-1],
    "rotate": lambda text: text[1:] + text[:1],
    "sort": lambda text: "".join(sorted(text)),
}


@dataclass(frozen=True)
class Ordered:
    """Strings of lower-case letters with a label for a transformation: double, reverse, rotate (the first letter goes
    to the end) or sort.

    The columns are the label, the string and the result. Everything else is as in ``Reverse``.
    """

    pairs: int = 10_000
    longest: int = 10
    seed: int = 1

    def prepare(self, folder: Path) -> Splits:
        _check(self.pairs, self.longest)
        return made_up(folder, self.pairs, self.seed, partial(_letters, self.longest), self._line)

    def _line(self, text: str, draw: random.Random) -> str:
        order = draw.choice(sorted(ORDERS))
        return f"{order}\t{text}\t{ORDERS[order](text)}"


def _letters(longest: int, draw: random.Random) -> str:
    return "".join(draw.choices(string.ascii_lowercase, k=draw.randint(1, longest)))


def _check(pairs: int, longest: int) -> None:
    if pairs + 2 * held_out(pairs) > 26**longest // 2:
        raise DataError(f"cannot draw {pairs} different strings of at most {longest} letters: draw fewer")
