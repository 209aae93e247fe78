"""An objective for models that consist of several models. Each of them learns alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from transduce.core.protocols import Carry, Objective, Several
from transduce.core.types import Batch, Loss
from transduce.objectives.cross_entropy import CrossEntropy


@dataclass(frozen=True)
class Members:
    """The objective of mixtures whose models learn separately. In training, it is the mean of the losses of the models,
    each computed alone by ``objective``.

    So the models of an ensemble learn together in one run, as if each were trained alone. The reported parts are means
    over the models, too. Validation measures the whole mixture by the same objective.
    """

    objective: Objective[Any] = field(default_factory=CrossEntropy)

    def __call__(self, model: Several, batch: Batch, progress: float = 0.0, carry: Carry = None) -> tuple[Loss, Carry]:
        if not model.training:
            return self.objective(model, batch, progress, carry)
        members = model.members()
        share = len(carry or ()) // len(members)  # tensors of each member; ``carry`` has one member after another
        carries = [carry and carry[place * share : (place + 1) * share] for place in range(len(members))]
        every = [self.objective(one, batch, progress, own) for one, own in zip(members, carries, strict=True)]
        after = tuple(tensor for _, own in every for tensor in own or ())
        losses = [loss for loss, _ in every]
        parts = {name: torch.stack([loss.parts[name] for loss in losses]).mean(0) for name in losses[0].parts}
        total = torch.stack([loss.total for loss in losses]).mean(0)
        return Loss(total, losses[0].count, parts, losses[0].tallies), after or None
