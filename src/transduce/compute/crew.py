"""Data-parallel training: the processes that ``torchrun`` starts train one model together.

Each process has the whole model, and computes the gradient of its part of every batch. The gradients are summed, so all
processes make the same update.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from transduce.core.errors import StoppedError, UserError

T = TypeVar("T")
PATIENCE = timedelta(hours=24)  # longest wait for another process, for example while the first prepares the data


@dataclass(frozen=True)
class Crew:
    """This process, number ``rank`` (from 0) of ``world`` processes. All processes must call the methods that exchange
    values, in the same order. These methods are no-ops with one process. They raise StoppedError if another process has
    died.
    """

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """True in the process that writes files and reports."""
        return self.rank == 0

    @property
    def several(self) -> bool:
        return self.world > 1

    def device(self, name: str) -> str:
        """The device of this process, if the user chooses the device ``name``. Each process takes one of the GPUs."""
        if self.several and name in ("auto", "cuda") and torch.cuda.is_available():
            return f"cuda:{int(os.environ.get('LOCAL_RANK', self.rank)) % torch.cuda.device_count()}"
        return name

    def draw_own(self, seed: int, step: int) -> None:
        """Seeds PyTorch's generator for update ``step``, in each process with another number, and with the same one
        after an interruption. The first process goes on with its generator.
        """
        if not self.first:
            (own,) = np.random.SeedSequence([seed, self.rank, step]).generate_state(1, np.uint64)
            torch.manual_seed(int(own))

    def share(self, value: T) -> T:
        """The value of the first process. The values of the other processes are ignored."""
        if not self.several:
            return value
        held = [value]
        with self._exchange():
            torch.distributed.broadcast_object_list(held, src=0)
        return held[0]

    def gather(self, value: T) -> list[T]:
        """The values of all processes, in the order of their ranks."""
        if not self.several:
            return [value]
        found = [value] * self.world
        with self._exchange():
            torch.distributed.all_gather_object(found, value)
        return found

    def any(self, flag: bool) -> bool:
        """True if ``flag`` is True in one of the processes."""
        return bool(self.sum_numbers({"flag": flag})["flag"] > 0) if self.several else flag

    def sum_numbers(self, numbers: Mapping[str, Tensor | float]) -> dict[str, Tensor | float]:
        """The sums of numbers over all processes, in float64, by name. The names must be the same in all processes. If
        there is only one process, the numbers are returned unchanged, and tensors on a GPU are not read.
        """
        if not self.several:
            return dict(numbers)
        total_N = torch.tensor([float(number) for number in numbers.values()], dtype=torch.float64)
        with self._exchange():
            torch.distributed.all_reduce(total_N)
        return dict(zip(numbers, total_N.tolist(), strict=True))

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Sums the gradients over all processes, in place. A parameter that no process has a gradient for gets none."""
        if not self.several:
            return
        every = list(parameters)
        present = self.sum_numbers({str(place): each.grad is not None for place, each in enumerate(every)})
        chosen = [each for place, each in enumerate(every) if present[str(place)]]
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in chosen]
        for dtype in dict.fromkeys(each.dtype for each in gradients):
            same = [each for each in gradients if each.dtype == dtype]
            flat = torch.cat([each.flatten() for each in same])
            with self._exchange():
                torch.distributed.all_reduce(flat)
            for each, part in zip(same, torch.split(flat, [each.numel() for each in same]), strict=True):
                each.copy_(part.view_as(each))
        for each, gradient in zip(chosen, gradients, strict=True):
            each.grad = gradient

    def share_weights(self, model: nn.Module) -> None:
        """Copies the parameters and buffers of the first process into the model, in place."""
        if self.several:
            with self._exchange():
                for tensor in (*model.parameters(), *model.buffers()):
                    if tensor.numel():
                        torch.distributed.broadcast(tensor.data, src=0)

    def gather_rows(self, own: torch.Tensor, rows: int) -> torch.Tensor:
        """The whole tensor [rows, ...]. Each process has a part ``own``: consecutive rows, divided as ``torch.chunk``
        divides them.
        """
        if not self.several:
            return own
        padded = own.new_zeros(-(-rows // self.world), *own.shape[1:])
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in range(self.world)]
        with self._exchange():
            torch.distributed.all_gather(parts, padded)
        return torch.cat(parts)[:rows]

    def clock(self, own: Callable[[], float]) -> Callable[[], float]:
        """A clock that returns the first process's time in all processes, so that all of them decide alike."""
        return (lambda: self.share(own())) if self.several else own

    def wait(self) -> None:
        """Returns when all processes have called it."""
        if self.several:
            with self._exchange():
                torch.distributed.barrier()

    def leave(self) -> None:
        """Closes the connections between the processes, and ends their threads.

        A process group joins its threads when its last reference goes. A reference that is left goes while the
        interpreter ends. A thread that asks for the interpreter's lock then aborts the process: "terminate called
        without an active exception". So reference cycles are collected here, and a cache of torch is cleared that keeps
        the device mesh of FSDP.
        """
        if not self.several:
            return
        torch.distributed.destroy_process_group()
        if "torch.distributed.tensor" in sys.modules:
            from torch.distributed.tensor import debug

            getattr(debug, "_clear_sharding_prop_cache", lambda: None)()
        gc.collect()

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        """A context for an exchange. An error of the connection becomes a StoppedError that says how to continue."""
        try:
            yield
        except RuntimeError as error:
            raise StoppedError(
                f"process {self.rank} of {self.world}: the exchange with the others failed, usually because one of "
                "them was killed; repeat the command with --resume, which goes on from the last checkpoint "
                f"({str(error).splitlines()[0]})"
            ) from error


ALONE = Crew()


def join() -> Crew:
    """The crew of this process, from the environment variables that torchrun sets. Without them, a crew of one process.

    Raises UserError if the variables are not numbers, or if the processes cannot reach each other.
    """
    try:
        rank, world = (int(os.environ.get(name, default)) for name, default in (("RANK", 0), ("WORLD_SIZE", 1)))
    except ValueError:
        raise UserError(
            f"RANK = {os.environ.get('RANK')!r}, WORLD_SIZE = {os.environ.get('WORLD_SIZE')!r}: numbers were expected, "
            "as torchrun sets them; unset both to train with one process"
        ) from None
    if world < 2:
        return ALONE
    if os.environ.get("LOCAL_WORLD_SIZE") == str(world):  # one machine: its host name may resolve to no usable address
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    # This module's functions have the process group of the time of its import as a default value, and so keep it until
    # the interpreter ends (see ``leave``). Imported here, before there is a group, it keeps none.
    import torch.distributed.nn.functional

    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        store, _, _ = next(torch.distributed.rendezvous("env://", timeout=PATIENCE))  # type: ignore[attr-defined]
        torch.distributed.init_process_group(
            backend, store=_own_part(store, world), rank=rank, world_size=world, timeout=PATIENCE
        )
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"process {rank} of {world} cannot reach the others ({error}); start all of them with torchrun"
        ) from error
    return Crew(rank, world)


def _own_part(store: Any, world: int) -> Any:
    """The part of torchrun's ``store`` for this start of the processes.

    torchrun keeps one store when it starts all processes again after one was killed. The store still has the addresses
    of the earlier processes, which refuse connections.
    """
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return torch.distributed.PrefixStore(f"start {attempt} of {world}", store)  # type: ignore[attr-defined]
