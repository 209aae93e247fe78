"""The word alignment of a corpus, from its own pairs."""

from __future__ import annotations

from collections.abc import Callable

from transduce.core.stages import counted
from transduce.data.pairs import Pairs, Ragged
from transduce.wings.alignment.links import Heuristic, Links
from transduce.wings.counted.alignment.estimation import TwoWayCounts
from transduce.wings.counted.alignment.jumps import Jumps
from transduce.wings.counted.alignment.position import Position
from transduce.wings.counted.alignment.two_ways import TwoWays


def align_corpus(
    source: Ragged,
    target: Ragged,
    position: Callable[[], Position] = Jumps,
    passes: int = 5,
    warm_up: int = 5,
    agreement: bool = True,
    prior: float = 0.0,
    heuristic: Heuristic = "grow-diag-final-and",
) -> Links:
    """The links of all pairs. One aligner for each direction learns from these pairs, and then both directions' links
    are symmetrised by ``heuristic``.

    Rows end with EOS, which is not linked. ``position`` makes the model of positions: ``Jumps`` (a hidden Markov model,
    the default), ``Fertility``, ``Uniform``, ``Absolute`` or ``Diagonal``. It is trained for ``passes`` passes over the
    pairs, after ``warm_up`` passes of IBM model 1. ``TwoWayCounts`` explains ``agreement`` and ``prior``. A pair with
    an empty side gets no links.

    Raises UserError if no pair has words on both sides.
    """
    counts = TwoWayCounts(TwoWays(position), Pairs(source, target), warm_up, agreement, prior)
    for _ in counted(range(passes), "passes"):
        counts.reestimate()
    return counts.links(heuristic)
