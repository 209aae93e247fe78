"""Several parallel models as one. M models, V labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Model, Parallel, lacking_verbs
from transduce.core.registry import model_name
from transduce.core.types import Emission, widened
from transduce.layers.modules import module_list


class ParallelEnsemble(nn.Module):
    """The mean of the probabilities of several classifiers or taggers: p(y_t | t, x) = 1/M sum_m p_m(y_t | t, x).

    The ``models`` may differ in kind, or in their random start alone. Train them with ``objective = {type = "members",
    objective = "parallel-cross-entropy"}``, so that each model learns alone. Raises UserError if there is none, and for
    a model that does not write all labels at once. ``emit`` raises it for models that choose a length.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        if not models:
            raise UserError("models is empty: at least one was expected")
        for model in models:
            if lacking := lacking_verbs(type(model), Parallel):
                raise UserError(
                    f"the {model_name(type(model))} model cannot {' and '.join(lacking)}, so its labels have no mean "
                    'with others: take models of type "classifier" or "tagger"'
                )
        self.models = module_list(cast("Sequence[Any]", models))

    def members(self) -> Sequence[Parallel[Any]]:
        return tuple(self.models)

    def start(self, source: Any) -> tuple[Any, ...]:
        return tuple(model.start(source) for model in self.members())

    def emit(self, state: tuple[Any, ...], lengths: Tensor | None = None) -> Emission:
        every = [model.emit(own, lengths) for model, own in zip(self.members(), state, strict=True)]
        if any(each.length_log_probs is not None for each in every):
            raise UserError("models that choose the length of an output have no mean: take classifiers or taggers")
        return Emission(tuple(each.output for each in every), every[0].lengths)

    def readout(self, output: tuple[Any, ...], candidates: Tensor | None = None) -> Tensor:
        """The logarithm of the mean probability, [..., V]."""
        every = [model.readout(own) for model, own in zip(self.members(), output, strict=True)]
        log_p_MV = torch.stack([logits_V.log_softmax(-1, widened(logits_V.dtype)) for logits_V in every])
        mean_V = log_p_MV.logsumexp(0) - math.log(len(every))
        return mean_V if candidates is None else mean_V.index_select(-1, candidates)
