"""The training loop: one for every model. It knows nothing but ``loss(batch)``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from transduce.data.batching import Batches
from transduce.errors import StoppedError
from transduce.models.weights import set_weights, weights
from transduce.objectives.cross_entropy import Trainable
from transduce.runs.checkpoints import Rank, best_rank, save_weights_alone
from transduce.runs.layout import CHECKPOINTS, Checkpoint
from transduce.runs.recent_weights import average_recent, forget_recent, keep_recent
from transduce.runs.training_state import State, save_training
from transduce.training.augmentation.base import augmented
from transduce.training.callbacks import Callback, Finished, Saved, Update, Validated
from transduce.training.clocks import CLOCKS
from transduce.training.interruption import Interruption
from transduce.training.settings import Training
from transduce.types import Loss

SAVES = 10  # in a budget, where no validation is an occasion
REPORT_EVERY = 10  # updates between looks at the loss: on a GPU each look waits for the device


class DivergenceError(StoppedError):
    """The loss or the gradient is no longer a number."""


@dataclass(frozen=True)
class Judgement:
    """What a validation found: mean loss, metrics, and ``value``, lower being better, that chooses the best model.

    ``measure`` names the metric that the value is of, or is "loss".
    """

    loss: float
    metrics: dict[str, float]
    value: float
    measure: str = "loss"

    @property
    def rank(self) -> Rank:
        """A value or a loss that is not a number is the worst."""
        return Rank(self.measure, _worst_if_nan(self.value), _worst_if_nan(self.loss))


@dataclass
class Loop:
    """Updates, validations and checkpoints until the budget ends.

    ``judge`` validates the model as it is (None: there is nothing to validate on, and the last model is the best);
    ``state`` is where training stands, replaced as it goes.
    """

    trainable: Trainable
    optimizer: torch.optim.Optimizer
    batches: Batches
    training: Training
    judge: Callable[[], Judgement] | None
    autocast: Callable[[], AbstractContextManager[Any]]
    callbacks: Sequence[Callback]
    run: Path
    configuration: str
    state: State

    def __post_init__(self) -> None:
        self.checkpoints = self.run / CHECKPOINTS
        self.parameters = [p for p in self.trainable.parameters() if p.requires_grad]
        self.peaks = [group["lr"] for group in self.optimizer.param_groups]
        self.device = self.parameters[0].device
        self.recent: list[_Recent] = []
        self.fetched: Iterator[Any] = self.batches.iterate(self.state.place)
        self.carry: Any = None
        self.clock = CLOCKS[self.training.clock]
        self.began = self.clock() - self.state.seconds
        self.reported = self.began + self.state.seconds
        self.passed = self.progress  # of the budget, when last asked whether a validation is due
        self.kept = best_rank(self.checkpoints) if self.state.step else None  # of the weights in checkpoints/best

    # ------------------------------------------------------------- the loop

    def __call__(self) -> Finished:
        try:
            with Interruption() as interruption:
                reason = self._train(interruption)
                if reason in ("budget", "patience"):
                    self._finish()
                    reason = interruption.signal or reason
            self._save()
        except BaseException as error:
            self._close(type(error).__name__)
            raise
        return self._close(reason)

    def _close(self, reason: str) -> Finished:
        finished = Finished(
            self.run, reason, self.state.step, self.state.best_step, self.seconds, self.state.validating
        )
        for callback in self.callbacks:
            callback.on_finish(finished)
        return finished

    def _train(self, interruption: Interruption) -> str:
        self.trainable.train()
        while self.progress < 1:
            if interruption.signal:
                return interruption.signal
            if self._out_of_patience:
                return "patience"
            self._update()
            step = self.state.step
            if step % REPORT_EVERY == 0:
                self._report()
            due = self._due()
            if due and self.validates:
                self._validate()
            every = self.training.checkpoint_every
            if (every and step % every == 0) or (not every and due):
                self._save()
        return "budget"

    @property
    def seconds(self) -> float:
        return self.clock() - self.began

    @property
    def epochs(self) -> float:
        place = self.state.place
        if self.training.epochs is None:
            return 0.0  # nobody asks, and counting an epoch's batches is work
        return place.epoch + min(place.batch / self.batches.per_epoch, 1.0)

    @property
    def progress(self) -> float:
        return self.training.budget.progress(self.state.step, self.epochs, self.seconds, self.state.reserve)

    @property
    def validates(self) -> bool:
        """Whether it validates on the way, and not only in the end, if at all."""
        validation = self.training.validation
        return self.judge is not None and bool(validation.every or validation.times)

    @property
    def _out_of_patience(self) -> bool:
        patience = self.training.validation.patience
        return patience is not None and self.state.stale >= patience

    def _update(self) -> None:
        """Gradients summed over ``accumulate`` batches, divided once by all their tokens, clipped and applied."""
        progress = self.progress
        losses: list[Loss] = []
        for _ in range(self.training.accumulate):
            batch, place = next(self.fetched)
            batch = augmented(self.training.augmentation, batch, place.epoch, self.training.seed)
            with self.autocast():
                loss, self.carry = self.trainable(batch.to(self.device), progress, self.carry)
            loss.total.backward()
            losses.append(loss)
        count = sum(loss.count for loss in losses)
        norm = self._scale_gradients(count)
        step = self.state.step + 1
        share = self.training.schedule(step, progress, self.state.validations)
        for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * share
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.recent.append(
            _Recent(
                step,
                _sum(loss.total.detach() for loss in losses),
                _sum(loss.plain for loss in losses),
                {name: _sum(loss.parts[name].detach() for loss in losses) for name in losses[0].parts if name != "nll"},
                norm,
                count,
                self.peaks[0] * share,
            )
        )
        self.state = replace(self.state, step=step, place=place, tokens=self.state.tokens + count)

    def _scale_gradients(self, count: int) -> Tensor:
        """Sums to means, clipped by norm, in one multiplication; returns the norm before clipping."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients) / count
        scale = torch.ones_like(norm)
        if self.training.clip:
            scale = (self.training.clip / (norm + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(gradients, scale / count)
        return norm

    def _report(self) -> None:
        """Tell of the updates since the last report; stop where the numbers have gone."""
        if not self.recent:
            return
        recent, self.recent = self.recent, []
        for update in recent:
            if not math.isfinite(float(update.total) + float(update.norm)):
                raise DivergenceError(self._divergence(update))
        count, now = sum(update.count for update in recent), self.clock()
        told = Update(
            step=self.state.step,
            loss=sum(float(update.total) for update in recent) / count,
            nll=sum(float(update.nll) for update in recent) / count,
            norm=sum(float(update.norm) for update in recent) / len(recent),
            rate=recent[-1].rate,
            tokens_per_second=count / max(now - self.reported, 1e-9),
            progress=min(self.progress, 1.0),
            seconds=self.seconds,
            parts={name: sum(float(update.parts[name]) for update in recent) / count for name in recent[0].parts},
        )
        self.reported = now
        self._count_event()
        for callback in self.callbacks:
            callback.on_update(told)

    def _count_event(self) -> None:
        """Counts a line of metrics.jsonl, before it is written: a resumed run drops the lines after its checkpoint."""
        if self.state.events is not None:
            self.state = replace(self.state, events=self.state.events + 1)

    def _divergence(self, update: _Recent) -> str:
        last = self.checkpoints / "last"
        kept = (
            f"The last good state is kept in {last} (--resume goes on from there)" if last.exists() else "None is saved"
        )
        return (
            f"update {update.step}: the loss is {float(update.total) / update.count:.4g} and the gradient's norm "
            f"{float(update.norm):.4g}. {kept}; lower training.optimizer.rate or training.clip, or lengthen the "
            "warm-up, and train again"
        )

    # ------------------------------------------------- validation, checkpoints

    def _due(self) -> bool:
        """Whether it is time to validate, or to save where there is nothing to validate by: at every so many updates,
        or where one has passed a mark of the budget, which a larger budget moves."""
        validation = self.training.validation
        before, self.passed = self.passed, self.progress
        if self.passed >= 1:
            return False  # the last validation is _finish's
        if validation.every is not None:
            return self.state.step % validation.every == 0
        times = validation.times if self.validates else SAVES
        return int(self.passed * times) > int(before * times)

    def _validate(self) -> None:
        if self.state.validations and self.state.validated_step == self.state.step:
            return
        self._report()
        began = self.clock()
        if self.training.average > 1:
            state, count = self.state, self.training.average
            steps = keep_recent(self.checkpoints, self.trainable.model, state.recent, state.step, count)
            self.state = replace(state, recent=steps)
        self.state = replace(self.state, stale=self.state.stale + 1)  # unless it is the best
        judgement = self._judge("valid")
        took = self.clock() - began
        self.state = replace(
            self.state,
            validated_step=self.state.step,
            validations=(*self.state.validations, judgement.value),
            reserve=max(self.state.reserve, 1.2 * took * (2 if self.training.average > 1 else 1)),
        )
        self.reported = self.clock()
        self.passed = self.progress  # marks that a long validation has passed are not made up for

    def _judge(self, what: str) -> Judgement:
        """Validate the model as it is, keep it where it is the best so far, and tell; what is no number is worst."""
        assert self.judge is not None
        began = self.clock()
        self.trainable.eval()
        judgement = self.judge()
        self.trainable.train()
        best = judgement.rank.better_than(self.state.best)
        if best:
            # training that has run out of patience stays so when it is resumed, even if the average is better
            stale = self.state.stale if what == "average" and self._out_of_patience else 0
            self.state = replace(self.state, best_step=self.state.step, best=judgement.rank, stale=stale)
            self._keep_best(judgement, what)
        self._count_event()
        told = Validated(self.state.step, judgement.loss, judgement.metrics, best, self.seconds, what)
        for callback in self.callbacks:
            callback.on_validation(told)
        self.state = replace(self.state, validating=self.state.validating + self.clock() - began)
        return judgement

    def _keep_best(self, judgement: Judgement, what: str) -> None:
        """Writes weights and rank in one step, unless better weights are kept from updates that a kill has lost.

        Training that was killed goes on from before its best weights, if those were newer than its last state.
        """
        if not judgement.rank.better_than(self.kept) and judgement.rank != self.kept:
            return
        self.kept = judgement.rank
        about = {"step": self.state.step, "what": what, "loss": judgement.loss, **judgement.metrics}
        self._save_weights("best", {**about, "rank": asdict(judgement.rank)})

    def _save_weights(self, checkpoint: Checkpoint, about: dict[str, Any]) -> None:
        save_weights_alone(self.checkpoints / checkpoint, self.trainable.model, about)
        self._tell_saved(checkpoint)

    def _tell_saved(self, checkpoint: Checkpoint) -> None:
        for callback in self.callbacks:
            callback.on_checkpoint(Saved(checkpoint, self.state.step))

    def _finish(self) -> None:
        """The last validation, and that of the average of the last models."""
        if self.judge is None:
            self.state = replace(self.state, best_step=self.state.step)
            self._save_weights("best", {"step": self.state.step, "what": "last"})
            return
        self._validate()
        recent = self.state.recent[-self.training.average :]  # of a run that was resumed there may be more
        if len(recent) < 2:
            return
        model = self.trainable.model
        last = {name: tensor.clone() for name, tensor in weights(model).items()}
        set_weights(model, average_recent(self.checkpoints, recent), "the average")
        self._save_weights("average", {"steps": recent})
        self._judge("average")
        set_weights(model, last, "the last")
        self.state = replace(self.state, recent=())  # done: resuming a finished run must not average them again

    def _save(self) -> None:
        self._report()
        self.state = replace(self.state, seconds=self.seconds)
        model: nn.Module = self.trainable.model
        save_training(self.checkpoints / "last", model, self.optimizer, self.state, self.configuration)
        self._tell_saved("last")
        forget_recent(self.checkpoints, self.state.recent)


@dataclass(frozen=True)
class _Recent:
    """An update not yet reported: tensors, so that nothing waits for the device."""

    step: int
    total: Tensor
    nll: Tensor
    parts: dict[str, Tensor]
    norm: Tensor
    count: int
    rate: float


def _worst_if_nan(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _sum(tensors: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(tensors)).sum()
