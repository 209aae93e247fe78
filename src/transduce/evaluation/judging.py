"""From a trained model and some examples to all that is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.evaluation.groups import groupings, met_in_training
from transduce.evaluation.results import SystemResults
from transduce.evaluation.systems import System
from transduce.inspect.calibration import calibrate
from transduce.metrics.confusions import label_breakdowns
from transduce.metrics.edit import ErrorRate
from transduce.metrics.errors import error_breakdown
from transduce.metrics.significance import Resampling
from transduce.protocols import Regressor, can
from transduce.transducer import Transducer
from transduce.types import Example


@dataclass(frozen=True)
class Parts:
    """What is told beside the scores: results in so many ``bins`` of sources, the ``errors`` behind each error rate and
    of each label, and ``calibration``."""

    bins: int | None = None
    errors: bool = False
    calibration: bool = False

    def of_report(self, transducer: Transducer) -> Parts:
        """All of them, but for the calibration, unless asked for, of what has no probabilities (numbers)."""
        return Parts(self.bins or 6, True, self.calibration or not can(type(transducer.model), Regressor))


def judge(
    system: System,
    transducer: Transducer,
    run: Path,
    examples: Sequence[Example],
    corpus: str,
    parts: Parts,
    resampling: Resampling | None = None,
) -> SystemResults:
    """Results of what ``transducer``, from ``run``, gave for the examples: ``systems.of_model``, with ``forcing`` where
    the calibration is wanted."""
    resampling = resampling or Resampling()
    signal = transducer.source_tokenizer.signal
    met = met_in_training(transducer.settings, run, examples) if parts.bins and not signal else None
    steps = system.lengths if signal else None
    metrics = [each.metric for each in system.statistics]
    rates = [metric for metric in metrics if parts.errors and isinstance(metric, ErrorRate)]
    return SystemResults(
        system,
        examples,
        corpus,
        resampling,
        groupings(system.statistics, examples, met, parts.bins, resampling, steps) if parts.bins else [],
        [error_breakdown(rate, system.predictions, examples) for rate in rates],
        calibrate(system.forced) if parts.calibration else None,
        label_breakdowns(metrics, system.predictions, examples) if parts.errors else [],
    )
