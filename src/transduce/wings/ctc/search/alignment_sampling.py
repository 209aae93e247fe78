"""Sampling of outputs through their alignments. B sources, K samples of each, N = B * K rows, S frames."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Framewise
from transduce.core.types import PAD, Hypothesis, Padded
from transduce.search import random_numbers
from transduce.search.base import resized
from transduce.search.sampling import drawn
from transduce.wings.ctc.paths import collapse
from transduce.wings.ctc.search.best_path import BestPath, ended
from transduce.wings.ctc.search.forcing import check_no_prefix, force, scored, writable


@dataclass(frozen=True)
class AlignmentSampling:
    """Draws ``size`` outputs by drawing a symbol for each frame, and returns the ``nbest`` with the highest ``score``
    (default: all).

    Frames are independent, so this draws exactly from p(y | x), and much faster than token by token. Symbols that no
    output has are not drawn: ``<unk>`` is one of them unless ``unknown`` is True. An output that is drawn twice is
    returned twice. ``score`` and ``log_prob`` are log p(y | x), over all alignments. The samples of a source depend on
    ``seed`` and on the source, not on the batch. Raises UserError for a prefix.
    """

    ends_freely: ClassVar[bool] = True

    size: int = 1
    nbest: int | None = None
    seed: int = 1
    unknown: bool = False

    def __post_init__(self) -> None:
        if not 1 <= (self.nbest or 1) <= self.size:
            raise UserError(f"nbest = {self.nbest}, size = {self.size}: of n samples come 1 to n hypotheses")

    def quick(self) -> BestPath:
        """The quickest relative of this search."""
        return BestPath()

    @torch.inference_mode()
    def __call__(self, model: Framewise, source: Padded, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        check_no_prefix(prefix)
        frames = tree.repeat(model.frames(source), self.size)
        key_N = random_numbers.keys(source, self.seed, self.size)
        steps = enumerate(writable(frames, self.unknown).values.exp().unbind(1))
        symbol_NS = torch.stack([drawn(p_NV, random_numbers.uniform(key_N, t)) for t, p_NV in steps], 1)
        paths = zip(symbol_NS.tolist(), frames.lengths.tolist(), strict=True)
        outputs = [collapse(path[:length], PAD) for path, length in paths]
        found = [replace(h, score=h.log_prob) for h in scored(frames, ended(outputs, key_N.device))]
        rows = [found[first : first + self.size] for first in range(0, len(found), self.size)]
        return [sorted(row, key=lambda h: -h.score)[: self.nbest] for row in rows]

    def force(self, model: Framewise, source: Padded, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> AlignmentSampling:
        return resized(self, size, nbest)
