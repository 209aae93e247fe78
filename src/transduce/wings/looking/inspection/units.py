"""The cut of a source and an output into units by a joint n-gram model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from transduce.answers.answer import Output
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.protocols import Mixed, Model, can
from transduce.core.registry import model_name
from transduce.metrics.units import columns, padded
from transduce.wings.counted.segmentation import Cut

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

    ``pieces`` has a pair (source piece, output piece) as text for each unit; either may be empty. ``probabilities`` has
    the probability of each unit given the units before it, and of the end. ``log_prob`` is the joint log-probability
    of source and output with this cut. ``output.log_prob`` is conditional on the source.
    """

    output: Output
    pieces: list[tuple[str, str]]
    probabilities: tuple[float, ...]
    log_prob: float

    def rows(self) -> list[tuple[str, str, str]]:
        """For each unit its source piece, its output piece and its probability, as text."""
        return [
            (source, target or NOTHING, f"{p:.2g}")
            for (source, target), p in zip(self.pieces, self.probabilities, strict=False)
        ]

    def lines(self) -> list[str]:
        """Four lines: the source's pieces, the output's pieces and the units' probabilities aligned below them, and the
        two log-probabilities.
        """
        shown = self.rows()
        widths = [max(map(columns, unit)) for unit in shown]
        rows = ["  ".join(map(padded, row, widths)).rstrip() for row in zip(*shown, strict=True)]
        return [*rows, f"log p {self.output.log_prob:.3f} given the source, {self.log_prob:.3f} of both, cut so"]


def units(transducer: Transducer, source: str, target: str | None = None) -> UnitReading:
    """The units of ``source`` and ``target``, by default the model's own best output. A mixture has the units of its
    joint n-gram model.

    Raises UserError if the model has no units, or if its units cannot make up both source and target.
    """
    model = next((part for part in mixed_parts(transducer.model) if can(type(part), Segmental)), None)
    if model is None:
        raise UserError(
            f"this {model_name(type(transducer.model))} model has no units; a model of pieces side by side has them: "
            'model.type = "joint-ngram"'
        )
    output = next(transducer.predict([source]))[0] if target is None else next(transducer.score([(source, target)]))
    tokenizer = transducer.source_tokenizer
    ids = transducer.read([source])[0].row
    found = model.cut(ids[:-1], output.ids[:-1])
    if found is None:
        raise UserError(f"{source!r} cannot be read as {output.text!r}: no units of the model make up both")
    pieces = [(tokenizer.decode(one), transducer.target_tokenizer.decode(other)) for one, other in found.pieces]
    return UnitReading(output, pieces, tuple(map(math.exp, found.log_probs)), found.log_prob)


def mixed_parts(model: Any) -> Iterator[Any]:
    """The model, and if it mixes others, these and their parts."""
    yield model
    if can(type(model), Mixed):
        for part in model.used():
            yield from mixed_parts(part)
