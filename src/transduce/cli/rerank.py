"""``transduce rerank``: reranks a model's outputs with other models or a metric."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli import formats, inputs
from transduce.cli.options import BatchSize, BeamSize, Files, RunOptions
from transduce.errors import UserError

if TYPE_CHECKING:
    from transduce.reranking.base import Reranker
    from transduce.reranking.candidates import CandidateLists
    from transduce.reranking.loglinear import Feature
    from transduce.transducer import Transducer

Weighted = list[str] | None
CHOICE = 16  # outputs per source to choose from, unless --nbest or --beam says otherwise

log = logging.getLogger("transduce")


@dataclass(frozen=True)
class RankingOptions:
    """How to rank outputs: by minimum Bayes risk (``--mbr``), or by a weighted sum of features.

    The features are log-probabilities of models, the search's score, the coverage, the length, and lists of candidates.
    """

    mbr: Annotated[str | None, typer.Option(help="Minimum Bayes risk by this metric: chrf, bleu, cer, ...")] = None
    posterior: Annotated[
        bool, typer.Option("--posterior", help="With --mbr: weigh by probability, for outputs of a beam.")
    ] = False
    channel: Annotated[
        Weighted, typer.Option(help="A model of the opposite direction, p(x|y), and its weight.", metavar="RUN=1.0")
    ] = None
    language_model: Annotated[Weighted, typer.Option(help="A model of p(y).", metavar="RUN=1.0")] = None
    direct: Annotated[Weighted, typer.Option(help="Another model of p(y|x).", metavar="RUN=1.0")] = None
    candidates: Annotated[
        Weighted,
        typer.Option(help="Outputs of another program for the same lines (source, score, output).", metavar="FILE=1.0"),
    ] = None
    own: Annotated[float, typer.Option(help="The weight of the model's own log-probability.")] = 1.0
    score: Annotated[float, typer.Option(help="The weight of the search's own score, by search.ranking.")] = 0.0
    coverage: Annotated[float, typer.Option(help="The weight of the attention coverage (Wu et al. 2016).")] = 0
    length: Annotated[float, typer.Option(help="The weight of the number of tokens.")] = 0.0

    def reranker(
        self,
        transducer: Transducer,
        candidates: list[tuple[CandidateLists, float]],
        batch_size: int,
        load: Callable[[str], Transducer],
    ) -> Reranker:
        from transduce.metrics.base import metric
        from transduce.reranking.loglinear import LogLinear
        from transduce.reranking.risk import MinimumRisk

        if self.mbr is not None:
            return MinimumRisk(metric(self.mbr), "posterior" if self.posterior else "uniform")
        return LogLinear((*self._features(transducer, batch_size, load), *candidates))

    def check(self) -> None:
        """Raises UserError if there is no criterion, if ``--mbr`` is mixed with weights, or if an option has no effect.

        ``--score`` with ``--candidates`` is an error too, because outputs of other programs have no score of the
        search.
        """
        models = bool(self.channel or self.language_model or self.direct or self.candidates)
        weighed = models or bool(self.length or self.score or self.coverage)
        if self.mbr is not None and weighed:
            raise UserError(
                "--mbr ranks by a metric; --channel, --language-model, --direct and --candidates rank by models: give "
                "one kind"
            )
        if self.mbr is not None and self.own != 1:
            raise UserError(
                f"--own {self.own:g} is a weight for ranking by models, and --mbr ranks by a metric: give one kind"
            )
        if self.candidates and self.score:
            raise UserError(
                "--score is the search's own score, and outputs of --candidates have none: use --own for their "
                "log-probability, and --length for their length"
            )
        if self.mbr is None and self.posterior:
            raise UserError("--posterior sets the weights of --mbr: give --mbr METRIC too, or leave it out")
        if self.mbr is None and not weighed:
            raise UserError(
                "nothing to rank by: give --mbr METRIC, or --channel, --language-model or --direct RUN, "
                "--candidates FILE, or --coverage"
            )

    def _features(
        self, transducer: Transducer, batch_size: int, load: Callable[[str], Transducer]
    ) -> Iterator[tuple[Feature, float]]:
        from transduce.reranking.coverage import Coverage
        from transduce.reranking.loglinear import Channel, Direct, Language, LengthFeature, Own, Score

        yield Own(), self.own
        yield Score(), self.score
        yield Coverage(transducer, batch_size), self.coverage
        yield LengthFeature(), self.length
        kinds: list[tuple[Callable[[Transducer, int], Feature], Weighted]] = [
            (Channel, self.channel),
            (Language, self.language_model),
            (Direct, self.direct),
        ]
        for kind, runs in kinds:
            for given in runs or []:
                run, weight = _path_and_weight(given, "a run directory and its weight", "runs/model=0.5")
                model = load(run)
                if kind is Language and model.conditional:
                    log.warning("--language-model %s was trained with sources; here it gets an empty source", run)
                yield kind(model, batch_size), weight

    def candidate_lists(self) -> list[tuple[CandidateLists, float]]:
        """The outputs of other programs (``--candidates``): one pair (lists, weight) for each file."""
        from transduce.reranking.candidates import CandidateLists

        named = [_path_and_weight(given, "a file and its weight", "found.tsv=0.5") for given in self.candidates or []]
        return [(CandidateLists.read(Path(file)), weight) for file, weight in named]


def rerank(
    trained: RunOptions,
    criteria: RankingOptions,
    files: Files = None,
    nbest: Annotated[
        int | None, typer.Option(min=1, help="Outputs per source to choose from; 16, or --beam if that is less.")
    ] = None,
    beam: BeamSize = None,
    keep: Annotated[int, typer.Option(min=1, help="Outputs per source to write.")] = 1,
    batch_size: BatchSize = 64,
    format: Annotated[
        str, typer.Option(help="text (one line per output), tsv (source, score, text) or jsonl.")
    ] = "text",
) -> None:
    """Write the best of several outputs for each input line. The rank is by minimum Bayes risk, or by a weighted sum of
    models' scores, coverage and length.
    """
    from transduce.answers.answer import with_warnings
    from transduce.reranking.base import rerank as ranked
    from transduce.runs.loading import load

    write = formats.choose(format, formats.PREDICTIONS)
    criteria.check()
    if nbest is not None and beam is not None and nbest > beam:
        raise UserError(f"--nbest {nbest}: a beam of --beam {beam} finds at most {beam} outputs; raise --beam")
    if criteria.candidates and trained.shortlist:
        raise UserError(
            "--shortlist leaves words out, so outputs of --candidates may have no probability: give one of the two"
        )
    transducer = trained.load(beam)
    candidates = criteria.candidate_lists()
    same: dict[str, Any] = {"checkpoint": trained.checkpoint, "precision": trained.precision}
    load_another = functools.partial(load, device=str(transducer.device), **same)
    reranker = criteria.reranker(transducer, candidates, batch_size, load_another)
    search = transducer.search.resized(beam, nbest or min(CHOICE, beam or CHOICE))
    lines = inputs.lines(files, inputs.longest_line(transducer))
    found = ranked(transducer, lines, reranker, search, batch_size, [lists for lists, _ in candidates])
    for answer in with_warnings(found):
        for line in write(replace(answer, outputs=answer.outputs[:keep])):
            print(line, flush=batch_size == 1)


def _path_and_weight(given: str, expected: str, example: str) -> tuple[str, float]:
    """The path and the weight of "PATH=0.5". A text without "=", or that is itself an existing path, has the weight 1.

    Raises UserError if the weight is no number; ``expected`` and ``example`` are words for its message.
    """
    path, equals, number = given.rpartition("=")
    if not equals or Path(given).exists():
        return given, 1.0
    try:
        return path, float(number)
    except ValueError:
        raise UserError(f"{given!r}: {expected} were expected, such as {example}") from None
