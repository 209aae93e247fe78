"""An answer: its request, the outputs as text, and the parts of the request that could not be met."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Protocol

from transduce.answers.request import Request
from transduce.answers.shares import Shares, telling
from transduce.core.config import Table
from transduce.core.errors import UserError
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.unknown import Unknown
from transduce.search.constraints.phrases import Constraints
from transduce_engine.phrases import Lexicon, alternatives_text

if TYPE_CHECKING:  # it imports PyTorch
    from transduce.answers.derivations import Derived

log = logging.getLogger("transduce")


class ProtectedSpan(Protocol):
    """A part of the source that does not change. ``place`` is where the output has it, None if it is lost. ``values``
    are for JSON.
    """

    @property
    def place(self) -> tuple[int, int] | None: ...

    @property
    def values(self) -> Mapping[str, object]: ...


@dataclass(frozen=True)
class Output:
    """One hypothesis as text, with its tokens and the model's log-probabilities (natural logarithm).

    ``tokens`` ends with ``</s>``. ``log_prob`` is the sum of ``token_log_probs``. ``score`` is the value that the
    search or a reranker ranked by. An output of a phrase-based model has no probability: its ``log_prob`` is None, and
    ``derived`` says how it was written.

    Only a scored target has ``best_log_probs`` and ``right``. ``best_log_probs`` is the log-probability of the model's
    first choice at each position, given the target's tokens before it. ``right`` says whether that choice is the
    target's token. Both leave out an end that follows from the source: it is not a choice.

    ``alignment``, if requested, has pairs of indices (source word, output word). ``frames``, if requested of a CTC
    model, has the indices of the first and the last frame of each token except the end. Both are None if they were not
    requested. ``missing`` has the required phrases that the output lacks, each with its alternatives. ``spans``, if
    requested, has the protected spans of the source (``KeptSpan`` of the wing protection) and their places in ``text``.
    The tokens belong to the model, which has read and written the text without them.

    ``deviations`` has the standard deviation of each number of a forecast, in the units of ``text``. It is empty if the
    model gives none. The log-probabilities of numbers are log-densities, in the same units.

    ``cut_at`` is the number of tokens at which the search ended the output, because its ``max_length`` or a length
    filter allows no more. It is None if the model ended the output.
    """

    text: str
    tokens: tuple[str, ...]
    log_prob: float | None
    score: float
    token_log_probs: tuple[float, ...]
    best_log_probs: tuple[float, ...] = ()
    right: tuple[bool, ...] = ()
    ids: tuple[int, ...] = ()  # of the tokens
    alignment: tuple[tuple[int, int], ...] | None = None
    frames: tuple[tuple[int, int], ...] | None = None
    missing: tuple[tuple[str, ...], ...] = ()
    deviations: tuple[float, ...] = ()
    derived: Derived | None = None
    cut_at: int | None = None
    spans: tuple[ProtectedSpan, ...] | None = None

    @property
    def lost(self) -> list[ProtectedSpan]:
        """The protected spans of the source that the output does not have."""
        return [span for span in self.spans or () if span.place is None]

    def interval(self, level: float = 0.9) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The lower and the upper ends of the central intervals that hold each number with probability ``level``.

        Both are in the units and the order of ``text``. Raises UserError if the model gave no deviations, or if
        ``level`` is not between 0 and 1.
        """
        if not self.deviations:
            raise UserError(
                "this output has no deviations, so it has no intervals: only models of densities over numbers give "
                'them, such as model.type = "kalman" or "density-forecaster"'
            )
        if not 0 < level < 1:
            raise UserError(f"level = {level}: more than 0 and less than 1 was expected")
        reach = NormalDist().inv_cdf((1 + level) / 2)
        numbers = [float(number) for step in self.text.split() for number in step.split(",")]
        ends = [(y - reach * s, y + reach * s) for y, s in zip(numbers, self.deviations, strict=True)]
        low, high = zip(*ends, strict=True)
        return low, high


@dataclass(frozen=True)
class Truncation:
    """A source of ``length`` tokens or steps (``unit``), of which the model read only ``limit``. Tokens include EOS."""

    length: int
    limit: int
    unit: str = "tokens"

    def __str__(self) -> str:
        return f"has {self.length} {self.unit} and is cut to data.lines.max_source_length = {self.limit}"


@dataclass(frozen=True)
class Unsatisfied:
    """The constraints that the best output breaks, where no output satisfies all of them.

    ``missing``: the required phrases that it lacks, each with its alternatives. ``forbidden``: the forbidden phrases
    that it contains.
    """

    missing: tuple[tuple[str, ...], ...]
    forbidden: tuple[str, ...]

    def __str__(self) -> str:
        problems = [
            *(f"with {alternatives_text(alternatives)}" for alternatives in self.missing),
            *(f"without {phrase!r}" for phrase in self.forbidden),
        ]
        return f"no output {' and '.join(problems)} was found; a larger beam may find one"


@dataclass(frozen=True)
class Answer:
    """The outputs for a request, best first.

    ``truncated`` is set if the source was too long and was cut. ``unsatisfied`` is set if no output satisfies the
    constraints: then ``outputs`` has only the best of those found. ``unknown`` counts the tokens of the source that are
    not in the model's vocabulary. ``unknown_target`` counts such tokens of a target that was scored, or of the prefix.
    ``problem`` says why the request could not be answered, with the number of the input: then there are no outputs.
    """

    request: Request
    outputs: Sequence[Output]
    truncated: Truncation | None = None
    unsatisfied: Unsatisfied | None = None
    unknown: Unknown = field(default_factory=Unknown)
    unknown_target: Unknown = field(default_factory=Unknown)
    problem: str = ""

    @property
    def best(self) -> Output:
        """The first output."""
        return self.outputs[0]

    def satisfying(self, constraints: Constraints, lexicon: Lexicon) -> Answer:
        """The answer with only the outputs that satisfy the constraints. If none does, it has only the best output, and
        ``unsatisfied`` says why. The outputs have their ``missing`` phrases.
        """
        outputs = [replace(each, missing=constraints.missing(lexicon, each.ids)) for each in self.outputs]
        forbidden = [constraints.unwanted(lexicon, each.ids) for each in outputs]
        right = [each for each, phrases in zip(outputs, forbidden, strict=True) if not (each.missing or phrases)]
        if right:
            return replace(self, outputs=right)
        return replace(self, outputs=outputs[:1], unsatisfied=Unsatisfied(outputs[0].missing, forbidden[0]))

    def warnings(self, number: int) -> list[str]:
        """Messages about what could not be met: a source that was cut, constraints that no output satisfies, protected
        spans that the best output lacks, a request that could not be answered.

        They name the source by its ``number``, counted from 1.
        """
        messages = [self.problem] if self.problem else []
        if self.truncated is not None:
            messages.append(f"input {number} {self.truncated}")
        if self.unsatisfied is not None:
            messages.append(f"input {number}: {self.unsatisfied}")
        messages += [f"input {number}: {span}" for output in self.outputs[:1] for span in output.lost]
        return messages

    def log(self, number: int) -> None:
        """Logs the ``warnings``."""
        for message in self.warnings(number):
            log.warning(message)

    def add_to(self, shares: Shares) -> None:
        """Adds this answer to ``shares``, in place."""
        shares.asked += 1
        shares.unanswered += bool(self.problem)
        shares.input.add(self.unknown)
        (shares.prefixes if self.request.target is None else shares.targets).add(self.unknown_target)
        if self.outputs:
            shares.outputs.add(self.best.cut_at)


def with_warnings(answers: Iterable[Answer], first: int = 1) -> Iterator[Answer]:
    """Yields the same answers, and logs each one's warnings, for callers that show only the outputs. The answers are
    numbered from ``first``. It logs the warnings about all of them together (``Shares``) at the end.
    """
    with telling() as shares:
        for number, answer in enumerate(answers, first):
            answer.log(number)
            answer.add_to(shares)
            yield answer


class ReadsLines(Protocol):
    """What commands need of a model to read its inputs: a ``Transducer``, or an export that runs without PyTorch."""

    @property
    def source_tokenizer(self) -> Tokenizer: ...

    @property
    def settings(self) -> Table: ...


class LightModel(ReadsLines, Protocol):
    """An export that runs without PyTorch, with the search of its run."""

    @property
    def leads(self) -> bool:
        """True if it can write outputs that begin with a prefix, and outputs with phrases or without them."""
        ...

    def resized(self, size: int | None = None, nbest: int | None = None) -> LightModel: ...

    def answer(self, requests: Iterable[Request], batch_size: int = 64, tolerant: bool = False) -> Iterator[Answer]: ...
