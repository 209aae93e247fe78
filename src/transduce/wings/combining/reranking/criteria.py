"""The criteria by which ``transduce rerank`` ranks outputs: from its options, or from the table ``[rerank]`` of a
file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from transduce.answers.transducer import Transducer
from transduce.core import config
from transduce.core.errors import UserError
from transduce.metrics.base import metric
from transduce.wings.combining.reranking.base import Reranker
from transduce.wings.combining.reranking.candidates import CandidateLists
from transduce.wings.combining.reranking.coverage import Coverage
from transduce.wings.combining.reranking.loglinear import (
    Channel,
    Direct,
    Feature,
    Language,
    LengthFeature,
    LogLinear,
    Own,
    Score,
)
from transduce.wings.combining.reranking.risk import MinimumRisk

log = logging.getLogger("transduce")

Weights = Mapping[str, float]


@dataclass(frozen=True)
class Criteria:
    """How to rank outputs: by minimum Bayes risk with the metric ``mbr``, or by a weighted sum of features.

    ``own`` is the weight of the model's own log-probability, ``score`` of the search's score, ``coverage`` of the
    attention coverage (Wu et al. 2016), and ``length`` of the number of tokens. ``channel`` (models of p(source |
    output)), ``language_model`` and ``direct`` (further models of p(output | source)) have a weight for each run, by
    its path. ``candidates`` has a weight for each file with outputs of another program. Paths are relative to the
    current directory. ``posterior`` weighs the outputs of ``mbr`` by their probability. ``nbest`` is the number of
    outputs per source to choose from; None leaves it to the command.

    Raises UserError if there is nothing to rank by, if ``mbr`` is mixed with weights, or if a value has no effect.
    """

    own: float = 1.0
    score: float = 0.0
    coverage: float = 0.0
    length: float = 0.0
    channel: Weights = field(default_factory=dict)
    language_model: Weights = field(default_factory=dict)
    direct: Weights = field(default_factory=dict)
    candidates: Weights = field(default_factory=dict)
    mbr: str | None = None
    posterior: bool = False
    nbest: int | None = None

    def __post_init__(self) -> None:
        if self.nbest is not None and self.nbest < 1:
            raise UserError(f"nbest = {self.nbest}: at least one output was expected")
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

    @classmethod
    def read(cls, file: Path | None, changes: Mapping[str, object]) -> Criteria:
        """The criteria of the table ``[rerank]`` of a TOML file, with the keys of ``changes`` replaced by its values.

        If ``file`` is None, ``changes`` has all criteria. Raises FileNotFoundError if there is no such file, and
        ConfigError for an unknown key, a wrong value, a table other than ``[rerank]``, or a file without it.
        """
        table: config.Table = {}
        if file is not None:
            given = config.read(file.expanduser())
            config.check(given, _File)
            table = given["rerank"]
        return config.build({**table, **changes}, cls, path="" if file is None else "rerank")

    def candidate_lists(self) -> list[tuple[CandidateLists, float]]:
        """The outputs of other programs: one pair (lists, weight) for each file of ``candidates``."""
        return [(CandidateLists.read(Path(file).expanduser()), weight) for file, weight in self.candidates.items()]

    def reranker(
        self,
        transducer: Transducer,
        candidates: list[tuple[CandidateLists, float]],
        batch_size: int,
        load: Callable[[str], Transducer],
    ) -> Reranker:
        """The reranker of these criteria, for outputs of ``transducer``. ``load`` loads the run with a given path."""
        if self.mbr is not None:
            return MinimumRisk(metric(self.mbr), "posterior" if self.posterior else "uniform")
        return LogLinear((*self._features(transducer, batch_size, load), *candidates))

    def _features(
        self, transducer: Transducer, batch_size: int, load: Callable[[str], Transducer]
    ) -> Iterator[tuple[Feature, float]]:
        yield Own(), self.own
        yield Score(), self.score
        yield Coverage(transducer, batch_size), self.coverage
        yield LengthFeature(), self.length
        kinds: list[tuple[Callable[[Transducer, int], Feature], Weights]] = [
            (Channel, self.channel),
            (Language, self.language_model),
            (Direct, self.direct),
        ]
        for kind, runs in kinds:
            for run, weight in runs.items():
                model = load(run)
                if kind is Language and model.conditional:
                    log.warning("--language-model %s was trained with sources; here it gets an empty source", run)
                yield kind(model, batch_size), weight


@dataclass(frozen=True)
class _File:
    """A file of criteria."""

    rerank: Criteria
