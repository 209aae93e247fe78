"""The word alignment of a corpus of pairs: the verb *align*, of word aligners and of attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from transduce.answers.text_model import TextModel
from transduce.core.errors import UserError
from transduce.core.protocols import TwoWayAligner, can
from transduce.wings.alignment.alignments import EVERY, align_encoded, encode_pairs
from transduce.wings.alignment.attention_weights import AttentionChoice
from transduce.wings.alignment.links import Heuristic, Links, symmetrise
from transduce.wings.alignment.token_alignment import TokenAlignment, links_of

Direction = Literal["forward", "backward", Heuristic]
DIRECTIONS: tuple[str, ...] = ("forward", "backward", *get_args(Heuristic))


@dataclass(frozen=True)
class CorpusAlignment:
    """The links of a corpus of pairs, and the alignments that they come from.

    ``forward`` aligns each target word to source words, ``backward`` each source word to target words. So the source of
    a ``backward`` alignment is the pair's target. One of them is empty if the links need only the other.
    """

    links: Links
    forward: Sequence[TokenAlignment] = ()
    backward: Sequence[TokenAlignment] = ()

    def words(self, pair: int) -> tuple[list[str], list[str]]:
        """The source words and the target words of the pair with the index ``pair``."""
        if self.forward:
            return self.forward[pair].source.texts, self.forward[pair].target.texts
        return self.backward[pair].target.texts, self.backward[pair].source.texts

    @property
    def lengths(self) -> tuple[list[int], list[int]]:
        """The numbers of source words and of target words of each pair."""
        both = [self.words(pair) for pair in range(self.links.pairs)]
        return [len(source) for source, _ in both], [len(target) for _, target in both]

    def weights(self, pair: int) -> list[list[float]]:
        """How strong the link of each target word (rows) and source word (columns) of one pair is; the mean of both
        directions if there are both. The null word is left out.
        """
        found = [alignments[pair].words_VI[:, 1:] for alignments in (self.forward,) if alignments]
        found += [alignments[pair].words_VI[:, 1:].T for alignments in (self.backward,) if alignments]
        return torch.stack(found).mean(0).tolist()

    def record(self, pair: int) -> dict[str, object]:
        """One pair as values for JSON: its words, its links, and the weights of each direction that there is, with six
        decimals.

        ``forward`` has a list for each target word: the weight of the null word, then of each source word. ``backward``
        has a list for each source word: the weight of the null word, then of each target word.
        """
        source, target = self.words(pair)
        found: dict[str, object] = {"source": source, "target": target, "links": self.links.of_pair(pair)}
        for name, alignments in (("forward", self.forward), ("backward", self.backward)):
            if alignments:
                rows = alignments[pair].words_VI.tolist()
                found[name] = [[round(weight, 6) for weight in row] for row in rows]
        return found


def align(
    model: TextModel,
    pairs: Sequence[tuple[str, str]],
    direction: Direction | None = None,
    choice: AttentionChoice | None = None,
    batch_size: int = 64,
) -> CorpusAlignment:
    """The word alignment of pairs of a source and a target text by a trained model.

    ``direction`` is forward, backward, or a heuristic that combines both (``links.symmetrise``). The default is
    grow-diag-final-and for a ``TwoWayAligner``, and forward for any other model. ``choice`` chooses the attention of a
    model that is no word aligner. Raises UserError for a direction or an attention that the model does not have.
    """
    if direction is None:
        direction = "grow-diag-final-and" if can(type(model.model), TwoWayAligner) else "forward"
    if direction not in DIRECTIONS:
        raise UserError(f"direction = {direction!r}: one of {', '.join(DIRECTIONS)} was expected")
    encoded = encode_pairs(model, pairs)

    def one_way(turned: bool) -> list[TokenAlignment]:
        return [found for (found,) in align_encoded(model, encoded, [choice or EVERY], batch_size, turned)]

    forward = [] if direction == "backward" else one_way(turned=False)
    if direction == "forward":
        return CorpusAlignment(links_of(forward), forward)
    backward = one_way(turned=True)
    turned = links_of(backward).turned()
    if direction == "backward":
        return CorpusAlignment(turned, backward=backward)
    return CorpusAlignment(symmetrise(links_of(forward), turned, direction), forward, backward)
