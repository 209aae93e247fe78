"""The frames of each token of an output, in the output's most probable alignment with its source (CTC).

B outputs, S frames.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import torch

from transduce.answers.answer import Answer, Output
from transduce.answers.batches import sorted_batches
from transduce.answers.text_model import TextModel
from transduce.core.errors import UserError
from transduce.core.protocols import Framewise, can
from transduce.core.registry import model_name
from transduce.core.types import Padded
from transduce.wings.ctc.lattice import Lattice, Span


@dataclass(frozen=True)
class FrameAlignment:
    """An output with the ``frames`` of its tokens, in its most probable alignment. Its source has ``count`` frames.

    ``log_prob`` is the log-probability of this one alignment. A model of type "ctc" sums over all alignments in
    ``output.log_prob``, which is at least as large. If the source has too few frames, ``log_prob`` is minus infinity
    and ``frames`` is empty.
    """

    output: Output
    count: int
    log_prob: float

    @property
    def frames(self) -> tuple[Span, ...]:
        return self.output.frames or ()

    def checked(self) -> FrameAlignment:
        """The same object; raises UserError if the output has no alignment."""
        if self.log_prob == -math.inf:
            raise UserError(
                f"{self.output.text!r}: its {len(self.output.ids) - 1} tokens have no alignment with the {self.count} "
                "frames of the source; give a shorter output, or train with a larger model.stretch"
            )
        return self

    def seconds(self, step: float) -> list[tuple[float, float]]:
        """The beginning and the end of each token except EOS in seconds, if a frame takes ``step`` seconds."""
        return [(step * first, step * (last + 1)) for first, last in self.frames]

    def path(self, blank: str = "-") -> list[str]:
        """The token that each of the ``count`` frames belongs to, or ``blank`` for a frame of no token. Without an
        alignment all are blank.
        """
        symbols = [blank] * self.count
        for token, (first, last) in zip(self.output.tokens, self.frames, strict=False):
            symbols[first : last + 1] = [token] * (last + 1 - first)
        return symbols


def frame_alignments(
    model: TextModel, answers: Sequence[Answer], rows: Sequence[Sized] | None = None, batch_size: int = 64
) -> list[list[FrameAlignment]]:
    """For each answer, in order, the most probable alignment of each of its outputs with the frames of its source.

    ``rows`` has the source of each answer as the model reads it; by default sources are read again. Raises UserError if
    the model has no frames. An output that has no alignment raises nothing here (``FrameAlignment.checked``).
    """
    check_framewise(model.model)
    if rows is None:
        rows = [source.row for source in model.read([answer.request.source for answer in answers])]
    each = [(len(row), (row, output)) for row, answer in zip(rows, answers, strict=True) for output in answer.outputs]
    found = iter(sorted_batches(each, batch_size, partial(map, partial(_batch_alignments, model))))
    return [[next(found) for _ in answer.outputs] for answer in answers]


def alignment_lattice(model: TextModel, answer: Answer) -> Lattice:
    """All alignments of an answer's best output with the frames of its source, as a lattice of one row.

    Raises UserError if the model has no frames.
    """
    check_framewise(model.model)
    return _lattice(model, [model.read([answer.request.source])[0].row], [answer.best])


def check_framewise(model: object) -> None:
    """Raises UserError for a model that has no frames."""
    if not can(type(model), Framewise):
        raise UserError(
            f"this {model_name(type(model))} model has no frames, so a token has no time; models that align "
            "outputs with frames "
            'have them: model.type = "ctc" or "joint-ctc"'
        )


def _batch_alignments(model: TextModel, batch: Sequence[tuple[Sized, Output]]) -> list[FrameAlignment]:
    sources, outputs = zip(*batch, strict=True)
    lattice = _lattice(model, sources, outputs)
    counts, log_probs = lattice.frames.tolist(), lattice.best()[1].tolist()
    return [*map(_frame_alignment, outputs, lattice.spans(), counts, log_probs)]


@torch.inference_mode()
def _lattice(model: TextModel, sources: Sequence[Sized], outputs: Sequence[Output]) -> Lattice:
    """All alignments of outputs with the frames of their sources, in float64. Output b is row b of the lattice."""
    with model.computing():
        frames = cast(Framewise, model.model).frames(model.padded(sources))
    target = model.padded([list(output.ids) for output in outputs], torch.long)
    return Lattice.of(Padded(frames.values.double(), frames.lengths), Padded(target.values[:, :-1], target.lengths - 1))


def _frame_alignment(output: Output, spans: tuple[Span, ...] | None, count: int, log_prob: float) -> FrameAlignment:
    if spans is None:
        return FrameAlignment(replace(output, frames=()), count, -math.inf)
    return FrameAlignment(replace(output, frames=spans), count, log_prob)
