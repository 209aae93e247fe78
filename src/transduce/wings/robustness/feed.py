"""Batches of texts that training changes: from ids to texts, and back to ids. B rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.random import Generator
from torch import Tensor

from transduce.core.errors import DataError, UserError
from transduce.core.types import UNK, Batch, Padded
from transduce.data.base import Feed
from transduce.data.batching import Place
from transduce.data.pairs import Pairs
from transduce.data.preparation import Tokenizers
from transduce.data.settings import Lines
from transduce.data.tokenizers.base import Sourced, Tokenizer
from transduce.training.augmentation import MOST, generators
from transduce.wings.robustness.base import TextAugmentation, TextPair
from transduce.wings.robustness.pieces import Cut, SampledPieces

Ids = Sequence[int]
SURVEYED = 256  # pairs that are changed before training begins, to tell how many cannot be


@dataclass(frozen=True)
class Varied:
    """The ids of both sides of some pairs. ``stays`` is the number of pairs whose texts changed and whose changed texts
    cannot be learned, so that their ids are the old ones.
    """

    sources: list[Ids]
    targets: list[Ids]
    changed: int
    stays: int


@dataclass(frozen=True)
class Variation:
    """Applies ``kinds``, one after the other, to pairs that are given as ids. A side gets new ids if its text changed.

    A pair stays as it is if its ids do not say its text (they have unknown tokens), or if the changed texts are empty,
    have unknown tokens, or are against ``lines``: too long, or of unequal lengths where target tokens are labels.
    """

    kinds: Sequence[TextAugmentation]
    tokenizers: Tokenizers
    lines: Lines
    seed: int

    def __call__(self, sources: Sequence[Ids], targets: Sequence[Ids], ids_B: Tensor, epoch: int) -> Varied:
        both = self.tokenizers.both
        old = [TextPair(*texts) for texts in zip(*map(_decoded, both, (sources, targets)), strict=True)]
        new = old
        for place, kind in enumerate(self.kinds):
            new = kind(new, generators(ids_B, epoch, self.seed * MOST + place))
        chances = generators(ids_B, epoch, self.seed * MOST + len(self.kinds))
        kept = list(sources), list(targets)
        differing = [row for row, pair in enumerate(new) if pair != old[row]]
        sides = [
            self._encoded(number, side, [(old[row], new[row], (sources, targets)[number][row]) for row in differing])
            for number, side in enumerate(("source", "target"))
        ]
        stays = 0
        for row, source, target in zip(differing, *sides, strict=True):
            if source is None or target is None or not self._fits(source, target):
                stays += 1
            else:
                kept[0][row], kept[1][row] = source, target
        self._cut_anew(kept, chances)
        return Varied(*kept, len(differing), stays)

    def _encoded(self, number: int, side: str, rows: Sequence[tuple[TextPair, TextPair, Ids]]) -> list[Ids | None]:
        """The ids of the new texts of one side. None for a text that has unknown tokens now or had some before."""
        tokenizer = self.tokenizers.both[number]
        changed = [place for place, (old, new, _) in enumerate(rows) if getattr(old, side) != getattr(new, side)]
        texts = [getattr(pair, side) for place in changed for pair in rows[place][:2]]
        ids = _encoded(tokenizer, texts)
        found: list[Ids | None] = [row for *_, row in rows]
        for place, before, after in zip(changed, ids[::2], ids[1::2], strict=True):
            known = before == found[place] and after is not None and UNK not in after
            good = known and bool(getattr(rows[place][1], side).strip())
            found[place] = after if good else None
        return found

    def _fits(self, source: Ids, target: Ids) -> bool:
        lengths = [each.length(ids) for each, ids in zip(self.tokenizers.both, (source, target), strict=True)]
        short = len(source) <= self.lines.max_source_length and len(target) <= self.lines.max_target_length
        return short and (not self.lines.token_for_token or lengths[0] == lengths[1])

    def _cut_anew(self, kept: tuple[list[Ids], list[Ids]], chances: Sequence[Generator]) -> None:
        """Cuts the words of some rows into other pieces, in place."""
        limits = self.lines.max_source_length, self.lines.max_target_length
        for share, cutters in self.cutters:
            for row, chance in enumerate(chances):
                if chance.random() >= share:
                    continue
                for rows, tokenizer, cutter, limit in zip(kept, self.tokenizers.both, cutters, limits, strict=True):
                    if cutter is not None and UNK not in rows[row]:
                        cut = cutter(tokenizer.decode(rows[row]), chance)
                        rows[row] = cut if len(cut) <= limit and UNK not in cut else rows[row]

    @cached_property
    def cutters(self) -> list[tuple[float, list[Cut | None]]]:
        """The share of the rows that each kind of sampled pieces cuts, and its function for each side, or None."""
        return [
            (
                kind.share,
                [
                    kind.cutter(tokenizer) if kind.cuts(side, tokenizer) else None
                    for side, tokenizer in zip(("source", "target"), self.tokenizers.both, strict=True)
                ],
            )
            for kind in self.kinds
            if isinstance(kind, SampledPieces)
        ]


@dataclass(frozen=True)
class VariedTexts:
    """A feed whose batches have changed texts, anew in each epoch. The change of a pair depends on the seed, the epoch
    and the pair; of joined pairs also on its batch. All processes change a batch before they divide it.
    """

    feed: Feed
    variation: Variation

    @property
    def per_epoch(self) -> int:
        return self.feed.per_epoch

    def iterate(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        for batch, after in self.feed.iterate(place):
            rows = (_rows(batch.source), _rows(batch.target))
            varied = self.variation(*rows, batch.ids, after.epoch)
            yield replace(batch, source=Padded.of(varied.sources), target=Padded.of(varied.targets)), after


def varied_texts(
    feed: Feed, kinds: Sequence[TextAugmentation], tokenizers: Tokenizers, lines: Lines, seed: int
) -> VariedTexts:
    """The feed with changed texts."""
    return VariedTexts(feed, Variation(kinds, tokenizers, lines, seed))


def check_texts(
    kinds: Sequence[TextAugmentation], tokenizers: Tokenizers, lines: Lines, pairs: Pairs, seed: int
) -> tuple[str, ...]:
    """A line for people if some of the changed pairs cannot be learned, from the first ``SURVEYED`` pairs. Raises
    UserError if the source is no plain text, and if no changed pair can be learned.
    """
    chosen = np.linspace(0, len(pairs) - 1, min(SURVEYED, len(pairs))).astype(np.int64)
    batch = pairs.batch(np.unique(chosen))
    if not (tokenizers.conditional and _plain(tokenizers.source, batch.source)):
        raise UserError(
            "training.augmentation, or training.robust: it changes texts, and the source of this run is "
            f"{'no plain text' if tokenizers.conditional else 'absent'}: leave it out"
        )
    found = Variation(kinds, tokenizers, lines, seed)(_rows(batch.source), _rows(batch.target), batch.ids, 0)
    if not found.stays:
        return ()
    why = "they would have unknown tokens, or be too long"
    if found.stays == found.changed:
        raise UserError(
            f"training.augmentation: none of {found.changed:,} changed pairs can be learned, because {why}: set "
            "data.units.source to text that knows such letters (lowercase = true for capitals, bytes for all)"
        )
    share = found.stays / found.changed
    return (f"augmentation: {share:.0%} of the changed pairs stay as they are, because {why}",)


def _plain(source: Tokenizer, rows: Padded) -> bool:
    """True if the ids of at least one row say the text of the source. A signal and a series have no text. Labels and
    features before a text hide it.
    """
    if source.numeric or source.factors > 1 or source.columns > 1:
        return False
    ids = _rows(rows)
    return any(before == after for before, after in zip(ids, _encoded(source, _decoded(source, ids)), strict=True))


def _encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Ids | None]:
    """The ids of each text; None for a text that the tokenizer cannot read, such as a word without its features."""
    try:
        return tokenizer.encode(texts) if texts else []
    except DataError:
        if len(texts) == 1:
            return [None]
    return [ids for text in texts for ids in _encoded(tokenizer, [text])]


def _rows(side: Padded) -> list[list[int]]:
    return [row[:length] for row, length in zip(side.values.tolist(), side.lengths.tolist(), strict=True)]


def _decoded(tokenizer: Tokenizer, rows: Sequence[Ids]) -> list[str]:
    """The text of each row; empty for a side that is not text by itself."""
    if tokenizer.numeric or tokenizer.factors > 1 or isinstance(tokenizer, Sourced):
        return [""] * len(rows)
    return [tokenizer.decode(row) for row in rows]
