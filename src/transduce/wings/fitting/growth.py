"""What more pairs would bring: the error of an instant candidate on a quarter, a half and all of the pairs, and the
power law through them (Kaplan et al. 2020, equation 1.1): error = a n^-b.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transduce.core import config
from transduce.core.files import write_text
from transduce.metrics.significance import Interval, middle
from transduce.metrics.statistics import Floats, Statistics
from transduce.runs.layout import ASKED, LOG
from transduce.wings.fitting import trial
from transduce.wings.fitting.candidates import Candidate
from transduce.wings.fitting.mixtures import Choice, Validation
from transduce.wings.fitting.rounds import Trials
from transduce.wings.fitting.splits import View, by_source
from transduce.wings.fitting.trial import Result
from transduce.wings.lab.sweeps import processes

PARTS = (1 / 4, 1 / 2)
FEWEST = 40  # training pairs of the smallest part


@dataclass(frozen=True)
class Growth:
    """The ``scores`` of the candidate ``name`` with numbers of ``pairs``. Twice as many pairs multiply its error by
    ``factor``; ``interval`` has its 95 % interval over the validation examples.
    """

    name: str
    pairs: tuple[int, ...]
    scores: tuple[float, ...]
    factor: float
    interval: Interval

    def lines(self, name: str, score: float, higher: bool) -> list[str]:
        """The forecast for the chosen model, whose ``score`` by the metric ``name`` is known, for people."""
        shown = ", ".join(f"{value:.2f} with {count:,}" for count, value in zip(self.pairs, self.scores, strict=True))
        error = 100 - score if higher else score
        values = [error * factor for factor in (self.factor, *self.interval)]
        value, *ends = (100 - each if higher else each for each in values)
        low, high = sorted(ends)
        return [
            f"{name} of {self.name} by training pairs: {shown}.",
            f"If the chosen model gains as it does, twice as many pairs would bring its {name} from {score:.2f} to "
            f"about {value:.2f} ({low:.2f} to {high:.2f}).",
        ]


def growth(trials: Trials, validation: Validation) -> Growth | None:
    """The growth of the first instant candidate; None if there is none, if there are several views or too few pairs, or
    if its score is no percentage of errors.
    """
    instant = next((each for each in trials.finished if each.instant), None)
    view = trials.views[0]
    if instant is None or len(trials.views) > 1 or len(view.train) * PARTS[0] < FEWEST:
        return None
    if trials.task.metric in ("perplexity",):
        return None
    groups = by_source(view.train)
    found, counts = [], []
    for part in PARTS:
        pairs = [pair for group in groups[: round(part * len(groups))] for pair in group]
        result = _result(trials, instant, View(f"part{part:g}", pairs, view.valid))
        if result is None:
            return None
        found.append(_statistics(validation, result.outputs))
        counts.append(len(pairs))
    found.append(validation.statistics(validation.of(instant)))
    counts.append(len(view.train))
    return _fitted(instant.name, counts, found, trials.sign > 0, validation)


def _result(trials: Trials, candidate: Candidate, view: View) -> Result | None:
    run = trials.folder / candidate.name / view.name
    if (done := Result.read(run)) is not None:
        return done
    data = view.write(trials.folder.parent / "data")
    write_text(run / ASKED, config.write(candidate.table(data, trials.plan.steps.get(candidate.name))))
    command = trial.command(run, trials.plan.threads, trials.device, None)
    for _ in processes.run([processes.Task(str(run), command, run / LOG)], 1):
        pass
    return Result.read(run)


def _statistics(validation: Validation, outputs: Sequence[str]) -> Statistics:
    return validation.statistics(Choice((), tuple(outputs), 0.0))


def _fitted(
    name: str, counts: Sequence[int], found: Sequence[Statistics], higher: bool, validation: Validation
) -> Growth | None:
    scores_PR = np.array([each.score for each in found])[:, None]
    sampled_PR = np.stack([validation.resampling.bootstrap(each) for each in found])
    factor = _factors(counts, scores_PR, higher)[0]
    factors_R = _factors(counts, sampled_PR, higher)
    if not math.isfinite(factor):
        return None
    scores = tuple(float(score) for score in scores_PR[:, 0])
    return Growth(name, tuple(counts), scores, float(factor), middle(factors_R))


def _factors(counts: Sequence[int], scores_PR: Floats, higher: bool) -> Floats:
    """[R]: 2^-b of the least-squares line log error = log a - b log n, for scores [parts, R]."""
    errors_PR = np.clip(100 - scores_PR if higher else scores_PR, 1e-3, None)
    sizes_P = np.log(np.array(counts, float))
    centred_P = sizes_P - sizes_P.mean()
    slopes_R: Floats = centred_P @ np.log(errors_PR) / (centred_P @ centred_P)
    return np.exp2(slopes_R)
