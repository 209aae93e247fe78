"""Links of a corpus by IBM model 1 in both directions: rough, and ready in seconds."""

from __future__ import annotations

from transduce.data.pairs import Ragged
from transduce.wings.alignment.links import Heuristic, Links
from transduce.wings.counted.alignment.corpus import align_corpus
from transduce.wings.counted.alignment.position import Uniform


def quick_links(source: Ragged, target: Ragged, heuristic: Heuristic = "grow-diag-final-and", passes: int = 5) -> Links:
    """Links of all pairs by IBM model 1 (Brown et al. 1993, section 4.1), trained in both directions on the same pairs
    and then symmetrised by ``heuristic``.

    Both sides end with EOS, which is not linked. ``passes`` is the number of passes of expectation maximisation. A pair
    with an empty side gets no links.
    """
    return align_corpus(source, target, Uniform, passes, warm_up=0, agreement=False, heuristic=heuristic)
