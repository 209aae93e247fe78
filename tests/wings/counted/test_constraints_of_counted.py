"""What the wing counted adds to test_constraints.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from test_constraints import LEXICON, held, model_of

from transduce.search.allocation.groups import Groups
from transduce.search.beam import Beam
from transduce.search.constraints.phrases import Constraints
from transduce.search.greedy import Greedy
from transduce.search.length_beam import LengthBeam
from transduce.search.sampling import Sampling
from transduce.wings.counted.shortlist import Shortlist


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constraints("cat"), r"required = 'cat': a list of phrases was expected"),
        (lambda: Constraints(["cat", []]), r"required = \[\]: a list of phrases"),
        (lambda: Constraints(["cat", 3]), r"required = 3: a list of phrases"),  # type: ignore[list-item]
        (lambda: Constraints(forbidden="cat"), r"forbidden = 'cat': a list of phrases"),
        (lambda: Constraints(forbidden=["cat", " "]), r"a phrase is ' ': some text was expected"),
        (lambda: Constraints([["cat", None]]), r"a phrase is None"),  # type: ignore[list-item]
        (
            lambda: Constraints(["a", ["xy", "z"]]).tokenized(LEXICON),
            r"required 'xy' or 'z' cannot be written: .*lacks",
        ),
        (
            lambda: Constraints([["a c", "c a b"]], ["a"]).tokenized(LEXICON),
            r"the required 'a c' has the forbidden 'a' in it: leave one of them out",
        ),
        (lambda: held(Greedy(9), [Constraints(["a"])]), r"Greedy search has none: use a beam, --beam 10"),
        (lambda: held(Sampling(4), [Constraints(["a"])]), r"Sampling search has none"),
        (lambda: held(LengthBeam(), [Constraints(["a"])]), r"LengthBeam cannot obey phrases: use a beam"),
        (
            lambda: held(Shortlist(Path("gone")), [Constraints(["a"])]),
            r"Shortlist cannot .* without a shortlist",
        ),
        (
            lambda: held(Beam(4, allocation=Groups(2)), [Constraints(["a"])]),
            r"and Groups does too: set search.allocation=top-k",
        ),
        (lambda: held(Beam(max_length=2), [Constraints(["a c"])]), r"phrase of 2 tokens and the end do not fit max_le"),
        (
            lambda: held(Beam(), [Constraints(["a"])] * 3)(model_of(0), torch.arange(4)),
            r"there are phrases for 3 sources, and 4 sources",
        ),
    ],
)
def test_what_cannot_be_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
