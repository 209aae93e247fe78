"""One update of a model that learns by gradients: the losses of its batches, their gradients, and the optimiser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transduce.compute.crew import ALONE, Crew
from transduce.core.errors import out_of_memory
from transduce.core.protocols import Carry
from transduce.core.types import Batch, Loss
from transduce.objectives.base import Trainable
from transduce.runs.optimizer_state import Moments
from transduce.training.splitting import Splitting


@dataclass(frozen=True)
class MadeUpdate:
    """The numbers of an update. Tensors stay on the device, so that the program does not wait for it.

    ``total``, ``nll`` and ``parts`` are sums over the ``count`` target tokens. ``norm`` is the norm of the mean
    gradient before clipping. ``rate`` is the learning rate of the first group of parameters.
    """

    step: int
    total: Tensor | float
    nll: Tensor | float
    parts: dict[str, Tensor | float]
    norm: Tensor
    count: int
    rate: float
    tallies: Counter[str]


@dataclass
class Updater:
    """Makes updates: sums the gradients of batches, divides them once by the number of target tokens, clips their norm
    and applies them.

    ``autocast`` makes the context in which the loss is computed. ``clip`` is the largest norm of a gradient; 0 means no
    clipping. ``carry`` is the value that the objective carries to the next batch: a tuple of tensors, or None.

    If the ``crew`` has several processes, each of them calls this with its own parts of the batches, and the gradients
    are summed. ``sharded`` divides the parameters among the processes.
    """

    trainable: Trainable
    optimizer: torch.optim.Optimizer
    autocast: Callable[[], AbstractContextManager[object]]
    clip: float
    carry: Carry = None
    crew: Crew = ALONE
    sharded: Any = None

    def __post_init__(self) -> None:
        self.computed: Callable[..., Any] = self.sharded or self.trainable
        self.parameters = [p for p in self.trainable.parameters() if p.requires_grad]
        self.peaks = [group["lr"] for group in self.optimizer.param_groups]
        self.device = self.parameters[0].device
        self.splitting = Splitting()

    def __call__(
        self,
        batches: Sequence[tuple[Batch, bool]],
        step: int,
        progress: float,
        share: float,
        notice: Callable[[str], None],
    ) -> MadeUpdate:
        """Makes update number ``step`` from the batches. Each batch has a flag that is False if another process counts
        its rows. ``progress`` is the used share of the budget. ``share`` multiplies the learning rates. ``notice``
        tells the user if a batch does not fit into memory.
        """
        losses = self._backward(batches, step, progress, notice)
        numbers = self._summed(losses)
        count = int(numbers["count"])
        norm = self._scale_gradients(count)
        for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * share
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return MadeUpdate(
            step=step,
            total=numbers["total"],
            nll=numbers["nll"],
            parts={name: numbers[f"part {name}"] for name in losses[0].parts if name != "nll"},
            norm=norm,
            count=count,
            rate=self.peaks[0] * share,
            tallies=Counter({name: int(numbers[f"tally {name}"]) for name in losses[0].tallies}),
        )

    def _backward(
        self, batches: Sequence[tuple[Batch, bool]], step: int, progress: float, notice: Callable[[str], None]
    ) -> list[Loss]:
        """Sums the gradients of the batches. Returns the losses.

        If there is not enough memory, all gradients are computed again, with the batch in parts. Later batches of this
        size are divided from the start.
        """
        while True:
            carry, losses = self.carry, list[Loss]()
            for part, counts in ((part, counts) for batch, counts in batches for part in self.splitting.parts(batch)):
                try:
                    with self.autocast():
                        loss, carry = self.computed(part.to(self.device), progress, carry)
                    loss = loss if counts else _nothing(loss)
                    loss.total.backward()
                except (RuntimeError, MemoryError) as error:
                    if not out_of_memory(error) or self.sharded:  # the other processes wait for this part
                        raise
                    self.splitting.too_large(part, error)
                    break
                losses.append(loss)
            else:
                self.carry = carry
                return losses
            loss = None
            losses.clear()  # also frees the graph, which fills the memory
            self.optimizer.zero_grad(set_to_none=True)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            notice(
                f"update {step}: a batch of {self.splitting.limit:,} padded tokens does not fit into memory, so "
                "batches of this size are divided, with the same gradients. Fewer training.batching.tokens take less "
                "time; `transduce train RECIPE --dry-run` finds how many fit"
            )

    def _summed(self, losses: Sequence[Loss]) -> dict[str, Tensor | float]:
        """Sums the losses, and the gradients, of all processes. Returns the sums by name: "total", "nll", "count",
        "part NAME" and "tally NAME".
        """
        tallies = sum((Counter(loss.tallies) for loss in losses), Counter())
        parts = [name for name in losses[0].parts if name != "nll"]
        numbers: dict[str, Tensor | float] = {
            "total": _sum(loss.total.detach() for loss in losses),
            "nll": _sum(loss.plain for loss in losses),
            "count": sum(loss.count for loss in losses),
            **{f"part {name}": _sum(loss.parts[name].detach() for loss in losses) for name in parts},
            **{f"tally {name}": tallies[name] for name in losses[0].tallies},
        }
        if self.sharded is None:  # otherwise they are summed already
            self.crew.sum_gradients(self.parameters)
        return self.crew.sum_numbers(numbers)

    def _scale_gradients(self, count: int) -> Tensor:
        """Divides the summed gradients by ``count`` and clips their norm, in place. Returns the norm of the mean
        gradient before clipping.
        """
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if self.sharded is not None:
            gradients = [self.sharded.own_part(gradient) for gradient in gradients]
        count = max(1, count)  # without a token the gradients are 0
        norm = torch.nn.utils.get_total_norm(gradients) / count
        if self.sharded is not None:
            norm = torch.tensor(self.crew.sum_numbers({"square": norm.square()})["square"] ** 0.5, dtype=norm.dtype)
        scale = torch.ones_like(norm)
        if self.clip:
            scale = (self.clip / (norm + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(gradients, scale / count)
        return norm

    def whole(self) -> AbstractContextManager[Moments]:
        """A context in which the model has its whole parameters, with the moments of the optimiser."""
        return self.sharded.whole() if self.sharded else nullcontext(Moments(self.optimizer.state))


def _nothing(loss: Loss) -> Loss:
    """The loss times 0, for a row that another process counts."""
    parts = {name: 0 * value for name, value in loss.parts.items()}
    return Loss(0 * loss.total, 0, parts, dict.fromkeys(loss.tallies, 0))


def _sum(tensors: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(tensors)).sum()
