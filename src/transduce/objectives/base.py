"""A model joined with its objective. The training loop calls nothing else.

The contract of an objective is ``protocols.Objective``; the value that it returns is ``types.Loss``.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from transduce.core.protocols import Carry, Objective
from transduce.core.types import Batch, Loss


class Trainable(nn.Module):
    """A model and its objective as one module. A call returns the objective's result for a batch: the loss, and the
    value to carry to the next batch.

    Wrap this module, and no other, for distributed training or ``torch.compile``.
    """

    def __init__(self, model: nn.Module, objective: Objective[Any]) -> None:
        super().__init__()
        self.model = model
        self.objective = objective

    def forward(self, batch: Batch, progress: float = 0.0, carry: Carry = None) -> tuple[Loss, Carry]:
        return self.objective(self.model, batch, progress, carry)
