"""A mixture of finished candidates by forward selection (Caruana et al. 2004): the best alone, then each candidate that
makes the validation score better. Only models of the same vocabularies can be mixed token by token.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean

from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.protocols import Metric
from transduce.core.types import Example, Prediction
from transduce.metrics.base import metric
from transduce.metrics.significance import Difference, Interval, Resampling
from transduce.metrics.statistics import Statistics, statistics
from transduce.runs.checkpoints import saved_step
from transduce.runs.from_model import write_run
from transduce.runs.layout import CHECKPOINTS
from transduce.runs.loading import load, mix
from transduce.runs.run import Run
from transduce.training.budget import CLOCKS
from transduce.wings.fitting.candidates import Candidate
from transduce.wings.fitting.rounds import Trials

log = logging.getLogger("transduce.fit")

MEMBERS = 3  # of a mixture: each costs its own time in every answer
CHANCE = 0.2  # a member stays if its gain is chance with a smaller probability: choosing is no proof


@dataclass(frozen=True)
class Choice:
    """One or several candidates as a model, with its ``outputs`` for the validation examples of all views, one view
    after the other, and the ``seconds`` of an output.
    """

    members: tuple[Candidate, ...]
    outputs: tuple[str, ...]
    seconds: float

    @property
    def name(self) -> str:
        return " + ".join(each.name for each in self.members)


class Validation:
    """The validation examples of all views, and how choices compare on them."""

    def __init__(self, trials: Trials) -> None:
        self.trials = trials
        self.resampling = Resampling()
        self._metrics: dict[str, Metric] = {}

    @cached_property
    def examples(self) -> list[Example]:
        """The examples of each view, one view after the other."""
        any_candidate = self.trials.finished[0]
        runs = [Run.open(self.trials.run(any_candidate, view.name)) for view in self.trials.views]
        return [example for run in runs for example in run.examples("valid")]

    def of(self, candidate: Candidate) -> Choice:
        found = self.trials.results(candidate) or []
        outputs = tuple(output for each in found for output in each.outputs)
        return Choice((candidate,), outputs, fmean(each.seconds for each in found))

    def statistics(self, choice: Choice, name: str | None = None) -> Statistics:
        """The statistics of a choice by a metric, by default the one that chooses."""
        predictions = [Prediction(output) for output in choice.outputs]
        return statistics([self.metric(name or self.trials.task.metric)], predictions, self.examples)[0]

    def metric(self, name: str) -> Metric:
        """The metric of this name: one for all choices, so that its labels have one order."""
        return self._metrics.setdefault(name, metric(name))

    def interval(self, choice: Choice) -> Interval:
        return self.resampling.interval(self.statistics(choice))

    def gain(self, one: Choice, other: Choice) -> Difference:
        """How much better ``one`` is than ``other``, on the same examples; positive is better."""
        found = self.resampling.difference(self.statistics(one), self.statistics(other))
        if self.trials.sign > 0:
            return found
        turned = Interval(-found.interval.high, -found.interval.low)
        return Difference(-found.value, turned, found.bootstrap_p, found.randomisation_p)


def forward_selection(trials: Trials, validation: Validation) -> list[Choice]:
    """All choices that were tried, the chosen one last. A mixture grows in each group of candidates that can be mixed,
    from the best of the group; the best result of all groups is chosen.
    """
    tried = {each.name: validation.of(each) for each in reversed(trials.finished)}
    results = [_grown(trials, validation, group, tried) for group in _groups(trials)]
    best = max(results, key=lambda each: trials.sign * validation.statistics(each).score)
    return [*(each for each in tried.values() if each is not best), best]


def _grown(trials: Trials, validation: Validation, group: Sequence[Candidate], tried: dict[str, Choice]) -> Choice:
    """The mixture of a group: its best candidate, and each further one that makes it better. Adds what it tries."""
    best = tried[group[0].name]
    while len(best.members) < MEMBERS:
        others = [each for each in group if each not in best.members]
        mixtures = [mixture for each in others if (mixture := _mixed(trials, validation, (*best.members, each)))]
        tried |= {mixture.name: mixture for mixture in mixtures}
        gains = [(validation.gain(mixture, best), mixture) for mixture in mixtures]
        good = [(gain.value, mixture) for gain, mixture in gains if gain.value > 0 and gain.randomisation_p < CHANCE]
        if not good:
            break
        best = max(good, key=lambda each: each[0])[1]
    return best


def _groups(trials: Trials) -> list[list[Candidate]]:
    """The finished candidates in groups of equal vocabularies, the best first in each."""
    groups = list[list[Candidate]]()
    for candidate in trials.finished:
        group = next((each for each in groups if _mixable(trials, each[0], candidate)), None)
        if group is None:
            groups.append([candidate])
        else:
            group.append(candidate)
    return groups


def _mixable(trials: Trials, one: Candidate, other: Candidate) -> bool:
    """True if both have the same vocabularies on every view."""
    for view in trials.views:
        runs = [Run.open(trials.run(each, view.name)) for each in (one, other)]
        if runs[0].tokenizers.differing(runs[1].tokenizers, True):
            return False
    return True


def _mixed(trials: Trials, validation: Validation, members: tuple[Candidate, ...]) -> Choice | None:
    """The mixture of the members, measured on every view; None if their models cannot be mixed."""
    outputs, seconds = list[str](), list[float]()
    try:
        for view in trials.views:
            mixture = loaded([trials.run(each, view.name) for each in members])
            examples = Run.open(trials.run(members[0], view.name)).examples("valid")
            used = [validation.metric(trials.task.metric)]
            found = mixture.evaluate(examples, used, clock=CLOCKS["processor"], told=False)
            outputs += [each.text for each in found.predictions]
            seconds.append(found.seconds / len(examples))
    except UserError as error:
        log.info("%s cannot be mixed: %s", " + ".join(each.name for each in members), error)
        return None
    return Choice(members, tuple(outputs), fmean(seconds))


def loaded(runs: Sequence[Path]) -> Transducer:
    """One run, or several mixed as the mean of their probabilities."""
    transducers = [load(run) for run in runs]
    return transducers[0] if len(runs) == 1 else mix([*runs], transducers, None)


def write_mixture(folder: Path, runs: Sequence[Path], scores: Mapping[str, float]) -> None:
    """Makes a run of several runs, with all that it needs: its own weights, vocabularies and search."""
    mixture = loaded(runs)
    steps = sum(saved_step(run / CHECKPOINTS / "best") for run in runs)
    write_run(folder, mixture.settings, mixture.tokenizers, mixture.model, {"step": steps, **scores})
