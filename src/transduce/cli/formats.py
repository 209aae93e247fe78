"""What commands write: a source and its hypotheses as lines of text, of TSV or of JSON (docs/output.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transduce.transducer import Output

    Writer = Callable[[str, list[Output]], Iterator[str]]


def as_text(source: str, outputs: list[Output]) -> Iterator[str]:
    for output in outputs:
        links = "" if output.alignment is None else f" ||| {_pharaoh(output)}"
        yield f"{one_line(output.text)}{links}"


def as_log_prob(source: str, outputs: list[Output]) -> Iterator[str]:
    for output in outputs:
        yield f"{output.log_prob:.6f}"


def as_tsv(source: str, outputs: list[Output]) -> Iterator[str]:
    for output in outputs:
        links = "" if output.alignment is None else f"\t{_pharaoh(output)}"
        yield f"{one_line(source)}\t{output.score:.6f}\t{one_line(output.text)}{links}"


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
            **({"missing": output.missing} if output.missing else {}),
        }
        for output in outputs
    ]
    yield json.dumps({"source": source, **nbest[0], "nbest": nbest}, ensure_ascii=False)


PREDICTIONS: dict[str, Writer] = {"text": as_text, "tsv": as_tsv, "jsonl": as_jsonl}
SCORES: dict[str, Writer] = {"text": as_log_prob, "tsv": as_tsv, "jsonl": as_jsonl}


def choose(format: str, writers: Mapping[str, Writer]) -> Writer:
    """The writer of what ``--format`` names."""
    if format not in writers:
        raise ValueError(f"--format {format!r}: expected {', '.join(writers)}")
    return writers[format]


def _pharaoh(output: Output) -> str:
    """Source and target word of each link: 0-0 1-2 2-1."""
    return " ".join(f"{source}-{target}" for source, target in output.alignment or ())


def one_line(text: str) -> str:
    """What would break the rows of the output made a space."""
    return text.replace("\t", " ").replace("\r", " ").replace("\n", " ")
