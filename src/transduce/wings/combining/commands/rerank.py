"""``transduce rerank``: reranks a model's outputs with other models or a metric."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli import formats, inputs
from transduce.cli.options import BatchSize, BeamSize, Files, RunOptions
from transduce.cli.unanswered import Unanswered
from transduce.core.errors import UserError
from transduce.core.finite import finite_number

if TYPE_CHECKING:
    from transduce.answers.transducer import Transducer
    from transduce.wings.combining.reranking.base import Reranker
    from transduce.wings.combining.reranking.candidates import CandidateLists
    from transduce.wings.combining.reranking.criteria import Criteria

Weighted = list[str] | None
CHOICE = 16  # outputs per source to choose from, unless --nbest or --beam says otherwise


@dataclass(frozen=True)
class RankingOptions:
    """How to rank outputs: by minimum Bayes risk (``--mbr``), or by a weighted sum of features. An option that is not
    given has the value of the file ``--config``, or else its default.

    The features are log-probabilities of models, the search's score, the coverage, the length, and lists of candidates.
    """

    config: Annotated[
        Path | None,
        typer.Option(help="A TOML file with these options in a table [rerank]; options win.", metavar="FILE.toml"),
    ] = None
    mbr: Annotated[str | None, typer.Option(help="Minimum Bayes risk by this metric: chrf, bleu, cer, ...")] = None
    posterior: Annotated[
        bool | None,
        typer.Option("--posterior/--no-posterior", help="With --mbr: weigh by probability, for outputs of a beam."),
    ] = None
    channel: Annotated[
        Weighted, typer.Option(help="A model of the opposite direction, p(x|y), and its weight.", metavar="RUN=1.0")
    ] = None
    language_model: Annotated[Weighted, typer.Option(help="A model of p(y).", metavar="RUN=1.0")] = None
    direct: Annotated[Weighted, typer.Option(help="Another model of p(y|x).", metavar="RUN=1.0")] = None
    candidates: Annotated[
        Weighted,
        typer.Option(help="Outputs of another program for the same lines (source, score, output).", metavar="FILE=1.0"),
    ] = None
    own: Annotated[
        float | None, typer.Option(help="The weight of the model's own log-probability.", show_default="1.0")
    ] = None
    score: Annotated[
        float | None,
        typer.Option(help="The weight of the search's own score, by search.ranking.", show_default="0.0"),
    ] = None
    coverage: Annotated[
        float | None, typer.Option(help="The weight of the attention coverage (Wu et al. 2016).", show_default="0.0")
    ] = None
    length: Annotated[float | None, typer.Option(help="The weight of the number of tokens.", show_default="0.0")] = None
    nbest: Annotated[
        int | None, typer.Option(min=1, help="Outputs per source to choose from; 16, or --beam if that is less.")
    ] = None

    @property
    def given(self) -> bool:
        """True if any of these options is given."""
        return any(value is not None for value in vars(self).values())

    def criteria(self) -> Criteria:
        """The criteria of the options and of the file. Raises UserError if a value is wrong or has no effect."""
        from transduce.wings.combining.reranking.criteria import Criteria

        given = {name: value for name, value in vars(self).items() if value is not None and name != "config"}
        expected = "a run directory and its weight", "runs/model=0.5"
        for name in ("channel", "language_model", "direct"):
            if name in given:
                given[name] = dict(_path_and_weight(each, *expected) for each in given[name])
        if "candidates" in given:
            expected = "a file and its weight", "found.tsv=0.5"
            given["candidates"] = dict(_path_and_weight(each, *expected) for each in given["candidates"])
        return Criteria.read(self.config, given)


def rerank(
    trained: RunOptions,
    ranking: RankingOptions,
    files: Files = None,
    beam: BeamSize = None,
    keep: Annotated[int, typer.Option(min=1, help="Outputs per source to write.")] = 1,
    batch_size: BatchSize = 64,
    format: Annotated[
        str, typer.Option(help="text (one line per output), tsv (source, score, text) or jsonl.")
    ] = "text",
) -> None:
    """Write the best of several outputs for each input line, ranked by other models or by risk.

    The rank is by minimum Bayes risk, or by a weighted sum of models' scores, coverage and length.

    \b
    Examples:
      transduce rerank runs/g2p words.txt --mbr per --nbest 10
    """
    from transduce.answers.answer import with_warnings
    from transduce.wings.combining.reranking.base import rerank as ranked

    write = formats.choose(format, formats.PREDICTIONS)
    criteria = ranking.criteria()
    nbest = criteria.nbest
    if nbest is not None and beam is not None and nbest > beam:
        raise UserError(f"--nbest {nbest}: a beam of --beam {beam} finds at most {beam} outputs; raise --beam")
    if criteria.candidates and trained.shortlist:
        raise UserError(
            "--shortlist leaves words out, so outputs of --candidates may have no probability: give one of the two"
        )
    transducer = trained.load(beam)
    candidates = criteria.candidate_lists()
    reranker = ranking_models(criteria, trained, transducer, candidates, batch_size)
    search = transducer.search.resized(beam, nbest or min(CHOICE, beam or CHOICE))
    lines = inputs.sources(files, transducer)
    found = ranked(transducer, lines, reranker, search, batch_size, [lists for lists, _ in candidates], tolerant=True)
    unanswered = Unanswered()
    for answer in unanswered.counted(with_warnings(found)):
        for line in write(replace(answer, outputs=answer.outputs[:keep])):
            print(line, flush=batch_size == 1)
    unanswered.end()


def ranking_models(
    criteria: Criteria,
    trained: RunOptions,
    transducer: Transducer,
    candidates: list[tuple[CandidateLists, float]],
    batch_size: int,
) -> Reranker:
    """The reranker of the criteria. Its runs are loaded with the checkpoint, the precision and the device of the
    ``transducer``, which was loaded as ``trained`` says.
    """
    from transduce.runs.loading import load

    checkpoint, _, precision = trained.identity_options
    load_another = partial(load, checkpoint=checkpoint, device=str(transducer.device), precision=precision)
    return criteria.reranker(transducer, candidates, batch_size, load_another)


def _path_and_weight(given: str, expected: str, example: str) -> tuple[str, float]:
    """The path and the weight of "PATH=0.5". A text without "=", or that is itself an existing path, has the weight 1.

    Raises UserError if the weight is no number; ``expected`` and ``example`` are words for its message.
    """
    path, equals, number = given.rpartition("=")
    if not equals or Path(given).exists():
        return given, 1.0
    try:
        return path, finite_number(number)
    except ValueError:
        raise UserError(f"{given!r}: {expected} were expected, such as {example}") from None
