"""Other cases of letters: a text in capitals, in lower case, or with a capital at the beginning of each word."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from numpy.random import Generator

from transduce.core.errors import UserError
from transduce.training.augmentation import check_share
from transduce.wings.robustness.base import OneByOne, TextPair, drawn

Case = Literal["capitals", "lower", "title"]


def _title(text: str) -> str:
    """Each word with a capital; ``str.title`` would also write one after an apostrophe ("Don'T")."""
    return re.sub(r"\w\S*", lambda word: word[0][:1].upper() + word[0][1:].lower(), text)


CASES: dict[Case, Callable[[str], str]] = {"capitals": str.upper, "lower": str.lower, "title": _title}


@dataclass(frozen=True)
class Casing(OneByOne):
    """Writes a ``share`` of the sources in another case, one of ``cases``: "capitals", "lower" and "title" (a capital
    at the beginning of each word).

    ``target`` = "kept" leaves the target as it is, so the model learns to write as usual, however its source is
    written. "same" writes the target in the same case. Raises UserError for a share that is not from 0 to 1, and
    without a case.
    """

    share: float = 0.15
    cases: tuple[Case, ...] = ("capitals", "lower", "title")
    target: Literal["kept", "same"] = "kept"

    def __post_init__(self) -> None:
        check_share("casing.share", self.share)
        if not self.cases:
            raise UserError(f"casing.cases = []: one or more of {', '.join(CASES)} were expected")

    def varied(self, pair: TextPair, chance: Generator) -> TextPair:
        case = CASES[drawn(self.cases, chance)]
        changed = replace(pair, source=case(pair.source))
        return replace(changed, target=case(pair.target)) if self.target == "same" else changed
