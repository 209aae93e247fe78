"""Validation measures the model on data.valid during training."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from transduce.answers.evaluation import Evaluation
from transduce.answers.transducer import Transducer
from transduce.compute.crew import ALONE, Crew
from transduce.core.protocols import Density, Metric, Regressor, can
from transduce.core.types import Batch, Example, Prediction
from transduce.data.batching import Batches
from transduce.data.pairs import Pairs
from transduce.data.preparation import Prepared, examples
from transduce.data.streams import StreamBatches
from transduce.metrics.base import metric
from transduce.metrics.statistics import references, statistics
from transduce.metrics.suitability import concerns
from transduce.objectives.base import Trainable
from transduce.runs.checkpoints import Rank
from transduce.runs.run import language_model
from transduce.training.budget import CLOCKS
from transduce.training.curve import Constant
from transduce.training.settings import Settings, Training

CHECKED = 8  # examples that check the metrics before training
TRIAL, SAMPLE = 8, 64  # examples of the first and the last search that measure its time


class TooSlowError(Exception):
    """A validation was left out: its loss alone would have taken about ``seconds``, which is longer than allowed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the validation loss would take {seconds:.0f} s")
        self.seconds = seconds


@dataclass(frozen=True)
class Judgement:
    """The result of a validation: the mean loss per target token (or number), the metrics' scores by name, and a
    ``value``. Lower values are better.

    ``measure`` is "loss" or the name of the first metric. The value is the loss, or the metric's score, negated if
    higher scores are better. It is None if the search did not fit into the allowed time. Then there is only the loss,
    and the search would have taken about ``search_seconds``. ``cut`` is the share of the outputs that the search ended
    at its limit. ``constant`` is the best constant output by the first metric; None if it is unknown.
    """

    loss: float
    metrics: dict[str, float]
    value: float | None
    measure: str = "loss"
    search_seconds: float = 0.0
    cut: float = 0.0
    constant: Constant | None = None

    @property
    def rank(self) -> Rank:
        """The rank that chooses the best model. A value or a loss that is NaN or missing counts as infinity, so it
        ranks last. So a validation with a search usually ranks before a validation without.
        """
        return Rank(self.measure, _infinite_if_nan(self.value), _infinite_if_nan(self.loss))


class Judge:
    """Validates a model: the loss over the pairs ``valid``, and the metrics of a search over the examples ``chosen``.

    The loss is computed in the precision of training, without label smoothing. The search computes in float32. The
    caller puts the model into evaluation mode. The loss uses one in ``one_in`` of the batches of ``valid``, because
    ``chosen`` has about one in ``one_in`` of the examples. The processes of a ``crew`` share the batches and the
    examples, and all get the same judgement. If training reads streams, the loss uses all of ``valid`` as streams of
    the same kind, except the few tokens that do not fill equal streams. ``report`` has lines for people before
    training.
    """

    def __init__(
        self,
        trainable: Trainable,
        valid: Pairs,
        chosen: list[Example],
        transducer: Transducer,
        training: Training,
        autocast: Callable[[], AbstractContextManager[object]],
        one_in: int = 1,
        crew: Crew = ALONE,
        report: Sequence[str] = (),
    ) -> None:
        self.report = tuple(report)
        self.trainable = trainable
        self.valid = valid
        self.streams = training.streams
        self.examples = chosen
        self.transducer = transducer
        self.batching = training.batching
        self.autocast = autocast
        self.one_in = one_in
        self.crew = crew
        self.metrics = [metric(name) for name in training.validation.metrics]
        self.clock = crew.clock(CLOCKS[training.clock])
        self.seconds_each: float | None = None  # of the last measured search, for each example
        self.constant: Constant | None = None

    def __call__(self, allowed: float = math.inf, part: float = 1.0) -> Judgement:
        """The judgement of the current model by this ``part`` of the data, at least ``SAMPLE`` examples: fewer would
        choose badly. Leaves out the search if the whole is expected to take more than ``allowed`` seconds.

        Raises TooSlowError if even the loss is expected to take longer, by the time of its first batch.
        """
        began = self.clock()
        loss = self._loss(allowed, part)
        if not self.metrics:
            return Judgement(loss, {}, loss)
        left = allowed - (self.clock() - began)
        chosen = self._spread(max(SAMPLE, math.ceil(part * len(self.examples))))
        expected, timed = self._expected_seconds(len(chosen), left)
        if expected > left:
            return Judgement(loss, {}, None, self.metrics[0].name, expected)
        found, seconds = timed if timed is not None and len(chosen) <= SAMPLE else self._search(chosen)
        first = self.metrics[0]
        value = _lower_is_better(first, found.scores[first.name])
        return Judgement(loss, found.scores, value, first.name, seconds, found.cut, self._constant(chosen))

    def _expected_seconds(self, count: int, left: float) -> tuple[float, tuple[Evaluation, float] | None]:
        """The expected seconds of the search for ``count`` examples, 0 if ``left``, the seconds that are left for it,
        are infinite. Also returns the search for ``SAMPLE`` examples with its seconds, if it was done.

        The search is timed on samples if its time is unknown. It is timed again if ``left`` is positive and less than
        its last time, because a model that has learned more writes shorter outputs. Each sample is twice as large as
        the one before, and the last one has ``SAMPLE`` examples. A sample that might take longer than the time left is
        not begun.
        """
        if left == math.inf:
            return 0.0, None
        timed = None
        if self.seconds_each is None or self.seconds_each * count > left > 0:
            size = TRIAL
            _, seconds = self._search(self._spread(size))
            spent = seconds
            while size < min(SAMPLE, len(self.examples)) and spent + 2 * seconds <= left:
                size *= 2
                timed = _, seconds = self._search(self._spread(size))
                spent += seconds
            timed = timed if size >= SAMPLE or size >= len(self.examples) else None
            left -= spent
        return (0.0 if timed and count <= SAMPLE else (self.seconds_each or 0.0) * count), timed

    def _spread(self, count: int) -> list[Example]:
        """Some of the examples, at most ``count``: evenly spaced, or the first ones if they are lines of one text."""
        return spread(self.examples, count) if self.transducer.context is None else self.examples[:count]

    def _search(self, chosen: Sequence[Example]) -> tuple[Evaluation, float]:
        """Searches for the outputs of the examples ``chosen``. Returns their evaluation and the seconds it took."""
        began = self.clock()
        found = self._evaluate(chosen)
        seconds = self.clock() - began
        self.seconds_each = seconds / max(1, len(chosen))
        return found, seconds

    def _evaluate(self, chosen: Sequence[Example]) -> Evaluation:
        if not self.crew.several or self.transducer.context is not None:  # lines of one text are read in order
            return self._evaluated(chosen)
        rank, world = self.crew.rank, self.crew.world
        own = self._evaluated(chosen[rank::world])
        predictions = [Prediction("")] * len(chosen)
        for place, theirs in enumerate(self.crew.gather(own.predictions)):
            predictions[place::world] = theirs
        return replace(own, predictions=predictions, statistics=statistics(self.metrics, predictions, chosen))

    def _evaluated(self, chosen: Sequence[Example]) -> Evaluation:
        """The evaluation of some examples. It tells nothing: training begins with a report on the data."""
        return self.transducer.evaluate(chosen, self.metrics, batch_size=128, told=False)

    def _constant(self, chosen: Sequence[Example]) -> Constant | None:
        """The most frequent reference as the output for every source, by the first metric. None if the model is a
        regressor, or if the metric needs forcing or the source's own words.
        """
        first = self.metrics[0]
        if first.needs_forcing or can(type(self.trainable.model), Regressor):
            return None
        text = Counter(references(example)[0] for example in chosen).most_common(1)[0][0]
        if self.constant is None or self.constant.text != text:
            try:
                found = statistics([first], [Prediction(text)] * len(chosen), chosen)[0]
            except ValueError:
                return None
            self.constant = Constant(text, _lower_is_better(first, found.score))
        return self.constant

    @torch.no_grad()
    def _loss(self, allowed: float, part: float) -> float:
        began, total, count, carry = self.clock(), 0.0, 0, None
        every = self._batches(part)
        batches = every[self.crew.rank :: self.crew.world]
        for number, each in enumerate(batches):
            if number == 1 and len(every) >= 2 * self.crew.world:  # each process has a second batch
                expected = (self.clock() - began) * len(batches)  # by the time of the first batch
                if self.crew.any(expected > allowed):
                    raise TooSlowError(self.crew.share(expected))
            with self.autocast():
                loss, carry = self.trainable(each().to(self.transducer.device), 1.0, carry)
            total, count = total + float(loss.plain), count + loss.count
        summed = self.crew.sum_numbers({"total": total, "count": count})
        return float(summed["total"] / summed["count"]) if summed["count"] else math.nan

    def _batches(self, part: float) -> list[Callable[[], Batch]]:
        """The batches of the validation loss on this ``part`` of the data, in order, each as a function that makes it.
        A part of streams is their beginning.
        """
        if self.streams is None:
            one_in = max(1, math.ceil(self.one_in / part))
            every = Batches(self.valid, self.batching, seed=0).epoch(0)[::one_in]
            return [partial(self.valid.batch, ids_B) for ids_B in every]
        tokens = int(self.valid.target_lengths.sum())
        stream = StreamBatches(self.valid.target, replace(self.streams, rows=min(self.streams.rows, tokens)))
        return [partial(stream.batch, number) for number in range(max(1, math.floor(part * stream.per_epoch)))]


def judge_of(
    trainable: Trainable,
    settings: Settings,
    prepared: Prepared,
    cache: Path,
    autocast: Callable[[], AbstractContextManager[object]],
    crew: Crew = ALONE,
) -> Judge | None:
    """The judge that a run's settings describe; None without validation data. The processes of ``crew`` share its work.

    Raises UserError if a metric of the run cannot score the validation data.
    """
    if prepared.valid is None:
        return None
    training = settings.training
    validation = training.validation
    found = examples(settings.data, "valid", cache, told=True) if {*validation.metrics, *settings.metrics} else []
    check_metrics([*validation.metrics, *settings.metrics], found, type(trainable.model))
    every = found if validation.metrics else []
    # lines of a text are read one after the other, so a sample must be a continuous part of the text
    chosen = every[: validation.examples] if settings.context else spread(every, validation.examples)
    device = next(trainable.model.parameters()).device
    transducer = Transducer(
        trainable.model,
        settings.validation_search,
        prepared.tokenizers,
        max_source_length=settings.data.lines.max_source_length,
        token_for_token=settings.data.lines.token_for_token,
        keeps_empty=settings.data.lines.empty == "keep",
        load_other=partial(language_model, run=None, device=device),
        context=settings.context,
    )
    transducer.with_search(settings.search)  # raises UserError for a wrong language model now, and not after training
    transducer = transducer.with_search(settings.validation_search)
    one_in = max(1, len(every) // max(1, len(chosen)))
    report = [f"valid: {line}" for line in concerns_of_names(validation.metrics or settings.metrics, found, transducer)]
    return Judge(trainable, prepared.valid, chosen, transducer, training, autocast, one_in, crew, report)


def concerns_of_names(names: Sequence[str], found: Sequence[Example], transducer: Transducer) -> list[str]:
    """Lines for people: what speaks against these metrics on these examples (``suitability.concerns``)."""
    return concerns([*map(metric, dict.fromkeys(names))], found, transducer.normalize_target)


def check_metrics(names: Sequence[str], found: Sequence[Example], model: type) -> None:
    """Raises UserError if one of these metrics cannot score the examples. For example, ``mase-12`` cannot score sources
    of ten steps.

    Computes each metric's statistics for a few examples, as if a model of the class ``model`` had written their first
    references. So it also raises UserError for a metric of densities if that class has no densities. Metrics that need
    teacher forcing are not checked.
    """
    for each in map(metric, dict.fromkeys(names)):
        for example in () if each.needs_forcing else spread(list(found), CHECKED):
            each.statistics(_as_written(references(example)[0], model), example)


def _as_written(reference: str, model: type) -> Prediction:
    """The reference as an output of the class ``model``. If it is a regressor, a missing number becomes 0. If it is a
    ``Density``, each number gets the deviation 1. For other models the text does not change.
    """
    if not can(model, Regressor):
        return Prediction(reference)
    text = re.sub(r"\bnan\b", "0", reference, flags=re.IGNORECASE)
    numbers = len(re.findall(r"[^\s,]+", text))
    return Prediction(text, deviations=(1.0,) * numbers if can(model, Density) else ())


def spread(found: list[Example], count: int | None) -> list[Example]:
    """Returns ``count`` of the examples, evenly spaced. Returns all examples if ``count`` is None, 0, or larger than
    their number. Data are often sorted, so the first examples would not be a fair sample.
    """
    count = min(count or len(found), len(found))
    return [found[number * len(found) // count] for number in range(count)]


def _lower_is_better(measured: Metric, score: float) -> float:
    return -score if measured.higher_is_better else score


def _infinite_if_nan(value: float | None) -> float:
    return math.inf if value is None or math.isnan(value) else value
