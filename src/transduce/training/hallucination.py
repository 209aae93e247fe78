"""Invented words for training: the letters that source and target share are replaced by random letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.core.errors import UserError
from transduce.core.types import PAD, Batch, Padded
from transduce.training.augmentation import check_share, generators

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Hallucination:
    """Invents words in training batches, for tasks such as inflection, where a target repeats a part of its source
    (Anastasopoulos and Neubig 2019; Silfverberg et al. 2017).

    The stem of a pair has the tokens that source and target share: all runs of at least ``shortest`` equal tokens, in
    the same order. The longest run is found first (Ratcliff and Metzener 1988). Each token of the stem becomes a random
    token, the same on both sides, in a ``share`` of the pairs that is drawn anew in each epoch. So a model learns which
    endings belong to which features, and not to which stems. Random tokens are drawn uniformly from the tokens that
    both vocabularies have.

    ``copies`` has for each source id the target id of the same text, or PAD; the data give it. Raises UserError if
    ``share`` is not from 0 to 1, or ``shortest`` is below 1. A call raises UserError if source and target have no token
    in common.
    """

    copies: Sequence[int]
    share: float = 0.5
    shortest: int = 3

    def __post_init__(self) -> None:
        check_share("training.hallucination.share", self.share)
        if self.shortest < 1:
            raise UserError(f"training.hallucination.shortest = {self.shortest}: at least 1 token was expected")

    def __call__(self, batch: Batch, epoch: int, seed: int) -> Batch:
        """The batch with invented words. They depend only on the seed, the epoch and the example's id."""
        copy_V = np.asarray(self.copies, np.int64)
        letters = np.flatnonzero(copy_V)
        if not len(letters):
            raise UserError(
                "training.hallucination invents letters that source and target share, and they share none: remove it, "
                "or set data.units to text of one alphabet"
            )
        source, target = batch.source.values.numpy().copy(), batch.target.values.numpy().copy()
        for row, chance in enumerate(generators(batch.ids, epoch, seed)):
            if chance.random() < self.share:
                here, there = self._stem(copy_V[source[row]], target[row])
                drawn = letters[chance.integers(len(letters), size=len(here))]
                source[row, here], target[row, there] = drawn, copy_V[drawn]
        return replace(
            batch,
            source=Padded(torch.from_numpy(source), batch.source.lengths),
            target=Padded(torch.from_numpy(target), batch.target.lengths),
        )

    def _stem(self, copied_S: Ids, target_T: Ids) -> tuple[Ids, Ids]:
        """The indices of the stem's tokens in the source and in the target. ``copied_S`` are the target ids of the
        source's tokens, PAD for tokens that the target vocabulary lacks.
        """
        first, second = np.where(copied_S == PAD, -1, copied_S).tolist(), target_T.tolist()
        blocks = SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
        runs = [np.arange(block.size) for block in blocks if block.size >= self.shortest]
        starts = [(block.a, block.b) for block in blocks if block.size >= self.shortest]
        nothing = np.zeros(0, np.int64)
        here, there = ([run + start[side] for run, start in zip(runs, starts, strict=True)] for side in (0, 1))
        return np.concatenate([nothing, *here]), np.concatenate([nothing, *there])
