"""The results of a run's model: scores, and the parts of a report that are requested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.answers.transducer import Transducer
from transduce.core.protocols import Regressor, can
from transduce.core.types import Example
from transduce.evaluation.calibration import calibrate
from transduce.evaluation.groups import by_corpus, groupings, training_frequencies
from transduce.evaluation.system_results import SystemResults
from transduce.evaluation.systems import System
from transduce.metrics.confusions import label_breakdowns
from transduce.metrics.error_breakdown import error_breakdown
from transduce.metrics.error_rates import ErrorRate
from transduce.metrics.significance import Resampling


@dataclass(frozen=True)
class ReportParts:
    """Which parts a report has beside the scores.

    ``bins`` is the largest number of groups of sources that results are divided into; None for no groups. ``errors``:
    the single edits behind each error rate, and the confusions of labels. ``calibration``: whether the model's
    confidence agrees with its accuracy.
    """

    bins: int | None = None
    errors: bool = False
    calibration: bool = False

    def for_page(self, transducer: Transducer) -> ReportParts:
        """The parts of a report on a page: all of them, with at most 6 groups unless ``bins`` is set.

        A model of numbers has no probabilities, so its calibration is included only if it was requested.
        """
        return ReportParts(self.bins or 6, True, self.calibration or not can(type(transducer.model), Regressor))


def run_results(
    system: System,
    transducer: Transducer,
    run: Path,
    examples: Sequence[Example],
    corpus: str,
    parts: ReportParts,
    resampling: Resampling | None = None,
) -> SystemResults:
    """The results of a trained model for a report. ``system`` are its outputs and scores, from ``evaluate_model``;
    ``transducer`` is the model, ``run`` its run directory.

    ``examples`` and ``corpus`` are the examples that were measured and their name. The default ``resampling`` is
    ``Resampling()``. If ``parts`` includes the calibration, ``system`` must have been made with ``forcing``.
    """
    resampling = resampling or Resampling()
    signal = transducer.source_tokenizer.signal
    training = training_frequencies(run, examples) if parts.bins and not signal else None
    steps = system.lengths if signal else None
    metrics = [each.metric for each in system.statistics]
    rates = [metric for metric in metrics if parts.errors and isinstance(metric, ErrorRate)]
    groups = by_corpus(system.statistics, examples, resampling)
    if parts.bins:
        groups += groupings(system.statistics, examples, training, parts.bins, resampling, steps)
    return SystemResults(
        system,
        examples,
        corpus,
        resampling,
        groups,
        [error_breakdown(rate, system.predictions, examples) for rate in rates],
        calibrate(system.forced) if parts.calibration else None,
        label_breakdowns(metrics, system.predictions, examples) if parts.errors else [],
    )
