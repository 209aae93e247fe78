"""An answer as values for JSON: what ``predict --format jsonl`` writes and what a server sends."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transduce.answers.answer import Answer, Output
    from transduce.data.unknown import Unknown


def answer_values(answer: Answer) -> dict[str, object]:
    """The answer as a dictionary: "source", the keys of the best output, and "nbest", a list of all outputs, best
    first.

    An output has "text", "tokens", "log_prob", "score" and "token_log_probs". It has "alignment" and "frames" if
    requested, "missing" if it lacks required phrases, "spans" if protected spans are requested, and "cut_at" if the
    search ended it. A forecast with a density has the "deviations" of its numbers and the ends "low" and "high" of
    their 90 % intervals. An output of a phrase-based model has the "features" of its score and its "phrases"; its
    "log_prob" is None. The first object of "nbest" repeats the best output. "unknown", if the source has tokens that
    the model does not know, has their number ("count"), the number of all tokens, and the first few; "unknown_target"
    is the same for a scored target or a prefix. A request that could not be answered has "source" and "error" alone.
    """
    if answer.problem:
        return {"source": answer.request.source, "error": answer.problem}
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
            **({} if output.spans is None else {"spans": [span.values for span in output.spans]}),
            **({} if output.cut_at is None else {"cut_at": output.cut_at}),
            **_density(output),
            **_phrases(output),
        }
        for output in answer.outputs
    ]
    told = unknown_values(answer.unknown, answer.unknown_target)
    return {"source": answer.request.source, **nbest[0], **told, "nbest": nbest}


def unknown_values(source: Unknown, target: Unknown) -> dict[str, object]:
    """The unknown tokens of a source ("unknown") and of a target or prefix ("unknown_target"); without those that have
    none.
    """
    both = {"unknown": source, "unknown_target": target}
    return {
        name: {"count": found.count, "tokens": found.tokens, "first": found.first}
        for name, found in both.items()
        if found
    }


def json_text(value: object, indent: int | None = None) -> str:
    """A value as JSON text. JSON has no infinities and no NaN: a number that is not finite becomes null."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    except (TypeError, ValueError):  # seldom, and a copy of each value takes twice the time of the text
        return json.dumps(_finite(value), ensure_ascii=False, indent=indent, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _density(output: Output) -> dict[str, object]:
    if not output.deviations:
        return {}
    low, high = output.interval(0.9)
    return {"deviations": output.deviations, "low": low, "high": high}


def _phrases(output: Output) -> dict[str, object]:
    if output.derived is None:
        return {}
    return {"features": output.derived.features, "phrases": [vars(phrase) for phrase in output.derived.phrases]}
