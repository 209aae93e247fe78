"""Compares an exported model with PyTorch's on sample sources: their outputs and the log-probabilities of these, or
the scores of metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from transduce.answers.answer import Output
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.protocols import Metric
from transduce.core.types import Example

TOLERANCE = 1e-3  # largest difference of a token's log-probability, in float32


@dataclass(frozen=True)
class Parity:
    """How an export compares with PyTorch on ``sources`` sample sources.

    ``equal`` is the number of sources with the same output. ``ties`` is the number of sources with two different
    outputs whose log-probabilities differ by at most ``TOLERANCE``. PyTorch gives the log-probability of its own
    output, and the export of its own. ``largest`` is the largest difference of the log-probability of one token, over
    the tokens of PyTorch's outputs.
    """

    sources: int
    equal: int
    ties: int
    largest: float

    def __str__(self) -> str:
        return (
            f"{self.equal} of {self.sources} outputs are equal, and {self.ties} more are ties; the log-probability of "
            f"a token differs by at most {self.largest:.1e}"
        )


@dataclass(frozen=True)
class Quality:
    """How an export with other numbers, such as int8, compares with PyTorch in float32 on ``sources`` sample sources.

    ``scores`` has for each metric PyTorch's score and the export's. It is empty if the sources have no references.
    ``equal`` is the number of sources with the same output; None if every metric needs only the references.
    """

    sources: int
    equal: int | None
    scores: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [
            f"{name} {theirs:.2f} ({theirs - ours:+.2f} against float32)"
            for name, (ours, theirs) in self.scores.items()
        ]
        if self.equal is not None:
            parts.append(f"{self.equal} of {self.sources} outputs are equal")
        return ", ".join(parts)


def compare_quality(
    torch_model: Transducer, exported: Transducer, examples: Sequence[Example], metrics: Sequence[Metric]
) -> Quality:
    """How an export compares with PyTorch. Decodes the sources with both, each with the search of its transducer, and
    computes the metrics of the outputs. If an example has no reference, computes no metrics.
    """
    both = torch_model, exported
    if metrics and all(each.references for each in examples):
        ours, theirs = (each.evaluate(examples, metrics, told=False) for each in both)
        scores = {name: (score, theirs.scores[name]) for name, score in ours.scores.items()}
        texts = [[prediction.text for prediction in each.predictions] for each in (ours, theirs)]
        searched = not all(metric.needs_forcing for metric in metrics)
    else:
        scores, searched = {}, True
        texts = [[found[0].text for found in each.predict([example.source for example in examples])] for each in both]
    equal = sum(one == two for one, two in zip(*texts, strict=True)) if searched else None
    return Quality(len(examples), equal, scores)


def compare(torch_model: Transducer, exported: Transducer, sources: Sequence[str]) -> Parity:
    """How an export compares with PyTorch. Decodes the sources with both, each with the search of its transducer, and
    scores PyTorch's outputs with both.
    """
    ours, theirs = ([found[0] for found in each.predict(sources)] for each in (torch_model, exported))
    pairs = [(source, output.text) for source, output in zip(sources, ours, strict=True)]
    forced = [list(each.score(pairs)) for each in (torch_model, exported)]
    largest = max(
        (
            abs(a - b)
            for one, two in zip(*forced, strict=True)
            for a, b in zip(one.token_log_probs, two.token_log_probs, strict=True)
        ),
        default=0.0,
    )
    same = [one.ids == two.ids for one, two in zip(ours, theirs, strict=True)]
    ties = sum(not equal and _is_tie(*both) for equal, both in zip(same, zip(ours, theirs, strict=True), strict=True))
    return Parity(len(sources), sum(same), ties, largest)


def check(parity: Parity, engine: str) -> None:
    """Raises UserError if some outputs are neither equal nor ties, or if ``largest`` is more than ``TOLERANCE``."""
    if parity.equal + parity.ties < parity.sources or parity.largest > TOLERANCE:
        raise UserError(
            f"the export for {engine} does not compute what PyTorch does, so it was not kept: {parity} (at most "
            f"{TOLERANCE} was expected); predict with --engine torch, and please report the model's settings"
        )


def _is_tie(one: Output, two: Output) -> bool:
    return abs((one.log_prob or 0.0) - (two.log_prob or 0.0)) <= TOLERANCE
