"""``transduce rerank``: the best of what a model finds, by what other models or a metric make of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli import formats, reading
from transduce.cli.options import BatchSize, BeamSize, Files, Trained

if TYPE_CHECKING:
    from transduce.reranking.base import Reranker
    from transduce.reranking.loglinear import Feature
    from transduce.transducer import Transducer

Weighted = list[str] | None


@dataclass(frozen=True)
class Criteria:
    """By what outputs are ranked: minimum risk, or the weighted log-probabilities of several models."""

    mbr: Annotated[str | None, typer.Option(help="Least risk by this metric: chrf, bleu, cer, ...")] = None
    posterior: Annotated[
        bool, typer.Option("--posterior", help="With --mbr: weigh by probability, for what a beam found.")
    ] = False
    channel: Annotated[
        Weighted, typer.Option(help="A model of the other direction, p(x|y), and its weight.", metavar="RUN=1.0")
    ] = None
    language_model: Annotated[Weighted, typer.Option(help="A model of p(y).", metavar="RUN=1.0")] = None
    direct: Annotated[Weighted, typer.Option(help="Another model of p(y|x).", metavar="RUN=1.0")] = None
    own: Annotated[float, typer.Option(help="The weight of the model's own log-probability.")] = 1.0
    score: Annotated[float, typer.Option(help="The weight of the search's own score, by search.ranking.")] = 0.0
    coverage: Annotated[float, typer.Option(help="The weight of how much of the source was read (Wu et al. 2016).")] = 0
    length: Annotated[float, typer.Option(help="What a token adds.")] = 0.0

    def reranker(self, transducer: Transducer, batch_size: int, precision: str) -> Reranker:
        from transduce.inspect.coverage import Coverage
        from transduce.metrics.base import metric
        from transduce.reranking.loglinear import Channel, Direct, Language, Length, LogLinear, Own, Score
        from transduce.reranking.risk import MinimumRisk

        models: list[tuple[Callable[[Transducer, int], Feature], Weighted]] = [
            (Channel, self.channel),
            (Language, self.language_model),
            (Direct, self.direct),
        ]
        named = [(kind, given) for kind, runs in models for given in runs or []]
        weighed = bool(named or self.length or self.score or self.coverage)
        if self.mbr is not None:
            if weighed:
                raise ValueError("--mbr asks a metric, and --channel, --language-model, --direct models: give one kind")
            if self.own != 1:
                raise ValueError(
                    f"--own {self.own:g} is a weight beside other models', and --mbr asks a metric: give one kind"
                )
            return MinimumRisk(metric(self.mbr), "posterior" if self.posterior else "uniform")
        if self.posterior:
            raise ValueError("--posterior says by what --mbr weighs: give --mbr METRIC too, or leave it out")
        if not weighed:
            raise ValueError(
                "nothing to rank by: give --mbr METRIC, or --channel, --language-model or --direct RUN, or --coverage"
            )
        features: list[tuple[Feature, float]] = [
            (Own(), self.own),
            (Score(), self.score),
            (Coverage(transducer, batch_size), self.coverage),
            (Length(), self.length),
        ]
        for kind, given in named:
            other, weight = _weighted(given, str(transducer.device), precision)
            features.append((kind(other, batch_size), weight))
        return LogLinear(tuple(features))


def rerank(
    trained: Trained,
    criteria: Criteria,
    files: Files = None,
    nbest: Annotated[int, typer.Option(min=1, help="Outputs of each source to choose from.")] = 16,
    beam: BeamSize = None,
    keep: Annotated[int, typer.Option(min=1, help="Outputs of each source to write.")] = 1,
    batch_size: BatchSize = 64,
    format: Annotated[
        str, typer.Option(help="text (a line a hypothesis), tsv (source, score, text) or jsonl.")
    ] = "text",
) -> None:
    """Turn each line into the best of several outputs: by least risk, or by what other models say of them."""
    from transduce.reranking.base import rerank as ranked

    write = formats.choose(format, formats.PREDICTIONS)
    transducer = trained.load(beam)
    reranker = criteria.reranker(transducer, batch_size, trained.precision)
    asked, answered = itertools.tee(reading.lines(files))
    found = ranked(transducer, asked, reranker, transducer.search.resized(beam, nbest), batch_size)
    for source, outputs in zip(answered, found, strict=True):
        for line in write(source, outputs[:keep]):
            print(line, flush=batch_size == 1)


def _weighted(given: str, device: str, precision: Any) -> tuple[Transducer, float]:
    """The model and the weight of RUN=0.5, or RUN, which has the weight 1."""
    from transduce.loading import load

    run, equals, number = given.rpartition("=")
    if not equals or Path(given).is_dir():
        return load(given, device=device, precision=precision), 1.0
    try:
        weight = float(number)
    except ValueError:
        raise ValueError(f"{given!r}: a run directory and its weight were expected, such as runs/model=0.5") from None
    return load(run, device=device, precision=precision), weight
