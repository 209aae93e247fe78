"""The cut of a source and an output into units by a joint n-gram model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from transduce.answers.answer import Output
from transduce.errors import UserError
from transduce.metrics.units import columns, padded
from transduce.protocols import Model, can
from transduce.statistical.cut import Cut
from transduce.transducer import Transducer

NOTHING = "-"  # shown for an empty output piece


class Segmental(Model, Protocol):
    """The contract of models that cut a source and an output into units, and sum over all ways to do so.

    ``cut`` takes the ids of both sides without their end tokens. It returns the most probable way to cut them, or None
    if there is none.
    """

    def cut(self, source: Sequence[int], target: Sequence[int]) -> Cut | None: ...


@dataclass(frozen=True)
class UnitReading:
    """An output and its most probable cut into units.

    ``pieces`` has a pair (source piece, output piece) as text for each unit; either may be empty. ``log_prob`` is the
    joint log-probability of source and output with this cut. ``output.log_prob`` is conditional on the source.
    """

    output: Output
    pieces: list[tuple[str, str]]
    log_prob: float

    def lines(self) -> list[str]:
        """Three lines: the source's pieces, the output's pieces aligned below them, and the two log-probabilities."""
        shown = [(source, target or NOTHING) for source, target in self.pieces]
        widths = [max(map(columns, unit)) for unit in shown]
        rows = ["  ".join(map(padded, row, widths)).rstrip() for row in zip(*shown, strict=True)]
        return [*rows, f"log p {self.output.log_prob:.3f} given the source, {self.log_prob:.3f} of both, cut so"]


def units(transducer: Transducer, source: str, target: str | None = None) -> UnitReading:
    """The units of ``source`` and ``target``, by default the model's own best output.

    Raises UserError if the model has no units, or if its units cannot make up both source and target.
    """
    if not can(type(transducer.model), Segmental):
        raise UserError(
            f"this {type(transducer.model).__name__} has no units; a model of pieces side by side has them: "
            'model.type = "joint-ngram"'
        )
    output = next(transducer.predict([source]))[0] if target is None else next(transducer.score([(source, target)]))
    tokenizer, model = transducer.source_tokenizer, transducer.model
    ids = transducer.read([source])[0].row
    found = model.cut(ids[:-1], output.ids[:-1])
    if found is None:
        raise UserError(f"{source!r} cannot be read as {output.text!r}: no units of the model make up both")
    pieces = [(tokenizer.decode(one), transducer.target_tokenizer.decode(other)) for one, other in found.pieces]
    return UnitReading(output, pieces, found.log_prob)
