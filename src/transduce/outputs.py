"""What comes out of a transducer, as people read it: hypotheses as text, and predictions that were measured."""

from __future__ import annotations

from dataclasses import dataclass, replace

from transduce.metrics.statistics import Statistics
from transduce.types import Prediction


@dataclass(frozen=True)
class Output:
    """One hypothesis as people read it: its text, its tokens as written, and the model's log-probabilities.

    ``tokens`` has the closing ``</s>``; ``log_prob`` sums ``token_log_probs`` (natural logarithm); ``score`` is what
    the search ranked by. If the target was given, ``best_log_probs`` are the log-probabilities of the model's first
    choice in each place, given the target's tokens before it. ``right`` says whether that choice is the target's token.
    An end that follows from the source is no choice, so both leave it out. ``alignment``, where it was
    asked for, has pairs of a source word and a word of the text that was written from it, both counted from 0;
    ``frames``, of a model of alignments, the first and the last frame of each token but the end, counted from 0.
    ``missing`` are the required phrases that it lacks, each with its alternatives.
    """

    text: str
    tokens: tuple[str, ...]
    log_prob: float
    score: float
    token_log_probs: tuple[float, ...]
    best_log_probs: tuple[float, ...] = ()
    right: tuple[bool, ...] = ()
    ids: tuple[int, ...] = ()  # of the tokens
    alignment: tuple[tuple[int, int], ...] | None = None
    frames: tuple[tuple[int, int], ...] | None = None
    missing: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """The predictions for some examples, each metric's statistics of them, and how long the search for them took, text
    in to text out (``seconds``). ``lengths`` are those of the sources, in tokens or steps; ``forced``, where that was
    asked for, the first references with the model's probability of them."""

    statistics: list[Statistics]
    predictions: list[Prediction]
    seconds: float
    lengths: list[int]
    forced: list[Output]

    @property
    def scores(self) -> dict[str, float]:
        """By the names of the metrics."""
        return {each.name: each.score for each in self.statistics}


def prediction(output: Output | None, given: Output | None) -> Prediction:
    """What was found, where something was searched for, and what the model makes of a reference that was given."""
    found = Prediction("") if output is None else Prediction(output.text, output.log_prob)
    if given is None:
        return found
    right = given.right
    return replace(found, forced_log_prob=given.log_prob, forced_length=len(right), forced_right=sum(right))
