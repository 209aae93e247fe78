"""Connectionist temporal classification, alone or with cross-entropy. B rows, S frames, V symbols."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Carry, Framewise, Joint, S
from transduce.core.types import Batch, Loss, Padded
from transduce.data.pairs import Pairs
from transduce.data.unknown import share_text
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.wings.ctc.lattice import least_frames, log_likelihood
from transduce.wings.ctc.unaligned_pairs import frame_counts, unaligned
from transduce.wings.ctc.unaligned_pairs import least_frames as least_frames_of

log = logging.getLogger("transduce")

CTCS = ("torch", "transduce")
MORE_FRAMES = (
    'raise model.stretch, lower the encoder\'s strides, or, if training.augmentation shortens sources ("stretch"), '
    "lower its most"
)
OR_SKIP = '; or skip such pairs: objective.impossible = "skip" (in joint training objective.ctc.impossible)'


@dataclass(frozen=True)
class CTCLikelihood:
    """The objective of CTC models: - log p(y | x), where p sums over all alignments (Graves et al. 2006). Reports
    ``nll``, and ``skipped``, the number of pairs without an alignment.

    A pair has no alignment if its output needs more frames than its source has. An output needs one frame for each
    symbol, and one for the blank between equal neighbours. The loss of the pair would be infinite. If ``impossible`` is
    "error", the loss raises a UserError that names the pair's row in the data. If it is "skip", these pairs are left
    out. ``check`` tells how many there are before training, and refuses to train if no pair is left. A line in the
    log (level info) has their number in each batch, and one of them. ``by`` chooses the
    implementation: "torch", or "transduce", which is slower and easier to read (``ctc.lattice``).
    """

    impossible: Literal["error", "skip"] = "error"
    by: Literal["torch", "transduce"] = "torch"

    def __post_init__(self) -> None:
        if self.impossible not in ("error", "skip"):
            raise UserError(f'impossible = "{self.impossible}": "error" or "skip" was expected')
        if self.by not in CTCS:
            raise UserError(f'by = "{self.by}": "torch" or "transduce" was expected')

    def __call__(
        self, model: Framewise, batch: Batch, progress: float = 0.0, carry: Carry = None
    ) -> tuple[Loss, Carry]:
        return self.of(model.frames(batch.source), batch), carry

    def check(self, model: Framewise, splits: Mapping[str, Pairs]) -> list[str]:
        found = self.left_out(model, splits)
        if "train" in found and len(found["train"]) == len(splits["train"]):
            example = self._example(model, splits["train"], found["train"])
            raise UserError(f"CTC has no alignment for any pair of train: {example}; {MORE_FRAMES}")
        lines = [
            f"{split}: CTC leaves out {share_text(len(rows), len(splits[split]))} pairs, which need more frames than "
            f"their sources give: {self._example(model, splits[split], rows)}"
            for split, rows in found.items()
        ]
        return [*lines, *([f"for more frames {MORE_FRAMES}"] if found else [])]

    def left_out(self, model: Framewise, splits: Mapping[str, Pairs]) -> dict[str, NDArray[np.int64]]:
        """The indices of the pairs without an alignment, for each split that has some. Raises UserError for such a
        pair if the option ``impossible`` is "error".
        """
        found = {split: rows for split, pairs in splits.items() if len(rows := unaligned(model, pairs))}
        if self.impossible == "error" and found:
            split, rows = next(iter(found.items()))
            raise UserError(
                f"CTC has no alignment for {share_text(len(rows), len(splits[split]))} pairs of {split}: "
                f"{self._example(model, splits[split], rows)}; {MORE_FRAMES}{OR_SKIP}"
            )
        return found

    def _example(self, model: Framewise, pairs: Pairs, rows: NDArray[np.int64]) -> str:
        """Describes the first of these pairs, which have no alignment."""
        first = rows[:1]
        needed, given = int(least_frames_of(pairs.target.select(first))[0]), int(frame_counts(model, pairs, first)[0])
        return example_text(int(first[0]), int(pairs.target_lengths[first[0]]) - 1, needed, given)

    def of(self, frames: Padded, batch: Batch) -> Loss:
        """The loss of a batch, summed over the pairs that have an alignment. ``frames`` has its log-probabilities
        [B, S, V], with the number of real frames of each row.
        """
        outputs = Padded(batch.target.values, batch.target.lengths - 1)
        impossible_B = least_frames(outputs) > frames.lengths
        skipped = int(impossible_B.sum())
        if skipped:
            self._report_impossible(impossible_B, outputs, frames, batch)
            frames, outputs = tree.select((frames, outputs), (~impossible_B).nonzero()[:, 0])
        if skipped == len(impossible_B):
            total = frames.values.sum()  # the sum of no rows is 0, with a gradient of 0
        elif self.by == "torch":
            total = _by_torch(frames, outputs)
        else:
            total = -log_likelihood(frames, outputs).sum()
        count = int((outputs.lengths + 1).sum())  # EOS counts as a token, as in every objective
        return Loss(total, count, {"nll": total.detach()}, {"skipped": skipped})

    def _report_impossible(self, impossible_B: Tensor, outputs: Padded, frames: Padded, batch: Batch) -> None:
        """Reports the pairs without an alignment, where ``impossible_B`` is True. Raises UserError if the option
        ``impossible`` is "error"; otherwise logs how many pairs are skipped, and describes the first one.
        """
        skipped = int(impossible_B.sum())
        row = int(impossible_B.nonzero()[0])
        needed, given = int(least_frames(outputs)[row]), int(frames.lengths[row])
        example = example_text(int(batch.ids[row]), int(outputs.lengths[row]), needed, given)
        if self.impossible == "error":
            raise UserError(
                f"CTC has no alignment for {skipped} of {len(impossible_B)} pairs of a batch: {example}; {MORE_FRAMES}"
                f"{OR_SKIP}"
            )
        log.info("CTC skips %d of %d pairs of a batch: %s; %s", skipped, len(impossible_B), example, MORE_FRAMES)


def example_text(row: int, symbols: int, needed: int, given: int) -> str:
    """Describes a pair without an alignment."""
    return f"the pair of row {row} has {symbols} symbols and needs {needed} frames, but its source gives {given}"


def _by_torch(frames: Padded, outputs: Padded) -> Tensor:
    longest = int(outputs.lengths.max())
    return torch.nn.functional.ctc_loss(
        frames.values.transpose(0, 1), outputs.values[:, :longest], frames.lengths, outputs.lengths, reduction="sum"
    )


@dataclass(frozen=True)
class JointLikelihood:
    """The objective of models with CTC and attention: ``weight`` times the CTC loss plus (1 - ``weight``) times
    cross-entropy. Both read the same encoding (Kim et al. 2017, eq. 14).

    Reports ``nll``, the same mixture without smoothing, its unweighted terms ``ctc`` and ``attention`` without
    smoothing, and ``skipped``. CTC leaves out the skipped pairs; cross-entropy does not.
    """

    weight: float = 0.3
    ctc: CTCLikelihood = field(default_factory=CTCLikelihood)
    attention: CrossEntropy = field(default_factory=CrossEntropy)

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise UserError(f"weight = {self.weight}: the share of CTC in the loss, 0 to 1, was expected")

    def __call__(self, model: Joint[S], batch: Batch, progress: float = 0.0, carry: Carry = None) -> tuple[Loss, Carry]:
        frames, decoder, state = model.parts(batch.source)
        ctc = self.ctc.of(frames, batch)
        attention = self.attention.of(decoder, state, batch.target, progress)
        of_ctc = ctc.plain if ctc.count else torch.full_like(ctc.plain, math.nan)  # a mean over no pair
        parts = {"ctc": of_ctc, "attention": attention.plain}
        return Loss(
            self._mixed(ctc.total, attention.total),
            attention.count,
            {"nll": self._mixed(ctc.plain, attention.plain), **parts},
            ctc.tallies,
        ), carry

    def check(self, model: Joint[S], splits: Mapping[str, Pairs]) -> list[str]:
        return self.ctc.check(model, splits)

    def _mixed(self, ctc: Tensor, attention: Tensor) -> Tensor:
        return self.weight * ctc + (1 - self.weight) * attention
