"""A system that is evaluated: a run's model, or any other program by the file of its outputs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from transduce.answers.answer import Output
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.protocols import Metric
from transduce.core.types import Example, Prediction
from transduce.data import corpora
from transduce.metrics.statistics import Statistics, statistics
from transduce.metrics.statistics import mean_of_seeds as statistics_of_seeds
from transduce.metrics.suitability import concerns
from transduce.runs.layout import members

log = logging.getLogger("transduce")


@dataclass(frozen=True)
class System:
    """A system that is evaluated: its outputs for some examples, in order, and each metric's statistics of
    them.

    The fields after these have defaults, because only models have them. ``seconds`` is the time that reading and the
    search took. ``vocabulary`` is the fingerprint of the target's tokenizer. ``lengths`` are the lengths of the sources
    in tokens (EOS included) or steps, before any cut. ``forced`` has the scored first reference of each example; it is
    empty if none were scored. ``search`` has the settings of the search, and ``runs`` the run directories.
    ``concerns`` are lines for people: which metrics do not suit the examples (``suitability.concerns``).

    A system of several ``seeds`` is one model that was trained several times, and has no ``runs`` of its own. Its
    scores are the means over these systems, and its outputs are those of the first.
    """

    name: str
    predictions: list[Prediction]
    statistics: list[Statistics]
    seconds: float | None = None
    vocabulary: str | None = None
    lengths: Sequence[int] = ()
    forced: Sequence[Output] = ()
    search: Mapping[str, object] = field(default_factory=dict)
    runs: Sequence[Path] = ()
    seeds: Sequence[System] = ()
    concerns: Sequence[str] = ()

    @property
    def scores(self) -> dict[str, float]:
        """Each metric's score, by the metric's name."""
        return {each.name: each.score for each in self.statistics}


def evaluate_model(
    name: str,
    transducer: Transducer,
    examples: Sequence[Example],
    metrics: Sequence[Metric],
    batch_size: int = 64,
    forcing: bool = False,
) -> System:
    """Measures a trained model on the examples, with its own search.

    ``name`` is its run directory, or RUN+RUN for an ensemble. The model scores the first reference of each example if a
    metric needs that, or if ``forcing`` is True.
    """
    found = transducer.evaluate(examples, metrics, batch_size=batch_size, forcing=forcing)
    return System(
        name,
        found.predictions,
        found.statistics,
        found.seconds,
        transducer.target_tokenizer.fingerprint,
        found.lengths,
        found.forced,
        transducer.settings.get("search", {}),
        members(name),
        concerns=concerns(metrics, examples, transducer.normalize_target),
    )


def tell_concerns(systems: Sequence[System]) -> None:
    """Logs the concerns of the systems, equal ones once."""
    for line in dict.fromkeys(line for system in systems for line in system.concerns):
        log.warning(line)


def mean_of_seeds(name: str, seeds: Sequence[System]) -> System:
    """The system of several seeds of one model, measured on the same examples by the same metrics. Metrics that one of
    them lacks are left out.
    """
    first, *others = ({each.name: each for each in system.statistics} for system in seeds)
    shared = [name for name in first if all(name in other for other in others)]
    vocabularies = {system.vocabulary for system in seeds}
    return replace(
        seeds[0],
        name=name,
        statistics=[statistics_of_seeds([first[name], *(other[name] for other in others)]) for name in shared],
        seconds=None,
        vocabulary=vocabularies.pop() if len(vocabularies) == 1 else f"several, of {name}",
        runs=(),
        seeds=seeds,
    )


def evaluate_file(path: Path, examples: Sequence[Example], metrics: Sequence[Metric]) -> System:
    """Measures a file of outputs: line n is the output for example n. Metrics that need the model itself are
    left out.

    Raises UserError if the file has more or fewer lines than there are examples, and DataError if it cannot be read.
    """
    lines = list(corpora.text_lines(path))
    if len(lines) != len(examples):
        raise UserError(f"{path} has {len(lines):,} lines for {len(examples):,} examples: a line for each is expected")
    predictions = [Prediction(line) for line in lines]
    askable = [metric for metric in metrics if not metric.needs_forcing]
    return System(
        str(path), predictions, statistics(askable, predictions, examples), concerns=concerns(askable, examples)
    )
