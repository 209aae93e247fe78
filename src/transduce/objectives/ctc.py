"""What models of alignments minimise. B rows, S frames, V symbols."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from transduce import tree
from transduce.ctc.lattice import least_frames, log_likelihood
from transduce.errors import UserError
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.protocols import Framewise, Joint
from transduce.types import Batch, Loss, Padded

log = logging.getLogger("transduce")

CTCS = ("torch", "transduce")
MORE_FRAMES = (
    "raise model.stretch, shorten the encoder's strides, or, where training.augmentation makes sources shorter "
    '("stretch"), lower its most'
)


@dataclass(frozen=True)
class CTCLikelihood:
    """- log p(y | x), the sum over all alignments (Graves et al. 2006); ``nll``, and ``skipped``, how many pairs had
    none.

    An output of more symbols than its source has frames, a blank between equal ones included, has no alignment, and an
    infinite loss: ``impossible`` "error" raises a ValueError that names the pair, "skip" leaves it out and tells.
    ``by`` says who computes: "torch", or "transduce" (``ctc.lattice``, for reading).
    """

    impossible: Literal["error", "skip"] = "error"
    by: Literal["torch", "transduce"] = "torch"

    def __post_init__(self) -> None:
        if self.impossible not in ("error", "skip"):
            raise UserError(f'impossible = "{self.impossible}": "error" or "skip" was expected')
        if self.by not in CTCS:
            raise UserError(f'by = "{self.by}": "torch" or "transduce" was expected')

    def __call__(self, model: Framewise, batch: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        return self.of(model.frames(batch.source), batch), carry

    def of(self, frames: Padded, batch: Batch) -> Loss:
        """The loss of frames that are known already."""
        outputs = Padded(batch.target.values, batch.target.lengths - 1)
        impossible_B = least_frames(outputs) > frames.lengths
        skipped = int(impossible_B.sum())
        if skipped:
            self._tell(impossible_B, outputs, frames, batch)
            frames, outputs = tree.select((frames, outputs), (~impossible_B).nonzero()[:, 0])
        if skipped == len(impossible_B):
            total = frames.values.sum()  # of nothing, 0, with a gradient of 0
        elif self.by == "torch":
            total = _by_torch(frames, outputs)
        else:
            total = -log_likelihood(frames, outputs).sum()
        # the end counts as a token, as everywhere; a batch of impossible pairs alone as one, to be divided by
        count = int((outputs.lengths + 1).sum()) or 1
        return Loss(total, count, {"nll": total.detach(), "skipped": impossible_B.sum()})

    def _tell(self, impossible_B: Tensor, outputs: Padded, frames: Padded, batch: Batch) -> None:
        skipped = int(impossible_B.sum())
        row = int(impossible_B.nonzero()[0])
        needed, there = int(least_frames(outputs)[row]), int(frames.lengths[row])
        about = (
            f"the pair of row {int(batch.ids[row])}, of {int(outputs.lengths[row])} symbols, needs {needed} frames and "
            f"its source gives {there}"
        )
        if self.impossible == "error":
            raise UserError(
                f"CTC has no alignment for {skipped} of {len(impossible_B)} pairs of a batch: {about}; {MORE_FRAMES}; "
                'or leave such pairs out: objective.impossible = "skip", in joint training objective.ctc.impossible'
            )
        log.info(
            "CTC leaves out %d of %d pairs of a batch: %s; for none, %s", skipped, len(impossible_B), about, MORE_FRAMES
        )


def _by_torch(frames: Padded, outputs: Padded) -> Tensor:
    longest = int(outputs.lengths.max())
    return torch.nn.functional.ctc_loss(
        frames.values.transpose(0, 1), outputs.values[:, :longest], frames.lengths, outputs.lengths, reduction="sum"
    )


@dataclass(frozen=True)
class JointLikelihood:
    """``weight`` times the loss of CTC, and the rest of 1 times cross-entropy, of one encoding (Kim et al. 2017,
    eq. 14).

    ``nll`` mixes the two likelihoods alike; ``ctc`` and ``attention`` are its parts, without smoothing.
    """

    weight: float = 0.3
    ctc: CTCLikelihood = field(default_factory=CTCLikelihood)
    attention: CrossEntropy = field(default_factory=CrossEntropy)

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise UserError(f"weight = {self.weight}: the share of CTC in the loss, 0 to 1, was expected")

    def __call__(self, model: Joint[Any], batch: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        frames, decoder, state = model.parts(batch.source)
        ctc = self.ctc.of(frames, batch)
        attention = self.attention.of(decoder, state, batch.target, progress)
        parts = {"ctc": ctc.plain, "attention": attention.plain, "skipped": ctc.parts["skipped"]}
        return Loss(
            self._mixed(ctc.total, attention.total),
            attention.count,
            {"nll": self._mixed(ctc.plain, attention.plain), **parts},
        ), carry

    def _mixed(self, ctc: Tensor, attention: Tensor) -> Tensor:
        return self.weight * ctc + (1 - self.weight) * attention
