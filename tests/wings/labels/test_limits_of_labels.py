"""What the wing labels adds to test_limits.py."""

from __future__ import annotations

from typing import Any

import pytest

from transduce.core.types import EOS, UNK, Padded
from transduce.search.beam import Beam
from transduce.search.exact import Exact
from transduce.search.filters.lengths import LengthLimit
from transduce.search.greedy import Greedy, quickest
from transduce.search.length_beam import LengthBeam
from transduce.search.limits import longest_output, refused
from transduce.search.sampling import Sampling
from transduce.wings.ctc.search.best_path import BestPath
from transduce.wings.ctc.search.prefix_beam import PrefixBeam
from transduce.wings.labels.search import LabelSearch
from transduce.wings.summaries.search import KEPT_ID, LEFT_OUT_ID, SelectionSearch


def test_what_no_filter_can_help_is_not_refused() -> None:
    """Unknown tokens, the end at the maximum length, and the end where every token is forbidden."""
    source, target = Padded.of([[EOS]] * 3), Padded.of([[UNK, UNK, EOS], [3, 4, EOS], [3, 4, 5, EOS]])
    search = Greedy(max_length=3, filters=(LengthLimit(5, 5),))
    assert refused(search, source, target, 6) == ["", "", "max_length"]
    assert refused(LabelSearch(), source, target, 6) == [""] * 3


def test_a_selection_refuses_other_numbers_of_parts() -> None:
    rows = [[KEPT_ID, LEFT_OUT_ID, EOS], [KEPT_ID, KEPT_ID, EOS], [LEFT_OUT_ID, LEFT_OUT_ID, EOS], [EOS]]
    assert refused(SelectionSearch(most=1), None, Padded.of(rows), 6) == ["", "most", "least", ""]


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        (Beam(max_length=7, filters=(LengthLimit(2),)), Greedy(7, (LengthLimit(2),))),
        (Sampling(max_length=7), Greedy(7)),
        (Exact(max_length=7), Greedy(7)),
        (PrefixBeam(), BestPath()),
        (LengthBeam(4, 2), LengthBeam(1, 1)),
        (LabelSearch(), LabelSearch()),
    ],
)
def test_validation_searches_quickly_with_the_same_limits(search: Any, expected: Any) -> None:
    assert quickest(search) == expected


def test_the_longest_output_of_a_search() -> None:
    assert longest_output(Beam(max_length=7), 3) == 7
    assert longest_output(Greedy(7, (LengthLimit(maximum=1, maximum_ratio=1.5),)), 3) == 5
    assert longest_output(LabelSearch(), 3) is None
