"""How a model of units reads a source as an output: the pieces of either side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from transduce.errors import UserError
from transduce.metrics.units import columns, padded
from transduce.outputs import Output
from transduce.protocols import Model, can
from transduce.statistical.cut import Cut
from transduce.transducer import Transducer

NOTHING = "-"  # beside a piece of the source that nothing is written for


class Segmental(Model, Protocol):
    """A distribution over outputs through the ways to cut source and output into units; ``cut`` is the most probable
    of them, without the ends, or None where there is none."""

    def cut(self, source: Sequence[int], target: Sequence[int]) -> Cut | None: ...


@dataclass(frozen=True)
class UnitReading:
    """An output and its most probable cut: of each unit the source's piece and the output's, which may be empty.

    ``log_prob`` is of source and output together, cut in this way; that of the output given the source is its own.
    """

    output: Output
    pieces: list[tuple[str, str]]
    log_prob: float

    def lines(self) -> list[str]:
        """Two lines, unit by unit under each other, and the probabilities."""
        shown = [(source, target or NOTHING) for source, target in self.pieces]
        widths = [max(map(columns, unit)) for unit in shown]
        rows = ["  ".join(map(padded, row, widths)).rstrip() for row in zip(*shown, strict=True)]
        return [*rows, f"log p {self.output.log_prob:.3f} given the source, {self.log_prob:.3f} of both, cut so"]


def units(transducer: Transducer, source: str, target: str | None = None) -> UnitReading:
    """Of ``target`` or, without one, of the model's own output. ValueError where the model has no units, or no way to
    read the source as the target."""
    if not can(type(transducer.model), Segmental):
        raise UserError(
            f"this {type(transducer.model).__name__} has no units; a model of pieces side by side has them: "
            'model.type = "joint-ngram"'
        )
    output = next(transducer.predict([source]))[0] if target is None else next(transducer.score([(source, target)]))
    tokenizer, model = transducer.source_tokenizer, transducer.model
    (ids,) = transducer.reread([source])
    found = model.cut(ids[:-1], output.ids[:-1])
    if found is None:
        raise UserError(f"{source!r} cannot be read as {output.text!r}: no units of the model make up both")
    pieces = [(tokenizer.decode(one), transducer.target_tokenizer.decode(other)) for one, other in found.pieces]
    return UnitReading(output, pieces, found.log_prob)
