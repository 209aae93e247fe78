"""The links of one pair of texts by a word aligner."""

from __future__ import annotations

from dataclasses import dataclass

from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.protocols import Aligner, can
from transduce.core.registry import model_name
from transduce.metrics.units import columns, padded
from transduce.wings.alignment.attention_weights import AttentionChoice
from transduce.wings.alignment.corpus import CorpusAlignment

NO_LINK = "-"


@dataclass(frozen=True)
class LinkReading:
    """The alignment ``found`` of one pair, in both directions if the aligner has both."""

    found: CorpusAlignment

    def lines(self) -> list[str]:
        """The links in Pharaoh format, then a line for each target word with the source words that it is linked with.

        The number after a source word is the link's probability, the mean of the directions that were computed. A
        target word without a link has a hyphen.
        """
        (written,) = self.found.links.write()
        source, target = self.found.words(0)
        weights, links = self.found.weights(0), self.found.links.of_pair(0)
        width = max(map(columns, target), default=0)
        rows = []
        for place, word in enumerate(target):
            linked = [f"{source[s]} {weights[place][s]:.2f}" for s, t in links if t == place]
            rows.append(f"{padded(word, width)}  {', '.join(linked) or NO_LINK}")
        return [written, *rows]


def links(transducer: Transducer, source: str, target: str | None, head: int | None = None) -> LinkReading:
    """The links of the pair (``source``, ``target``) by a word aligner, symmetrised if it has both directions.

    Raises UserError without a ``target``, because a word aligner writes no target. Raises it for a ``head``, because a
    word aligner has no attention. Also raises it for a model that is no word aligner.
    """
    kind = type(transducer.model)
    if not can(kind, Aligner):
        raise UserError(f"this {model_name(kind)} model is no word aligner")
    if target is None:
        raise UserError(f"this {model_name(kind)} model aligns two given texts: give the second one with --target")
    return LinkReading(transducer.align([(source, target)], choice=AttentionChoice(head=head)))
