"""What commands write: a source and its hypotheses as lines of text, of TSV or of JSON (docs/output.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from transduce.errors import UserError
from transduce.rows import one_line

if TYPE_CHECKING:
    from transduce.outputs import Output

    Writer = Callable[[str, list[Output]], Iterator[str]]


def as_text(source: str, outputs: list[Output]) -> Iterator[str]:
    for output in outputs:
        yield " ||| ".join([one_line(output.text), *_places(output)])


def as_log_prob(source: str, outputs: list[Output]) -> Iterator[str]:
    for output in outputs:
        yield f"{output.log_prob:.6f}"


def as_tsv(source: str, outputs: list[Output]) -> Iterator[str]:
    for output in outputs:
        yield "\t".join([one_line(source), f"{output.score:.6f}", one_line(output.text), *_places(output)])


def as_jsonl(source: str, outputs: list[Output]) -> Iterator[str]:
    """{"source", and of the best hypothesis "text", "tokens", "log_prob", "score", "token_log_probs"; "nbest": all of
    them, best first}."""
    nbest = [
        {
            "text": output.text,
            "tokens": output.tokens,
            "log_prob": output.log_prob,
            "score": output.score,
            "token_log_probs": output.token_log_probs,
            **({} if output.alignment is None else {"alignment": output.alignment}),
            **({} if output.frames is None else {"frames": output.frames}),
            **({"missing": output.missing} if output.missing else {}),
        }
        for output in outputs
    ]
    yield as_json({"source": source, **nbest[0], "nbest": nbest})


def as_json(record: Any, indent: int | None = None) -> str:
    """A value as JSON, which has no infinities: null stands for a number that is not finite."""
    return json.dumps(_finite(record), ensure_ascii=False, indent=indent, allow_nan=False)


PREDICTIONS: dict[str, Writer] = {"text": as_text, "tsv": as_tsv, "jsonl": as_jsonl}
SCORES: dict[str, Writer] = {"text": as_log_prob, "tsv": as_tsv, "jsonl": as_jsonl}


def choose(format: str, writers: Mapping[str, Writer]) -> Writer:
    """The writer of what ``--format`` names."""
    if format not in writers:
        raise UserError(f"--format {format!r}: expected {', '.join(writers)}")
    return writers[format]


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _places(output: Output) -> list[str]:
    """Where it was asked for, source and target word of each link, 0-0 1-2 2-1; first and last frame of each token."""
    asked = [pairs for pairs in (output.alignment, output.frames) if pairs is not None]
    return [" ".join(f"{one}-{other}" for one, other in pairs) for pairs in asked]
