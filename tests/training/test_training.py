"""The loop and a run: budgets, accumulation, clipping, stopping, averages, and errors before training starts."""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

import transduce
from families import FAMILIES, build, sources, targets
from transduce import api
from transduce.compute.crew import ALONE
from transduce.compute.precision import PrecisionChoice, autocast, choose_precision
from transduce.core import config
from transduce.core.types import EOS, Batch, Example, Loss, Padded
from transduce.data.batching import Place
from transduce.layers.modules.dropout import Dropout
from transduce.metrics.base import metric
from transduce.models.weights import weights
from transduce.objectives.base import Trainable
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.runs.checkpoints import Rank, best_rank
from transduce.runs.layout import CHECKPOINTS
from transduce.runs.run import Run
from transduce.runs.training_state import State
from transduce.training.begin import RunExistsError
from transduce.training.budget import CLOCKS, Budget
from transduce.training.callbacks import Callback, Finished, JsonLines, Notice, PaceAdvice, Started, Update, Validated
from transduce.training.course import Course
from transduce.training.curve import DivergenceError
from transduce.training.keeper import Keeper
from transduce.training.loop import Loop
from transduce.training.optimization import ConstantRate, CosineDecay, InverseSquareRoot, LinearDecay, ReduceOnPlateau
from transduce.training.settings import Training, Validation
from transduce.training.updating import Updater
from transduce.training.validation import Judge, Judgement, TooSlowError, spread
from transduce.training.validation_schedule import Validations

CPU = torch.device("cpu")

# ------------------------------------------------------- the loop, on its own


def batch(rows: slice = slice(None)) -> Batch:
    """Four pairs, or some of them."""
    lengths = torch.tensor([5, 3, 4, 2])
    target_BT = targets(4, 5)
    target_BT[torch.arange(4), lengths - 1] = EOS
    target_BT[torch.arange(5) >= lengths[:, None]] = 0
    source = sources([4, 5, 3, 4])
    return Batch(
        Padded(source.values[rows], source.lengths[rows]), Padded(target_BT[rows], lengths[rows]), torch.arange(4)[rows]
    )


@dataclass
class Cycle:
    """The same batches over and over."""

    of: Sequence[Batch]

    @property
    def per_epoch(self) -> int:
        return len(self.of)

    def iterate(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        while True:
            for number in range(place.batch, len(self.of)):
                yield self.of[number], Place(place.epoch, number + 1)
            place = Place(place.epoch + 1)


@dataclass
class Events(Callback):
    """Everything a run tells."""

    told: list[Any] = field(default_factory=list)

    def on_start(self, started: Started) -> None:
        self.told.append(started)

    def on_update(self, update: Update) -> None:
        self.told.append(update)

    def on_validation(self, validated: Validated) -> None:
        self.told.append(validated)

    def on_notice(self, notice: Notice) -> None:
        self.told.append(notice)

    def on_finish(self, finished: Finished) -> None:
        self.told.append(finished)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.told if isinstance(event, kind)]


class Stops(Callback):
    """Records the step of the last checkpoint in ``saved``, at the first report from update ``step`` on."""

    def __init__(self, last: Path, step: int) -> None:
        self.last, self.step, self.saved = last, step, 0

    def on_update(self, update: Update) -> None:
        if update.step >= self.step and not self.saved:
            self.saved = json.loads((self.last / "state.json").read_text())["step"]


class Script:
    """A judge that returns the given values in order, and keeps the weights at each call."""

    def __init__(self, model: Any, values: Sequence[float]) -> None:
        self.model, self.values, self.seen = model, iter(values), []

    def __call__(self, allowed: float, part: float) -> Judgement:
        assert not self.model.training
        self.seen.append({name: tensor.clone() for name, tensor in weights(self.model).items()})
        value = next(self.values)
        return Judgement(value, {}, value)


class Quick(CrossEntropy):
    """An objective that computes nothing of the model."""

    def __call__(self, model: Any, given: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        loss = next(model.parameters()).sum()
        return Loss(loss, 1, {"nll": loss.detach()}), carry


def loop(
    run: Path,
    training: Training,
    batches: Sequence[Batch] | None = None,
    values: Sequence[float] | None = None,
    rate: float = 0.5,
    state: State | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Loop, Events]:
    """A loop of plain gradient descent on a tiny float64 model, so that an update shows the gradient itself."""
    model = build(FAMILIES["luong, general"])
    for module in model.modules():
        if isinstance(module, Dropout):
            module.p = 0.0
    events = Events()
    state = state or State()
    course = Course(training, Cycle(batches or [batch()]), state, clock=clock)
    course.callbacks = [events, PaceAdvice(training.budget, state.seconds, course.notice)]
    updater = Updater(
        Trainable(model, CrossEntropy(smoothing=0.1)),
        torch.optim.SGD(model.parameters(), rate),
        contextlib.nullcontext,
        training.clip,
    )
    keeper = Keeper(run, course, updater, {}, best_rank(run / CHECKPOINTS) if state.step else None)
    judge = None if values is None else Script(model, values)
    return Loop(course, updater, keeper, Validations(course, keeper, judge)), events


def steady(**options: Any) -> Training:
    return Training(schedule=ConstantRate(), **{"clip": 0.0, **options})


def saved(run: Path, name: str) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / name / "model.safetensors")


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_two_part_batches_are_one_batch(cut: int, tmp_path: Path) -> None:
    loop(tmp_path / "one", steady(steps=3))[0]()
    loop(tmp_path / "two", steady(steps=3, accumulate=2), [batch(slice(cut)), batch(slice(cut, None))])[0]()
    assert_close(saved(tmp_path / "two", "last"), saved(tmp_path / "one", "last"), rtol=1e-9, atol=1e-12)


def test_clipping_bounds_the_step_and_reports_the_norm_before_it(tmp_path: Path) -> None:
    def step_length(clip: float) -> tuple[float, float]:
        made, events = loop(tmp_path / str(clip), steady(steps=1, clip=clip), rate=1.0)
        before = {name: tensor.clone() for name, tensor in weights(made.updater.trainable.model).items()}
        made()
        after = weights(made.updater.trainable.model)
        moved = math.sqrt(sum(float((after[name] - before[name]).square().sum()) for name in before))
        return moved, events.of(Update)[0].norm

    free, norm = step_length(0.0)
    assert free == pytest.approx(norm)
    assert step_length(norm / 4) == pytest.approx((norm / 4, norm), rel=1e-4)
    assert step_length(norm * 4) == pytest.approx((norm, norm), rel=1e-4)


def test_patience_ends_training_at_the_best_model(tmp_path: Path) -> None:
    validation = Validation(every=1, patience=2)
    made, events = loop(tmp_path, steady(steps=100, validation=validation), values=[3, 1, 2, 1, 0])
    finished = made()
    assert (finished.reason, finished.step, finished.best_step) == ("patience", 4, 2)
    assert [event.best for event in events.of(Validated)] == [True, True, False, False]
    assert_close(saved(tmp_path, "best"), made.validations.judge.seen[1])  # type: ignore[union-attr]


def test_patience_counts_from_the_best_by_loss_where_metrics_are_level(tmp_path: Path) -> None:
    validation = Validation(every=1, patience=2)
    made, events = loop(tmp_path, steady(steps=100, validation=validation), values=[])
    losses = iter([4, 3, 2, 1, 2, 1])
    made.validations.judge = lambda allowed, part: Judgement(next(losses), {}, 0.0)
    assert (made().reason, made.course.state.step, made.course.state.best_step) == ("patience", 6, 4)
    assert [event.best for event in events.of(Validated)] == [True] * 4 + [False] * 2


def test_a_validation_that_is_no_number_is_never_the_best(tmp_path: Path) -> None:
    validation = Validation(every=1)
    made, _ = loop(tmp_path, steady(steps=3, validation=validation), values=[math.nan, 2, math.nan])
    assert made().best_step == 2


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_there_is_a_model_even_where_no_validation_is_a_number(value: float, tmp_path: Path) -> None:
    made, events = loop(tmp_path, steady(steps=3, validation=Validation(every=1)), values=[value] * 3)
    assert made().best_step == 3
    assert_close(saved(tmp_path, "best"), saved(tmp_path, "last"))
    assert not any(event.best for event in events.of(Validated))
    assert ["the last model is saved as the best" in each.text for each in events.of(Notice)] == [True]


class LeavesOut(CrossEntropy):
    """An objective that leaves out all pairs, or each pair of an odd batch."""

    seen, odd = 0, False

    def __call__(self, model: Any, given: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        loss, _ = super().__call__(model, given, progress, carry)
        type(self).seen += 1
        if self.odd and self.seen % 2 == 0:
            return loss, carry
        return Loss(0 * loss.total, 0, {"nll": 0 * loss.plain}), carry


def test_updates_of_no_pair_have_no_loss_and_an_epoch_of_them_is_refused(tmp_path: Path) -> None:
    made, events = loop(tmp_path, steady(steps=30, validation=Validation(every=1)), [batch()] * 4, values=[1] * 30)
    made.updater.trainable.objective = LeavesOut()
    with pytest.raises(ValueError, match="no pair of the training set can be learned from"):
        made()
    assert made.course.state.step == 4
    assert all(math.isnan(update.loss) and math.isnan(update.nll) for update in events.of(Update))
    made, events = loop(tmp_path, steady(steps=4, validation=Validation(every=1)), [batch()] * 4, values=[1] * 4)
    made.updater.trainable.objective = objective = LeavesOut()
    object.__setattr__(objective, "odd", True)
    LeavesOut.seen = 0
    made()
    assert [math.isnan(update.loss) for update in events.of(Update)] == [True, False, True, False]


@pytest.mark.parametrize("better", [True, False])
def test_the_average_is_the_mean_and_the_best_only_if_it_is(better: bool, tmp_path: Path) -> None:
    training = steady(steps=4, average=2, validation=Validation(every=1))
    made, events = loop(tmp_path, training, values=[5, 4, 3, 2, 1 if better else 2.5])
    made()
    seen = made.validations.judge.seen  # type: ignore[union-attr]
    mean = {name: (seen[2][name] + seen[3][name]) / 2 for name in seen[2]}
    assert_close(saved(tmp_path, "average"), mean)
    assert_close(saved(tmp_path, "best"), mean if better else seen[3])
    assert_close(saved(tmp_path, "last"), seen[3])  # training would go on from the model itself
    assert [event.what for event in events.of(Validated)] == ["valid"] * 4 + ["average"]
    assert not list((tmp_path / "checkpoints" / "recent").iterdir())


def test_an_average_that_is_the_best_is_what_patience_counts_from(tmp_path: Path) -> None:
    made, _ = loop(tmp_path, steady(steps=3, average=2, validation=Validation(every=1)), values=[2, 3, 4, 1])
    made()
    assert (made.course.state.best, made.course.state.stale) == (Rank("loss", 1, 1), 0)


def test_what_was_kept_for_an_average_is_not_averaged_where_none_is_wanted_any_more(tmp_path: Path) -> None:
    first, _ = loop(tmp_path, steady(steps=4, average=3, validation=Validation(every=1)), values=[4, 3, 2])
    with pytest.raises(StopIteration):
        first()
    assert len(first.course.state.recent) > 1
    less = steady(steps=8, validation=Validation(every=1))
    made, events = loop(tmp_path, less, values=[1] * 4 + [0], state=first.course.state)
    made()
    assert {event.what for event in events.of(Validated)} == {"valid"}
    assert not (tmp_path / "checkpoints" / "average").exists()


def test_the_plateau_schedule_is_told_of_validations(tmp_path: Path) -> None:
    training = Training(steps=5, clip=0, schedule=ReduceOnPlateau(0.5, 2), validation=Validation(every=1))
    made, events = loop(tmp_path, training, values=[1, 2, 3, 4, 5])
    made()
    assert [event.rate for event in events.of(Update)] == [0.5, 0.5, 0.5, 0.25, 0.25]


def test_validations_are_spread_over_the_budget(tmp_path: Path) -> None:
    made, events = loop(tmp_path, steady(steps=12, validation=Validation(times=4)), values=[4, 3, 2, 1])
    made()
    assert [event.step for event in events.of(Validated)] == [3, 6, 9, 12]


def test_of_a_larger_budget_what_is_left_is_validated_as_often(tmp_path: Path) -> None:
    first, _ = loop(tmp_path, steady(steps=10, validation=Validation(times=5)), values=[9] * 5)
    first()
    larger = steady(steps=100, validation=Validation(times=5))
    made, events = loop(tmp_path, larger, values=[9] * 5, state=first.course.state)
    made.updater.trainable.objective = Quick()
    made()
    assert [event.step for event in events.of(Validated)] == [20, 40, 60, 80, 100]


def test_a_validation_that_takes_long_is_not_made_up_for(tmp_path: Path) -> None:
    """Updates of a second and validations of 13, ten of them asked for in a minute."""
    now = 0.0
    training = steady(minutes=1, validation=Validation(times=10))
    made, events = loop(tmp_path, training, values=[], clock=lambda: now)

    @contextlib.contextmanager
    def second() -> Iterator[None]:
        nonlocal now
        now += 1
        yield

    def judge(allowed: float, part: float) -> Judgement:
        nonlocal now
        now += 13
        return Judgement(0.0, {}, 0.0)

    made.updater.autocast, made.validations.judge = second, judge
    made()
    steps = [0, *(event.step for event in events.of(Validated))]
    assert len(steps) > 3
    assert min(after - before for before, after in pairwise(steps)) > 2


@pytest.mark.parametrize("judged", [True, False])
def test_where_nothing_is_validated_it_is_saved_all_the_same(judged: bool, tmp_path: Path) -> None:
    training = steady(steps=50, validation=Validation(times=0 if judged else 4))
    made, _ = loop(tmp_path, training, values=[1] if judged else None)
    made.updater.trainable.objective = Quick()
    made.course.callbacks = [stops := Stops(tmp_path / "checkpoints" / "last", 27)]
    made()
    assert stops.saved == 25


def test_without_validation_data_the_last_is_the_best(tmp_path: Path) -> None:
    made, events = loop(tmp_path, steady(steps=2))
    assert made().best_step == 2
    assert_close(saved(tmp_path, "best"), saved(tmp_path, "last"))
    assert not events.of(Validated)


def test_epochs_are_counted_in_batches(tmp_path: Path) -> None:
    parts = [batch(slice(1)), batch(slice(1, 3)), batch(slice(3, None))]
    made, _ = loop(tmp_path, steady(epochs=2), parts)
    assert made().step == 6


def test_minutes_end_training(tmp_path: Path) -> None:
    made, events = loop(tmp_path, steady(minutes=0.005))
    finished = made()
    assert finished.reason == "budget"
    assert 0.3 <= finished.seconds < 30
    assert events.of(Update)[-1].progress <= 1


def test_the_last_updates_are_checked_before_a_best_model_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without validation data, and between two reports: there are ten updates from one to the next."""
    explode(monkeypatch, 5)
    made, _ = loop(tmp_path, steady(steps=7, checkpoint_every=100))
    with pytest.raises(DivergenceError, match="update 5: the loss is nan"):
        made()
    assert not (tmp_path / "checkpoints" / "best").exists()


class Carrying:
    """An objective that counts its batches in ``carry``, and tallies three events in each."""

    def __init__(self) -> None:
        self.carried: list[int | None] = []

    def __call__(self, model: Any, given: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        self.carried.append(None if carry is None else int(carry[0]))
        loss, _ = CrossEntropy()(model, given, progress)
        count = torch.zeros(1) if carry is None else carry[0]
        return Loss(loss.total, loss.count, loss.parts, {"events": 3}), (count + 1,)


def test_what_an_objective_carries_is_handed_from_batch_to_batch(tmp_path: Path) -> None:
    made, _ = loop(tmp_path, steady(steps=2, accumulate=2))
    made.updater.trainable.objective = objective = Carrying()
    made()
    assert objective.carried == [None, 1, 2, 3]
    assert made.updater.carry == (4,)


def test_tallies_are_reported_as_sums_and_not_a_token(tmp_path: Path) -> None:
    made, events = loop(tmp_path, steady(steps=12, accumulate=2, checkpoint_every=12))
    made.updater.trainable.objective = Carrying()
    made()
    assert [update.tallies for update in events.of(Update)] == [{"events": 60}, {"events": 12}]


# ------------------------------------------------ a budget for validation, advice


@dataclass
class Timed:
    """A loop whose clock is ours: an update, a validation's loss and its search take as many seconds."""

    run: Path
    training: Training
    update: float
    search: float
    now: float = 0.0
    loss: float = 1.0
    allowed: list[float] = field(default_factory=list)

    def __call__(self) -> tuple[Loop, Events]:
        batches = [batch()] * 1000
        made, events = loop(self.run, self.training, batches, values=[], rate=1e-3, clock=lambda: self.now)
        made.updater.autocast, made.validations.judge = self.second, self.judge
        made.updater.trainable.objective = Quick()
        made()
        return made, events

    @contextlib.contextmanager
    def second(self) -> Iterator[None]:
        self.now += self.update
        yield

    def judge(self, allowed: float, part: float) -> Judgement:
        self.allowed.append(allowed)
        loss, search = part * self.loss, part * self.search
        if loss > allowed:
            self.now += loss / 50
            raise TooSlowError(loss)
        self.now += loss
        if loss + search > allowed:
            return Judgement(9 - self.now / 100, {}, None, "exact", search)
        self.now += search
        return Judgement(9 - self.now / 100, {"exact": self.now}, -self.now, "exact", self.search)


@pytest.mark.slow
def test_validation_takes_its_share_of_the_time_and_the_last_one_searches(tmp_path: Path) -> None:
    """Ten validations in ten minutes, with searches of 38 seconds: two thirds of the time, if all of them searched."""
    validation = Validation(times=10, share=0.2, metrics=("exact",), patience=2)
    made, events = Timed(tmp_path, steady(minutes=10, validation=validation), update=1.0, search=38.0)()
    searched = [bool(each.metrics) for each in events.of(Validated)]
    assert not any(searched[:3]), "a fifth of the first three minutes is less than a search takes"
    assert searched[-1]
    assert sum(searched) == 2
    assert made.course.state.validating <= 0.2 * made.course.seconds, "the last validation is part of the share"
    assert made.course.seconds <= 601, "the last search has its time in reserve"
    (notice,) = events.of(Notice)
    assert (
        "validation computes the loss alone: a search for exact would take about 38 s, and validation may take 20 %"
        in notice.text
    )


@pytest.mark.parametrize(
    ("loss", "search", "average"), [(0.5, 3.0, 1), (1.0, 9.0, 1), (2.0, 300.0, 3), (50.0, 500.0, 1), (50.0, 0.0, 1)]
)
def test_all_validations_together_take_at_most_their_share(
    loss: float, search: float, average: int, tmp_path: Path
) -> None:
    """The budget is two minutes. A validation on all examples would take 3.5 to 550 seconds. The last one searches."""
    training = steady(minutes=2, validation=Validation(metrics=("exact",)), average=average)
    made, events = Timed(tmp_path, training, update=1.0, search=search, loss=loss)()
    assert made.course.state.validating <= 0.1 * made.course.seconds
    assert 110 < made.course.seconds < 121
    assert [bool(each.metrics) for each in events.of(Validated) if each.what == "valid"][-1]
    assert (made.course.state.part == 1) == (average * (loss + search) <= 12 / 3)


def test_a_model_is_the_best_by_its_loss_only_until_one_was_searched_with(tmp_path: Path) -> None:
    """And a validation of the loss alone counts neither for patience nor for a schedule."""
    made, events = loop(tmp_path, steady(minutes=1, validation=Validation(every=1, patience=2)), values=[])
    judgements = iter(
        [
            *(Judgement(loss, {}, None, "exact") for loss in (3.0, 2.0, 2.5, 2.5, 2.5)),
            Judgement(4.0, {"exact": 1.0}, -1.0, "exact"),
            *(Judgement(loss, {}, None, "exact") for loss in (0.5, 0.5)),
            *(Judgement(5.0, {"exact": 0.5}, -0.5, "exact") for _ in range(2)),
        ]
    )
    made.validations.judge = lambda allowed, part: next(judgements)
    finished = made()
    assert [event.best for event in events.of(Validated)] == [True, True, *[False] * 3, True, *[False] * 4]
    assert (finished.reason, finished.step, finished.best_step) == ("patience", 10, 6)
    assert made.course.state.validations == (-1.0, -0.5, -0.5)


def test_a_validation_is_left_out_where_even_its_loss_takes_too_long(tmp_path: Path) -> None:
    """Losses of 25 seconds and searches of 50, ten times in three minutes, would be all of the time."""
    validation = Validation(times=10, metrics=("exact",))
    training = steady(minutes=3, validation=validation, average=2)
    _, events = Timed(tmp_path, training, update=5.0, search=50.0, loss=25.0)()
    searched = [each.what for each in events.of(Validated) if each.metrics]
    assert searched[-2:] == ["valid", "average"]
    first, second, *_ = (notice.text for notice in events.of(Notice))
    assert "validation computes nothing: the loss would take about 25 s" in first
    assert "validation uses 6 % of its data from here on, evenly spaced: it takes at most 10 % of the time" in second


def test_a_budget_without_minutes_leaves_validation_all_the_time_it_takes(tmp_path: Path) -> None:
    """Without a limit on minutes, results must not depend on the clock, so that a resumed run computes the same."""
    timed = Timed(tmp_path, steady(steps=20, validation=Validation(times=4)), update=1.0, search=1000.0)
    _, events = timed()
    assert timed.allowed == [math.inf] * 4
    (notice,) = events.of(Notice)
    assert "validation took 1001 of 1006 s so far: less with fewer examples" in notice.text


def judge_with_clock(examples: int, seconds_each: float) -> tuple[Judge, list[int]]:
    """A judge whose search takes time by our clock, and how many examples each search was for."""
    judge, searched, now = object.__new__(Judge), [], [0.0]

    class Searcher:
        context = None

        def evaluate(self, chosen: Sequence[Example], metrics: Any, batch_size: int, told: bool) -> Any:
            searched.append(len(chosen))
            now[0] += seconds_each * len(chosen)
            return SimpleNamespace(scores={"exact": 50.0}, cut=0.0)

    judge.metrics = [metric("exact")]
    judge.examples = [Example(str(number)) for number in range(examples)]
    judge.transducer, judge.clock, judge.seconds_each = Searcher(), lambda: now[0], None  # type: ignore[assignment]
    judge._loss = lambda allowed, part: 2.0  # type: ignore[method-assign]
    judge._constant = lambda chosen: None  # type: ignore[method-assign]
    judge.crew = ALONE
    return judge, searched


def test_a_search_is_timed_on_a_sample_before_it_is_begun() -> None:
    judge, searched = judge_with_clock(640, seconds_each=0.1)
    assert judge(30.0) == Judgement(2.0, {}, None, "exact", pytest.approx(64.0))
    samples = [8, 16, 32, 64]
    assert searched == samples
    assert judge(70.0) == Judgement(2.0, {"exact": 50.0}, -50.0, "exact", pytest.approx(64.0))
    assert searched == [*samples, 640], "what it takes was known"
    assert judge(-1.0) == Judgement(2.0, {}, None, "exact", pytest.approx(64.0))
    assert searched == [*samples, 640], "there was no time for a sample either"


def test_a_sample_that_takes_too_long_is_not_begun() -> None:
    """Eight examples take four seconds. The next sample would take eight, and six are left."""
    judge, searched = judge_with_clock(640, seconds_each=0.5)
    assert judge(10.0) == Judgement(2.0, {}, None, "exact", pytest.approx(320.0))
    assert searched == [8]


def test_what_a_search_takes_is_learned_once_even_without_time() -> None:
    """So that the last validation, which always searches, has its time in reserve."""
    judge, searched = judge_with_clock(640, seconds_each=0.1)
    assert judge(-1.0) == judge(-1.0) == Judgement(2.0, {}, None, "exact", pytest.approx(64.0))
    assert searched == [8]


@pytest.mark.parametrize(("part", "count"), [(1.0, 640), (0.25, 160), (0.01, 64)])
def test_slow_metrics_use_a_part_of_the_validation_data(part: float, count: int) -> None:
    """A part has at least 64 examples, because fewer would choose badly."""
    judge, searched = judge_with_clock(640, seconds_each=0.1)
    assert judge(90.0, part).search_seconds == pytest.approx(0.1 * count)
    assert searched == [8, 16, 32, 64, *([count] if count > 64 else [])], "the last sample may be all"


def test_a_loss_that_takes_too_long_is_given_up_after_a_batch(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the last validation has as many batches as fit."""
    now, batches = [0.0], [0]  # of each validation, and 0 while there is none
    forward = Trainable.forward

    def slow(trainable: Trainable, given: Batch, *rest: Any) -> Any:
        now[0] += 1.0 if trainable.training else 0.5
        if not trainable.training:
            batches[-1] += 1
        elif batches[-1]:
            batches.append(0)
        return forward(trainable, given, *rest)

    monkeypatch.setattr(Trainable, "forward", slow)
    monkeypatch.setitem(CLOCKS, "wall", lambda: now[0])
    budget = {"training.steps": 10**6, "training.minutes": 1, "training.validation.metrics": []}
    often = {"training.validation.every": 10, "training.batching.sentences": 2, "training.average": 1}
    events = Events()
    train(tmp_path / "run", tiny | budget | often, events)
    assert len(events.of(Validated)) == 1, "the last"
    *left_out, last = batches
    assert set(left_out) == {1}
    assert 1 < last <= 4, "a third of the share, two seconds, has four batches"


def test_a_search_that_takes_as_long_as_it_takes_is_not_timed_first() -> None:
    judge, searched = judge_with_clock(640, seconds_each=0.1)
    assert judge().metrics == {"exact": 50.0}
    assert searched == [640]


def test_validation_keeps_its_share_of_a_training_that_its_updates_end(tmp_path: Path) -> None:
    """A limit of an hour would allow 360 seconds. The updates end after 100."""
    training = steady(minutes=60, steps=100, validation=Validation(metrics=("exact",)))
    made, events = Timed(tmp_path, training, update=1.0, search=9.0)()
    assert made.course.state.step == 100
    assert made.course.state.validating <= 0.1 * made.course.seconds
    assert [bool(each.metrics) for each in events.of(Validated)][-1]


@pytest.mark.parametrize(("sample", "seconds"), [(20.0, 12.0), (500.0, 12.0)])
def test_a_validation_that_never_fits_leaves_the_time_to_training(
    sample: float, seconds: float, tmp_path: Path
) -> None:
    """A real judge whose smallest search takes longer than all validations may: only losses are left."""
    training = steady(minutes=2, validation=Validation(metrics=("exact",)), average=3)
    timed = Timed(tmp_path, training, update=1.0, search=0.0)
    judge, _ = judge_with_clock(640, seconds_each=sample / 64)
    judge.clock = lambda: timed.now

    class Slow:
        context = None

        def evaluate(self, chosen: Sequence[Example], *_: Any, **__: Any) -> Any:
            timed.now += sample * len(chosen) / 64
            return SimpleNamespace(scores={"exact": 50.0}, cut=0.0)

    judge.transducer = Slow()  # type: ignore[assignment]
    timed.judge = judge  # type: ignore[method-assign, assignment]
    made, events = timed()
    trial = sample / 8
    assert made.course.state.validating <= max(seconds, trial)
    assert made.course.state.best is not None
    assert not any(each.metrics for each in events.of(Validated))


@pytest.mark.parametrize("share", [0.0, 1.5, math.nan])
def test_a_share_for_validation_without_sense_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=rf"training\.validation\.share = {share}: more than 0 and at most 1"):
        Validation(share=share)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (
            Budget(minutes=30, steps=2000),
            r"after about 600 of 2,000 updates \(training.minutes = 30\).* --minutes 100,",
        ),
        (Budget(minutes=30, steps=800), None),
        (Budget(minutes=30), None),
        (Budget(steps=10**6), None),
    ],
)
def test_a_clock_that_ends_training_early_is_told(budget: Budget, expected: str | None) -> None:
    """At 20 updates a minute."""
    line = budget.too_slow(20, 60)
    assert (line is None) == (expected is None)
    assert expected is None or re.search(expected, str(line))
    assert budget.too_slow(0, 60) is None


def test_the_clock_is_looked_at_once_after_the_first_minute(tmp_path: Path) -> None:
    training = steady(minutes=3, steps=1000, validation=Validation(times=0))
    _, events = Timed(tmp_path, training, update=3.0, search=0.0)()
    (notice,) = events.of(Notice)
    assert "the clock will end training after about 60 of 1,000 updates" in notice.text
    assert 60 <= notice.step * 3.0 <= 100


# -------------------------------------------------------------------- budgets


def test_a_budget_is_used_up_by_what_ends_first() -> None:
    budget = Budget(steps=10, epochs=4, minutes=1)
    assert budget.progress(5, 1, 6) == 0.5
    assert budget.progress(5, 3, 6) == 0.75
    assert budget.progress(5, 3, 54) == 0.9
    assert budget.progress(5, 3, 45, reserve=15) == 1.0
    assert budget.progress(0, 0, 1, reserve=60) > 1  # the reserve for the last validation takes all the time


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"no end: set training\.steps, training\.epochs or training\.minutes"),
        ({"steps": 0}, r"training\.steps = 0: more than 0"),
        ({"minutes": -1}, r"training\.minutes = -1: more than 0"),
        ({"minutes": math.nan}, r"training\.minutes = nan: more than 0"),
        ({"steps": 1, "accumulate": 0}, r"training\.accumulate = 0: at least 1"),
        ({"steps": 1, "average": 0}, r"training\.average = 0: at least 1"),
        ({"steps": 1, "checkpoint_every": 0}, r"training\.checkpoint_every = 0: at least 1"),
        ({"steps": 1, "clip": -1.0}, r"training\.clip = -1\.0: at least 0"),
        ({"steps": 1, "seed": -1}, r"training\.seed = -1: at least 0"),
    ],
)
def test_training_without_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Training(**options)


@pytest.mark.parametrize("name", ["every", "examples", "patience"])
def test_validation_without_sense_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"training\.validation\.{name} = 0: at least 1"):
        Validation(**{name: 0})


@pytest.mark.parametrize("schedule", [ConstantRate, InverseSquareRoot, CosineDecay, LinearDecay, ReduceOnPlateau])
def test_a_schedule_without_sense_is_refused(schedule: Any) -> None:
    with pytest.raises(ValueError, match="warmup = -5: at least 0 was expected"):
        schedule(warmup=-5)


@pytest.mark.parametrize("schedule", [CosineDecay, LinearDecay])
@pytest.mark.parametrize("floor", [-1.0, 1.5, math.nan])
def test_a_rate_ends_at_a_share_of_its_peak(schedule: Any, floor: float) -> None:
    with pytest.raises(ValueError, match=rf"floor = {floor}: a number from 0 to 1"):
        schedule(floor=floor)


@pytest.mark.parametrize("factor", [-1.0, 0.0, 1.0])
def test_a_plateau_lowers_the_rate(factor: float) -> None:
    with pytest.raises(ValueError, match=rf"factor = {factor}: a share of the rate, more than 0 and less than 1"):
        ReduceOnPlateau(factor=factor)


def test_a_plateau_waits_for_one_validation_at_least() -> None:
    with pytest.raises(ValueError, match="patience = 0: at least 1 was expected"):
        ReduceOnPlateau(patience=0)


# ------------------------------------------------------------------ precision


def test_precision_auto_is_one_of_the_two_and_others_are_as_they_are() -> None:
    chosen = choose_precision("auto", CPU)
    assert chosen.precision in ("float32", "bfloat16")
    assert "times as long as in float32" in chosen.reason
    assert choose_precision("bfloat16", CPU) == PrecisionChoice("bfloat16")
    assert choose_precision("float32", CPU) == PrecisionChoice("float32")


def test_bfloat16_multiplies_in_bfloat16_and_float32_does_not() -> None:
    x = torch.ones(2, 2)
    for precision, dtype in (("bfloat16", torch.bfloat16), ("float32", torch.float32)):
        with autocast(precision, CPU)():  # type: ignore[arg-type]
            assert (x @ x).dtype == dtype


# ------------------------------------------------------------------ whole runs


def train(run: Path, settings: Any, *callbacks: Callback, **options: Any) -> transduce.Transducer:
    return api.train("reverse", run, settings, callbacks=callbacks, device="cpu", progress=False, **options)


def explode(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Makes the loss NaN from update number ``at`` on."""
    true, calls = CrossEntropy.__call__, iter(range(1, 1000))

    def exploding(self: CrossEntropy, model: Any, *arguments: Any) -> Any:
        loss, carry = true(self, model, *arguments)
        if model.training and next(calls) >= at:
            loss = transduce.core.types.Loss(loss.total * math.nan, loss.count, loss.parts)
        return loss, carry

    monkeypatch.setattr(CrossEntropy, "__call__", exploding)


def test_no_number_stops_naming_the_update_and_keeps_the_last_good(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explode(monkeypatch, 7)
    events = Events()
    with pytest.raises(
        DivergenceError, match=r"update 7: the loss is nan.*checkpoints/last.*training\.optimizer\.rate"
    ):
        train(tmp_path / "run", tiny, events)
    assert events.told[-1].reason == "DivergenceError"
    assert json.loads((tmp_path / "run" / "checkpoints" / "last" / "state.json").read_text())["step"] == 6
    for name in ("last", "best"):
        assert all(tensor.isfinite().all() for tensor in saved(tmp_path / "run", name).values())
    assert isinstance(transduce.load(tmp_path / "run", "last", "cpu")("abc"), str)


def test_no_number_before_any_checkpoint_promises_none(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explode(monkeypatch, 1)
    with pytest.raises(DivergenceError, match=r"update 1: .*None is saved"):
        train(tmp_path / "run", tiny)


def test_callbacks_are_told_in_order_and_files_written(tiny: dict[str, Any], tmp_path: Path) -> None:
    first, second = Events(), Events()
    train(tmp_path / "run", tiny, first, second)
    assert first.told == second.told
    kinds = [type(event) for event in first.told]
    assert (kinds[0], kinds[-1]) == (Started, Finished)
    assert [event.step for event in first.of(Validated)] == [3, 6, 8, 8]
    assert first.of(Update)[-1].step == 8
    steps = [event.step for event in first.told[1:]]
    assert steps == sorted(steps)

    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == steps[:-1]
    last = [record for record in records if record["event"] == "validation"][-1]
    assert set(last) == {"event", "step", "loss", "metrics", "best", "seconds", "what", "cut"}
    assert {"loss", "nll", "norm", "rate", "tokens_per_second", "progress", "seconds"} < set(records[0])
    assert records[0]["parts"] == {}, "cross-entropy has none but nll"


def test_metrics_after_the_checkpoint_are_dropped_on_resuming(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"step"')
    JsonLines(path).on_start(Started(tmp_path, 0, 2, "cpu", "float32"))
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'


@pytest.mark.parametrize("precision", ["auto", "bfloat16"])
def test_the_precision_chosen_is_written_down(precision: str, tiny: dict[str, Any], tmp_path: Path) -> None:
    train(tmp_path / "run", tiny | {"training.precision": precision, "training.steps": 2})
    written = config.read(tmp_path / "run" / "config.toml")["training"]["precision"]
    assert written in (("float32", "bfloat16") if precision == "auto" else (precision,))


def test_a_directory_that_holds_a_run_is_refused(tiny: dict[str, Any], own_run: Path) -> None:
    before = (own_run / "config.toml").read_bytes()
    with pytest.raises(RunExistsError, match=r"already holds a run.*--resume.*--overwrite.*--out"):
        train(own_run, tiny | {"training.steps": 1})
    assert (own_run / "config.toml").read_bytes() == before


def test_a_slip_deletes_nothing(tiny: dict[str, Any], own_run: Path) -> None:
    with pytest.raises(config.ConfigError, match="stepz"):
        train(own_run, tiny | {"training.stepz": 1}, overwrite=True)
    assert (own_run / "checkpoints" / "last").exists()
    with pytest.raises(ValueError, match="one of them"):
        train(own_run, tiny, overwrite=True, resume=True)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"training.validation.metrics": ["exakt"]}, 'did you mean "exact"'),
        ({"metrics": ["blue"]}, 'did you mean "bleu"'),
        ({"training.steps": 0}, "training.steps = 0"),
        ({"metrics": []}, r"metrics: \[\]: by what evaluation measures was expected"),
        ({"model.encoder.widht": 3}, "width"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(
    setting: dict[str, Any], message: str, tiny: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        train(tmp_path / "run", tiny | setting | {"data.cache": str(tmp_path / "cache")})
    assert list(tmp_path.iterdir()) == []


def files(folder: Path, sources: Sequence[str], targets: Sequence[str]) -> dict[str, Any]:
    folder.mkdir()
    for name, lines in (("source", sources), ("target", targets)):
        (folder / name).write_text("".join(line + "\n" for line in lines))
    return {"data.train": {"source": str(folder / "source"), "target": str(folder / "target")}}


def test_what_is_left_out_is_counted_and_told(tiny: dict[str, Any], tmp_path: Path) -> None:
    train_files = files(tmp_path / "text", ["ab", "", "abcdefgh", "b", "a"], ["ba", "x", "hgfedcba", "b", ""])
    events = Events()
    settings = tiny | train_files | {"data.lines.max_source_length": 5, "training.steps": 2}
    train(tmp_path / "run", settings, events)
    report = "\n".join(events.told[0].report)
    source, target = tmp_path / "text" / "source", tmp_path / "text" / "target"
    assert "train: 2 pairs" in report
    assert f"2 empty (skip): {source}:2, {target}:5" in report
    assert f"1 overlong (skip): {source}:3" in report


LEFT_OUT = (
    "your data replace the recipe's, so its data.origin (reverse) is left out: there is no valid and no test split; "
    "set data.valid and data.test, or data.origin.type=reverse if the recipe's fit your data"
)
OF_THE_ORIGIN = "of the origin reverse, not of your training data"


def test_splits_of_other_data_are_left_out_or_told(tiny: dict[str, Any], tmp_path: Path) -> None:
    """A user who sets only the training data must not be measured on the recipe's test data, except on purpose."""
    own = files(tmp_path / "text", ["ab", "b"], ["ba", "b"])
    test = {f"data.test.{side}": path for side, path in own["data.train"].items()}
    without = {key: value for key, value in tiny.items() if key != "data.origin"}
    for settings, told in [
        (tiny, []),
        (without | own, [LEFT_OUT]),
        (tiny | own, [f"valid and test: {OF_THE_ORIGIN}; set data.valid and data.test"]),
        (tiny | own | test, [f"valid: {OF_THE_ORIGIN}; set data.valid"]),
    ]:
        events = Events()
        train(tmp_path / "run", settings | {"training.steps": 1}, events, overwrite=True)
        assert [line for line in events.told[0].report if "data.origin (" in line or "of the origin" in line] == told
        assert (Run.open(tmp_path / "run").prepared().valid is None) == ("left out" in "".join(told))


def test_files_of_unequal_length_are_refused_before_anything_is_written(tiny: dict[str, Any], tmp_path: Path) -> None:
    train_files = files(tmp_path / "text", ["a", "b", "c"], ["a", "b"])
    with pytest.raises(ValueError, match=r"(?s)3.*2"):
        train(tmp_path / "run", tiny | train_files)
    assert not (tmp_path / "run").exists()


def test_validation_examples_are_spread() -> None:
    """Dictionaries are sorted: the first examples are no sample of them."""
    found = [Example(str(number), (str(number),)) for number in range(10)]
    assert [example.source for example in spread(found, 3)] == ["0", "3", "6"]
    assert spread(found, None) == spread(found, 99) == found


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("metrics", [["exact"], []])
def test_validation_loses_as_training_does_and_on_as_much_as_metrics_see(
    precision: str, metrics: list[str], tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the metrics use one example of many, the loss uses one batch. Without metrics, it uses all batches."""
    judged: list[tuple[bool, int]] = []
    forward = Trainable.forward

    def spied(trainable: Trainable, given: Batch, *rest: Any) -> Any:
        if not trainable.training:
            judged.append((torch.is_autocast_enabled("cpu"), len(given.ids)))
        return forward(trainable, given, *rest)

    monkeypatch.setattr(Trainable, "forward", spied)
    options = {"precision": precision, "steps": 1, "batching.sentences": 2}
    options |= {"validation.times": 1, "validation.examples": 1, "validation.metrics": metrics}
    train(tmp_path / "run", tiny | {f"training.{key}": value for key, value in options.items()})
    assert {bfloat16 for bfloat16, _ in judged} == {precision == "bfloat16"}
    assert (sum(rows for _, rows in judged) <= 2) == bool(metrics)


def test_several_targets_of_a_line_are_no_reason_to_look_at_fewer_batches(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All lines are measured, so the loss is of all pairs, of which there are three times as many."""
    (tmp_path / "valid.tsv").write_text(
        "".join(f"{letter}b\tb{letter}\n{letter}b\tx\n{letter}b\ty\n" for letter in "cdefg")
    )
    losses: list[float] = []

    class Told(Callback):
        def on_validation(self, validated: Validated) -> None:
            losses.append(validated.loss)

    valid = {"data.valid.path": str(tmp_path / "valid.tsv"), "training.steps": 1, "training.batching.sentences": 2}
    plain = {name: value for name, value in tiny.items() if name != "training.validation.examples"}
    for name, metrics in (("all", []), ("measured", ["exact"])):
        train(tmp_path / name, plain | valid | {"training.validation.metrics": metrics}, Told())
    assert losses[0] == losses[-1]


def test_what_is_left_out_of_validation_is_told_once(
    tiny: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The report mentions it once. Reading the validation text again for the metrics logs nothing."""
    (tmp_path / "valid.tsv").write_bytes(b"abc\tcba\ncaf\xe9\tb\n")
    report: list[str] = []

    class Report(Callback):
        def on_start(self, started: Started) -> None:
            report.extend(started.report)

    settings = tiny | {"data.valid.path": str(tmp_path / "valid.tsv"), "training.steps": 1}
    api.train("reverse", tmp_path / "run", settings, callbacks=[Report()], device="cpu", progress=False)
    assert sum("undecodable" in line for line in report) == 1
    assert "undecodable" not in caplog.text
