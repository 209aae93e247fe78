"""Compares an exported model with PyTorch's on sample sources: their outputs, and the log-probabilities of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.answers.answer import Output
from transduce.errors import UserError
from transduce.transducer import Transducer

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
