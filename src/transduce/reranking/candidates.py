"""What another program found for the same sources, to choose among beside a model's own outputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transduce.data import corpora
from transduce.data.windows import windows
from transduce.errors import UserError
from transduce.outputs import Output
from transduce.rows import one_line
from transduce.transducer import Transducer


@dataclass(frozen=True)
class CandidateLists:
    """The n best of another program: of each source the outputs and their scores, the higher the better.

    A feature of ``reranking.loglinear``. Scores may lack a term that is the same for all outputs of a source, as those
    of a joint model lack log p(x). An output that is not in the list has the least finite score of its source; where
    the list has nothing of a source, all of its outputs have 0. Sources are told apart as ``predict`` writes them
    (``one_line``).
    """

    scores: Mapping[str, Mapping[str, float]]

    @classmethod
    def read(cls, path: Path) -> CandidateLists:
        """From lines of a source, a score and an output, tab-separated, as ``predict --format tsv`` writes them.

        The better score of an output that is listed twice; ValueError names the first line that is none of these.
        """
        scores: dict[str, dict[str, float]] = {}
        for number, line in enumerate(corpora.lines(path), 1):
            source, score, output = _parsed(f"{path}, line {number}", line.decode(errors="replace"))
            of_source = scores.setdefault(source, {})
            of_source[output] = max(score, of_source.get(output, -math.inf))
        if not scores:
            raise UserError(f"{path} is empty: lines of a source, a score and an output were expected")
        return cls(scores)

    def __call__(self, pairs: Sequence[tuple[str, Output]]) -> list[float]:
        least = {source: _least(self.of(source)) for source, _ in pairs}
        return [self.of(source).get(one_line(output.text), least[source]) for source, output in pairs]

    def of(self, source: str) -> Mapping[str, float]:
        """What the list has of a source."""
        return self.scores.get(one_line(source), {})


def beside(
    transducer: Transducer,
    found: Iterable[tuple[str, Sequence[Output]]],
    candidates: Sequence[CandidateLists],
    batch_size: int = 64,
) -> Iterator[tuple[str, list[Output]]]:
    """Each source with what was found for it and, behind that, what the ``candidates`` have besides.

    These have the tokens and the log-probability that the model gives them, which is their ``score``, too.
    """
    for window in windows(found, batch_size):
        others = [_others(source, outputs, candidates) for source, outputs in window]
        pairs = [(source, text) for (source, _), texts in zip(window, others, strict=True) for text in texts]
        scored = transducer.score(pairs, batch_size)
        for (source, outputs), texts in zip(window, others, strict=True):
            yield source, [*outputs, *(replace(next(scored), text=text) for text in texts)]


def _least(listed: Mapping[str, float]) -> float:
    """The score of what is not listed: an output that is impossible says nothing of others."""
    return min((score for score in listed.values() if math.isfinite(score)), default=0.0)


def _others(source: str, outputs: Sequence[Output], candidates: Sequence[CandidateLists]) -> list[str]:
    listed = dict.fromkeys(text for each in candidates for text in each.of(source))
    known = {one_line(output.text) for output in outputs}
    return [text for text in listed if text not in known]


def _parsed(where: str, line: str) -> tuple[str, float, str]:
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
