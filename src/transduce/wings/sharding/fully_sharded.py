"""Fully sharded data parallelism (FSDP; Rajbhandari et al. 2020, stage 3; Zhao et al. 2023) by torch's ``fully_shard``.

Each process keeps a part of every parameter, of its gradient and of its moments. The whole parameters are gathered for
the computation of a batch, and freed after its gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from transduce.compute.crew import Crew
from transduce.core.errors import UserError
from transduce.core.protocols import Carry
from transduce.core.types import Batch, Loss
from transduce.objectives.base import Trainable
from transduce.runs.optimizer_state import Moments


class _Total(nn.Module):
    """Returns the loss's tensor in addition to the loss, because ``fully_shard`` waits for the gradient of a tensor
    that the module returns.
    """

    def __init__(self, trainable: Trainable) -> None:
        super().__init__()
        self.trainable = trainable

    def forward(self, batch: Batch, progress: float, carry: Carry) -> tuple[Tensor, Loss, Carry]:
        loss, carry = self.trainable(batch, progress, carry)
        return loss.total, loss, carry


class ShardedTrainable(nn.Module):
    """A ``Trainable`` whose parameters are divided among the processes of a crew, in place.

    Gradients are summed over the processes, and each process has its part of the sum. Raises UserError for a model with
    parameters that are no floating-point numbers, such as counts, or that have no axes.
    """

    def __init__(self, trainable: Trainable, optimizer: torch.optim.Optimizer, crew: Crew) -> None:
        super().__init__()
        names: dict[Tensor, str] = {parameter: name for name, parameter in trainable.named_parameters()}
        for parameter, name in names.items():
            if not parameter.is_floating_point() or not parameter.dim():
                kind = "a single number" if parameter.dim() == 0 else "counted"
                raise UserError(
                    f'training.parallel = "fsdp": {name} is {kind}, which cannot be divided; set '
                    'training.parallel = "ddp"'
                )
        self.inner, self.crew = _Total(trainable), crew
        device = next(iter(names)).device.type
        fully_shard(self.inner, mesh=init_device_mesh(device, (crew.world,)), reshard_after_forward=True)
        self._sharded.set_gradient_divide_factor(1.0)  # only sums, because the loop divides by the number of tokens
        self._sharded.set_force_sum_reduction_for_comms(True)  # gloo has no other reduction
        _divide(optimizer, names, dict(trainable.named_parameters()))
        self.optimizer = optimizer

    @property
    def model(self) -> nn.Module:
        return self.inner.trainable.model

    @property
    def _sharded(self) -> FSDPModule:
        assert isinstance(self.inner, FSDPModule)  # fully_shard has changed its class
        return self.inner

    def forward(self, batch: Batch, progress: float = 0.0, carry: Carry = None) -> tuple[Loss, Carry]:
        _, loss, carry = self.inner(batch, progress, carry)
        return loss, carry

    def own_part(self, tensor: Tensor) -> Tensor:
        """This process's part of a divided tensor, in the same memory."""
        return tensor.to_local() if isinstance(tensor, DTensor) else tensor

    @contextmanager
    def whole(self) -> Iterator[Moments]:
        """A context in which the model has its whole parameters in each process, to search with the model or to save
        it. The context yields the whole moments. All processes must enter it together. Changes of the parameters are
        lost at its end.
        """
        moments = {
            name: {kind: self._gathered(value) for kind, value in self.optimizer.state.get(parameter, {}).items()}
            for name, parameter in self.model.named_parameters()
        }
        self._sharded.unshard()
        try:
            yield Moments({parameter: moments[name] for name, parameter in self.model.named_parameters()})
        finally:
            self._sharded.reshard()

    def _gathered(self, value: object) -> Any:
        """The whole tensor of a divided one. ``DTensor.full_tensor`` would keep the process group in a cache of torch
        after the end of training (see ``Crew.leave``).
        """
        return self.crew.gather_rows(value.to_local(), len(value)) if isinstance(value, DTensor) else value


def _divide(optimizer: torch.optim.Optimizer, names: Mapping[Tensor, str], divided: Mapping[str, Tensor]) -> None:
    """Gives the optimiser the divided parameters, and divides its moments like them, in place."""
    before = dict(optimizer.state)
    optimizer.state.clear()
    for group in optimizer.param_groups:
        group["params"] = [divided[names[parameter]] for parameter in group["params"]]
    for parameter, state in before.items():
        own = divided[names[parameter]]
        assert isinstance(own, DTensor)
        if any(value.dim() and value.shape != parameter.shape for value in state.values() if isinstance(value, Tensor)):
            raise UserError(
                f'training.parallel = "fsdp": the optimiser keeps factors of {names[parameter]}, which cannot be '
                'divided; set training.parallel = "ddp", or another training.optimizer, or leave training.adapter out'
            )
        optimizer.state[own] = {
            kind: distribute_tensor(value, own.device_mesh, [Shard(0)], src_data_rank=None)
            if isinstance(value, Tensor) and value.dim()
            else value
            for kind, value in state.items()
        }
