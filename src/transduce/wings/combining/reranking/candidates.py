"""Outputs of another program for the same sources, to be reranked together with the model's own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transduce.answers.answer import Answer, Output
from transduce.answers.batches import window_size, windows
from transduce.answers.request import Request
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.data import corpora
from transduce.metrics.units import one_line


@dataclass(frozen=True)
class CandidateLists:
    """The n-best lists of another program, as a feature of ``reranking.loglinear``. ``scores`` has the outputs of each
    source with their scores; higher is better.

    Scores may lack a term that is the same for all outputs of a source, as a joint model's lack log p(x). An output
    that is not listed for its source gets the source's least finite score, or 0 if there is none. Sources and outputs
    are compared as ``predict`` writes them (``one_line``).
    """

    scores: Mapping[str, Mapping[str, float]]

    @classmethod
    def read(cls, path: Path) -> CandidateLists:
        """Reads lines of source, score and output, separated by tabs, as ``predict --format tsv`` writes them.

        An output that is listed twice for a source keeps its better score. A score of minus infinity is allowed. Raises
        UserError for an empty file, and for any other line, which the message names.
        """
        scores: dict[str, dict[str, float]] = {}
        for number, line in enumerate(corpora.text_lines(path), 1):
            source, score, output = _parse_row(f"{path}, line {number}", line)
            of_source = scores.setdefault(source, {})
            of_source[output] = max(score, of_source.get(output, -math.inf))
        if not scores:
            raise UserError(f"{path} is empty: lines of a source, a score and an output were expected")
        return cls(scores)

    def __call__(self, pairs: Sequence[tuple[str, Output]]) -> list[float]:
        least = {source: _lowest_score(self.of(source)) for source, _ in pairs}
        return [self.of(source).get(one_line(output.text), least[source]) for source, output in pairs]

    def of(self, source: str) -> Mapping[str, float]:
        """The outputs listed for a source, with their scores; empty if the source is not listed."""
        return self.scores.get(one_line(source), {})


def with_candidates(
    transducer: Transducer, answers: Iterable[Answer], candidates: Sequence[CandidateLists], batch_size: int = 64
) -> Iterator[Answer]:
    """Yields each answer with further outputs appended: those that ``candidates`` list for its source and it lacks.

    The model scores the appended outputs: they get its tokens, and its log-probability as ``log_prob`` and ``score``.
    """
    for window in windows(answers, window_size(batch_size)):
        others = [_new_outputs(answer, candidates) for answer in window]
        requests = [
            Request(answer.request.source, target=text)
            for answer, texts in zip(window, others, strict=True)
            for text in texts
        ]
        scored = transducer.answer(requests, None, batch_size)
        for answer, texts in zip(window, others, strict=True):
            more = [replace(next(scored).best, text=text) for text in texts]
            yield replace(answer, outputs=[*answer.outputs, *more])


def _lowest_score(listed: Mapping[str, float]) -> float:
    """The score of an output that is not listed: the least finite one, or 0 if there is none.

    An impossible output, with minus infinity, says nothing about the others.
    """
    return min((score for score in listed.values() if math.isfinite(score)), default=0.0)


def _new_outputs(answer: Answer, candidates: Sequence[CandidateLists]) -> list[str]:
    """The texts that the candidate lists have for an answer's source and that are not among the answer's outputs."""
    listed = dict.fromkeys(text for each in candidates for text in each.of(answer.request.source))
    known = {one_line(output.text) for output in answer.outputs}
    return [text for text in listed if text not in known]


def _parse_row(where: str, line: str) -> tuple[str, float, str]:
    columns = line.split("\t")
    try:
        source, score, output = columns
        value = float(score)
    except ValueError:
        value = math.nan
    if not value < math.inf:
        raise UserError(
            f"{where}: {line!r} has no source, score and output, tab-separated, such as 'knowledge<tab>-0.52<tab>N AA "
            "L AH JH', as `transduce predict --format tsv` writes them"
        )
    return source, value, output
