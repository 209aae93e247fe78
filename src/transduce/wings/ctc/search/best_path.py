"""Greedy search among alignments. B sources, S frames."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from transduce.core.errors import UserError
from transduce.core.protocols import Framewise
from transduce.core.types import EOS, PAD, Hypothesis, Padded
from transduce.wings.ctc.paths import collapse
from transduce.wings.ctc.search.forcing import check_no_prefix, force, scored, writable


@dataclass(frozen=True)
class BestPath:
    """The output of the most probable alignment. It is not always the most probable output, because the probability of
    another output may be spread over more alignments (Graves et al. 2006, section 3.2).

    ``score`` is the log-probability of this alignment alone. ``log_prob`` is the log-probability of the output, over
    all its alignments. An output has no ``<unk>``, unless ``unknown`` is True. Raises UserError for a prefix.
    """

    ends_freely: ClassVar[bool] = True

    unknown: bool = False

    @torch.inference_mode()
    def __call__(self, model: Framewise, source: Padded, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        check_no_prefix(prefix)
        frames = model.frames(source)
        best = writable(frames, self.unknown).values.max(-1)
        scores = best.values.double().masked_fill(~frames.mask, 0.0).sum(1).tolist()
        paths = zip(best.indices.tolist(), frames.lengths.tolist(), strict=True)
        outputs = [collapse(path[:length], PAD) for path, length in paths]
        hypotheses = scored(frames, ended(outputs, frames.lengths.device))
        return [[replace(h, score=score)] for h, score in zip(hypotheses, scores, strict=True)]

    def force(self, model: Framewise, source: Padded, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> BestPath:
        if (nbest or 1) > 1 or (size or 1) > 1:
            raise UserError(
                f"size = {size or 1}, nbest = {nbest or 1}: there is one best path; "
                'set search.type = "prefix-beam" or "beam"'
            )
        return self


def ended(outputs: list[tuple[int, ...]], device: torch.device) -> Padded:
    """Outputs as padded rows that end with EOS."""
    return Padded.of([(*output, EOS) for output in outputs]).to(device)
