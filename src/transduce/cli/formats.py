"""The output formats of commands: an answer as lines of text, of TSV or of JSON (docs/output.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from transduce.answers.answer_values import answer_values, json_text
from transduce.core.errors import UserError
from transduce.metrics.units import one_line

if TYPE_CHECKING:
    from transduce.answers.answer import Answer, Output

    Writer = Callable[[Answer], Iterator[str]]


def as_text(answer: Answer) -> Iterator[str]:
    """A line for each output: its text, and its alignment and its frames if requested, separated by " ||| ". An empty
    line for a request that could not be answered.
    """
    if answer.problem:
        yield ""
    for output in answer.outputs:
        yield " ||| ".join([one_line(output.text), *_alignment_columns(output)])


def as_log_prob(answer: Answer) -> Iterator[str]:
    """A line for each output: its log-probability (natural logarithm) with six decimals. An empty line for a request
    that could not be answered.
    """
    if answer.problem:
        yield ""
    for output in answer.outputs:
        yield f"{output.log_prob:.6f}"


def as_tsv(answer: Answer) -> Iterator[str]:
    """A row for each output: source, score, text, and its alignment and its frames if requested. If spans are
    protected, the last column has those that the output lacks, with a space between them.

    The score is the one that the search ranked by; for a scored target it is the log-probability. The score and the
    text are empty for a request that could not be answered.
    """
    source = one_line(answer.request.source)
    if answer.problem:
        yield f"{source}\t\t"
    for output in answer.outputs:
        lost = [] if output.spans is None else [" ".join(one_line(str(span.values["text"])) for span in output.lost)]
        yield "\t".join([source, f"{output.score:.6f}", one_line(output.text), *_alignment_columns(output), *lost])


def as_jsonl(answer: Answer) -> Iterator[str]:
    """One JSON object on one line: the answer as ``answer_values`` in answers/answer_values.py describes it."""
    yield json_text(answer_values(answer))


def as_json(record: object, indent: int | None = None) -> str:
    """A value as JSON text. JSON has no infinities and no NaN: a number that is not finite becomes null."""
    return json_text(record, indent)


W = TypeVar("W")
PREDICTIONS: dict[str, Writer] = {"text": as_text, "tsv": as_tsv, "jsonl": as_jsonl}
SCORES: dict[str, Writer] = {"text": as_log_prob, "tsv": as_tsv, "jsonl": as_jsonl}


def choose(format: str, writers: Mapping[str, W]) -> W:
    """The function that writes answers in the format that ``--format`` names. ``writers`` has the functions by name.
    Raises UserError for a name that is not there.
    """
    if format not in writers:
        raise UserError(f"--format {format!r}: expected {', '.join(writers)}")
    return writers[format]


def _alignment_columns(output: Output) -> list[str]:
    """One string for the alignment and one for the frames, each only if requested.

    The alignment has "source word-output word" for each link: ``0-0 1-2 2-1``. The frames have "first-last" for each
    token.
    """
    requested = [pairs for pairs in (output.alignment, output.frames) if pairs is not None]
    return [" ".join(f"{one}-{other}" for one, other in pairs) for pairs in requested]
