"""What the wing labels adds to test_precision.py."""

from __future__ import annotations

from typing import Any

import pytest
from test_precision import CPU, NEAR, fast, gap, padded, pair  # noqa: F401

from families import (
    CHAINS,
    FAMILIES,
    FAST,
    FRAMEWISE,
    PARALLEL,
    SIGNALS,
    all_lengths,
    chooses_length,
    sources,
)
from selection import mostly_slow
from transduce.compute.precision import autocast
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.search.length_beam import LengthBeam
from transduce.wings.ctc.search.best_path import BestPath
from transduce.wings.ctc.search.prefix_beam import PrefixBeam
from transduce.wings.labels.search import LabelSearch
from transduce.wings.labels.viterbi import Posterior, Viterbi

SEARCHES: list[tuple[str, Any]] = [
    *((family, Greedy(9)) for family in FAMILIES | SIGNALS),
    ("transformer, pre-norm", Beam(3, max_length=9)),
    *((family, search) for family in FRAMEWISE for search in (BestPath(), PrefixBeam(3))),
    *((family, LengthBeam() if chooses_length(family) else LabelSearch()) for family in PARALLEL),
    *((family, search) for family in CHAINS for search in (Viterbi(), Posterior())),
]


@pytest.mark.parametrize(
    ("family", "search"),
    mostly_slow(SEARCHES, fast=[each for each in SEARCHES if each[0] not in FAMILIES or each[0] in FAST[::5]]),
)
def test_log_probabilities_are_near_those_of_float32(family: str, search: Any) -> None:
    """A search finds outputs in bfloat16. Its scores and forced scores are near the forced scores in float32."""
    exact, fast = pair(family)
    source = sources(all_lengths(family))
    with autocast("bfloat16", CPU)():
        found = [hypotheses[0] for hypotheses in search(fast, source)]
        target = padded(found)
        forced = search.force(fast, source, target)
    for own in (forced, found):
        assert gap(own, search.force(exact, source, target)) < NEAR
