"""A dry run: the cost of training, measured on a few updates whose results are discarded."""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from transduce.compute.device import choose_device
from transduce.compute.precision import autocast
from transduce.core.errors import UserError, out_of_memory
from transduce.core.protocols import can
from transduce.core.types import Batch
from transduce.data.base import Feed
from transduce.data.batching import Batches, Batching, Place
from transduce.data.pairs import Pairs
from transduce.objectives.base import Trainable
from transduce.training.counted import Counted
from transduce.training.job import Job
from transduce.training.optimization import optimizer_of
from transduce.training.plan import plan_run
from transduce.training.settings import Training, read_settings
from transduce.training.splitting import padded_tokens

MIB = 2**20
TIMED = 5  # updates of a measurement
SHARE = 0.8  # largest share of the free memory for a batch
SLOWER = 0.05  # an update may take this share more time, to leave a core to other programs
PATIENCE = 20.0  # largest number of seconds for one update with a larger budget


@dataclass(frozen=True)
class DryRun:
    """The cost of training.

    ``per_epoch`` is the number of updates in an epoch. ``largest`` is the number of padded tokens of the largest batch
    of the first epoch. ``memory`` is the additional memory in MiB of an update with this batch. ``threads`` has pairs
    of a number of threads and the mean seconds of an update with them. The last pair has the number that training would
    use. ``budget`` is the largest ``training.batching.tokens`` found to fit into a share of the ``free`` MiB.
    ``measured`` has the padded tokens and the MiB of each step of this measurement, and ``ended`` the reason of its
    end.
    """

    pairs: int
    per_epoch: float
    largest: int
    memory: float
    threads: tuple[tuple[int, float], ...]
    updates: str
    free: float
    budget: int
    measured: tuple[tuple[int, float], ...]
    ended: str

    @property
    def seconds(self) -> float:
        """The mean seconds of an update with the number of threads that training would use."""
        return self.threads[-1][1]

    def lines(self) -> list[str]:
        """The result as lines for people."""
        timed = ", ".join(f"{seconds:.3f} s with {count}" for count, seconds in self.threads)
        tried = ", ".join(f"{tokens:,} tokens {mib:,.0f} MiB" for tokens, mib in self.measured)
        return [
            f"{self.pairs:,} pairs, {self.per_epoch:,.0f} updates an epoch; {self.updates}",
            f"an update takes {self.seconds:.3f} s; the largest batch has {self.largest:,} padded tokens and takes "
            f"{self.memory:,.0f} MiB",
            *([f"threads: an update takes {timed}: --threads {self.fastest}"] if len(self.threads) > 1 else []),
            f"batches of the longest pairs: {tried}",
            f"training.batching.tokens = {self.budget} is the largest found to fit into {100 * SHARE:.0f} % of the "
            f"{self.free:,.0f} MiB that are free ({self.ended})",
        ]

    @property
    def fastest(self) -> int:
        """The number of threads to train with: the smallest that is at most ``SLOWER`` slower than the fastest."""
        best = min(seconds for _, seconds in self.threads)
        return next(count for count, seconds in self.threads if seconds <= (1 + SLOWER) * best)


def dry_run(job: Job, device: str = "auto") -> DryRun:
    """Prepares the data like the training ``job``, and measures a few updates. Writes no run, but the prepared data
    stay in the cache.

    Raises UserError for a counted model and for ``training.streams``, which have no token budget.
    """
    settings = read_settings(job.table)
    if can(settings.model_class, Counted) or settings.training.streams:
        raise UserError("a dry run measures batches of pairs; a counted model and training.streams have none")
    where = choose_device(device)
    plan = plan_run(job, settings, None, where)
    training = plan.settings.training
    torch.manual_seed(training.seed)
    built = cast(nn.Module, plan.settings.model())
    trainable = Trainable(built.to(where), plan.objective)
    optimizer, _ = optimizer_of(built, training.optimizer, training.adapter)
    rehearsal = _Rehearsal(trainable, optimizer, autocast(plan.chosen.precision, where), where)
    pairs = plan.prepared.train
    batches = Batches(pairs, training.batching, training.seed, weights=plan.prepared.weights)
    largest = pairs.batch(max(batches.epoch(0), key=lambda ids: _padded(pairs, ids)))
    rehearsal.memory(largest)  # a warm-up, which also makes the moments of the optimiser
    memory = rehearsal.memory(largest)
    threads = tuple((count, training.accumulate * each) for count, each in rehearsal.threads(batches))
    seconds = threads[-1][1]
    free = free_memory(where) + memory
    budget, measured, ended = _largest_budget(rehearsal, pairs, training.batching, free)
    per_epoch = batches.per_epoch / training.accumulate
    return DryRun(
        len(pairs),
        per_epoch,
        padded_tokens(largest),
        memory,
        threads,
        _updates(training, seconds, per_epoch),
        free,
        budget,
        measured,
        ended,
    )


def _updates(training: Training, seconds: float, per_epoch: float) -> str:
    """The number of updates and the time of the budget, without validations, as text."""
    counts = {
        "steps": training.steps,
        "epochs": None if training.epochs is None else training.epochs * per_epoch,
        "minutes": None if training.minutes is None else 60 * training.minutes / seconds,
    }
    name, count = min(((name, count) for name, count in counts.items() if count is not None), key=lambda each: each[1])
    return (
        f"the budget ({name}) ends after about {count:,.0f} updates, {count * seconds / 60:,.1f} minutes and "
        f"{count / per_epoch:,.2f} epochs, validations not counted"
    )


class _Rehearsal:
    """Makes updates with a model, and measures them."""

    def __init__(
        self,
        trainable: Trainable,
        optimizer: torch.optim.Optimizer,
        context: Callable[[], AbstractContextManager[object]],
        device: torch.device,
    ) -> None:
        self.trainable, self.optimizer, self.context, self.device = trainable, optimizer, context, device

    def _update(self, batch: Batch) -> None:
        with self.context():
            loss, _ = self.trainable(batch.to(self.device), 0.0, None)
        loss.total.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def memory(self, batch: Batch) -> float:
        """The peak of the memory of an update with the batch, in MiB above the memory before it."""
        gc.collect()
        peak = _peak_of(self.device)
        self._update(batch)
        return peak()

    def seconds(self, batches: Iterator[Batch]) -> float:
        """The mean seconds of ``TIMED`` updates with these batches."""
        began = time.perf_counter()
        for batch in (next(batches) for _ in range(TIMED)):
            self._update(batch)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - began) / TIMED

    def threads(self, batches: Feed) -> list[tuple[int, float]]:
        """The mean seconds of an update with 1, 2, 4 … and all of this process's threads, each with the same batches.
        If the model is on a GPU, only all threads are measured.
        """
        every = torch.get_num_threads()
        counts = [2**power for power in range(every.bit_length()) if 2**power < every and self.device.type == "cpu"]
        found = []
        try:
            for count in (*counts, every):
                torch.set_num_threads(count)
                found.append((count, self.seconds(batch for batch, _ in batches.iterate(Place()))))
        finally:
            torch.set_num_threads(every)
        return found


def _largest_budget(
    rehearsal: _Rehearsal, pairs: Pairs, batching: Batching, free: float
) -> tuple[int, tuple[tuple[int, float], ...], str]:
    """Doubles the budget until a batch of the longest pairs would take more than its share of the free memory. It also
    ends if an update takes too long, or if a batch has all pairs. Returns the largest budget, the measured steps, and
    the reason of the end.

    The last step is not measured. It is extrapolated from the two steps before it, because memory grows in proportion
    to the rows.
    """
    longest = np.maximum(pairs.source_lengths, pairs.target_lengths)
    order = np.argsort(-longest, kind="stable")
    tokens, found = batching.tokens, list[tuple[int, float]]()
    while True:
        rows = max(1, min(len(pairs), tokens // int(longest[order[0]]), batching.sentences or len(pairs)))
        batch = pairs.batch(order[:rows])
        began = time.perf_counter()
        try:
            found.append((padded_tokens(batch), rehearsal.memory(batch)))
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            return tokens // 2, tuple(found), f"{tokens} does not fit"
        slope = found[-1][1] / found[-1][0] if len(found) < 2 else _slope(found[-2], found[-1])
        fits = found[-1][0] + max(0.0, SHARE * free - found[-1][1]) / max(slope, 1e-9)
        if fits < 2 * tokens:
            return max(int(fits), 1), tuple(found), "by the memory of the batches above"
        if rows in (len(pairs), batching.sentences):
            return tokens, tuple(found), "a batch has all pairs, or as many as training.batching.sentences allows"
        if 2 * (time.perf_counter() - began) > PATIENCE:
            return tokens, tuple(found), f"an update with twice as many takes more than {PATIENCE:.0f} s"
        tokens *= 2


def _slope(one: tuple[int, float], other: tuple[int, float]) -> float:
    """The additional MiB for each additional padded token."""
    return max(other[1] - one[1], 0.0) / max(other[0] - one[0], 1)


def _padded(pairs: Pairs, ids: NDArray[np.int64]) -> int:
    return len(ids) * int(max(pairs.source_lengths[ids].max(), pairs.target_lengths[ids].max()))


# ---------------------------------------------------------------------- memory


def free_memory(device: torch.device) -> float:
    """The free memory of the device, in MiB. If the system has no /proc, it is the whole memory of the machine."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] / MIB
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / MIB
    return next(float(line.split()[1]) for line in lines if line.startswith("MemAvailable")) / 1024


def _peak_of(device: torch.device) -> Callable[[], float]:
    """Begins to measure the memory. Returns a function that gives the peak since then, in MiB above the beginning."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        return lambda: (torch.cuda.max_memory_allocated(device) - before) / MIB
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    except OSError:  # the system gives only the peak of the whole process
        scale = MIB if sys.platform == "darwin" else 1024
        return lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale
    resident = _status("VmRSS")
    return lambda: _status("VmHWM") - resident


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name)) / 1024
