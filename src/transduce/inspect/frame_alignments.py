"""When each token of an output was said: its frames in the most probable alignment of a finished output (CTC).

B outputs, S frames.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from transduce.ctc.lattice import Lattice, Span
from transduce.data.windows import sorted_batches, windows
from transduce.errors import UserError
from transduce.outputs import Output
from transduce.protocols import Framewise, can
from transduce.transducer import Transducer
from transduce.types import Padded


@dataclass(frozen=True)
class FrameAlignment:
    """An output, with its ``frames`` in it, among the ``count`` frames of its source.

    ``log_prob`` is that of this one alignment, at most the output's own, which is of all. Where the source has too few
    frames for the output it is minus infinity, and there are no ``frames``.
    """

    output: Output
    count: int
    log_prob: float

    @property
    def frames(self) -> tuple[Span, ...]:
        return self.output.frames or ()

    def checked(self) -> FrameAlignment:
        """Itself; ValueError where the output has no alignment."""
        if self.log_prob == -math.inf:
            raise UserError(
                f"{self.output.text!r}: its {len(self.output.ids) - 1} tokens have no alignment with the {self.count} "
                "frames of the source; give a shorter output, or train with a larger model.stretch"
            )
        return self

    def seconds(self, step: float) -> list[tuple[float, float]]:
        """When each token begins and ends, where a frame takes ``step`` seconds."""
        return [(step * first, step * (last + 1)) for first, last in self.frames]

    def path(self, blank: str = "-") -> list[str]:
        """The symbol of each frame."""
        symbols = [blank] * self.count
        for token, (first, last) in zip(self.output.tokens, self.frames, strict=False):
            symbols[first : last + 1] = [token] * (last + 1 - first)
        return symbols


def placed(
    transducer: Transducer, answers: Iterable[tuple[str, Sequence[Output]]], batch_size: int = 64
) -> Iterator[list[FrameAlignment]]:
    """For each source with its outputs, as ``Transducer.predict`` or ``score`` gave them, where these are in it, in
    order.

    Raises ValueError where the model has no frames; an output for which there are too few of them is nowhere.
    """
    check_framewise(transducer.model)

    def answer(batch: list[tuple[Any, Output]]) -> Iterator[FrameAlignment]:
        sources, outputs = zip(*batch, strict=True)
        lattice = _lattice(transducer, sources, outputs)
        counts, totals = lattice.frames.tolist(), lattice.best()[1].tolist()
        return map(_placed, outputs, lattice.spans(), counts, totals)

    for window in windows(answers, batch_size, transducer.ahead):
        sources = transducer.reread([source for source, _ in window])
        rows = [
            (len(row), (row, output)) for row, (_, outputs) in zip(sources, window, strict=True) for output in outputs
        ]
        found = iter(sorted_batches(rows, batch_size, partial(map, answer)))
        for _, outputs in window:
            yield [next(found) for _ in outputs]


def aligned(transducer: Transducer, source: str, output: Output) -> Lattice:
    """All alignments of an output with the frames of its source."""
    check_framewise(transducer.model)
    return _lattice(transducer, transducer.reread([source]), [output])


def check_framewise(model: Any) -> None:
    """Raise ValueError for a model that has no frames."""
    if not can(type(model), Framewise):
        raise UserError(
            f"this {type(model).__name__} has no frames, so there is no saying when a token was written; models of "
            'alignments have them: model.type = "ctc" or "joint-ctc"'
        )


@torch.inference_mode()
def _lattice(transducer: Transducer, sources: Sequence[Any], outputs: Sequence[Output]) -> Lattice:
    """All alignments of each output with the frames of its source, ids, in float64."""
    frames = transducer.model.frames(transducer.padded(sources))
    target = transducer.padded([list(output.ids) for output in outputs], torch.long)
    return Lattice.of(Padded(frames.values.double(), frames.lengths), Padded(target.values[:, :-1], target.lengths - 1))


def _placed(output: Output, spans: tuple[Span, ...] | None, count: int, log_prob: float) -> FrameAlignment:
    if spans is None:
        return FrameAlignment(replace(output, frames=()), count, -math.inf)
    return FrameAlignment(replace(output, frames=spans), count, log_prob)
