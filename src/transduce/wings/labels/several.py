"""Several parallel models as one. M models, V labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Model, Parallel, Several, can, lacking_verbs
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

    def used(self) -> Sequence[Parallel[Any]]:
        """The models that are mixed: outputs and states have one entry for each of them."""
        return tuple(self.models)

    def start(self, source: Any) -> tuple[Any, ...]:
        return tuple(model.start(source) for model in self.used())

    def emit(self, state: tuple[Any, ...], lengths: Tensor | None = None) -> Emission:
        every = [model.emit(own, lengths) for model, own in zip(self.used(), state, strict=True)]
        if any(each.length_log_probs is not None for each in every):
            raise UserError("models that choose the length of an output have no mean: take classifiers or taggers")
        return Emission(tuple(each.output for each in every), every[0].lengths)

    def readout(self, output: tuple[Any, ...], candidates: Tensor | None = None) -> Tensor:
        """The logarithm of the mean probability, [..., V]."""
        every = [model.readout(own) for model, own in zip(self.used(), output, strict=True)]
        log_p_MV = torch.stack([logits_V.log_softmax(-1, widened(logits_V.dtype)) for logits_V in every])
        mean_V = log_p_MV.logsumexp(0) - math.log(len(every))
        return mean_V if candidates is None else mean_V.index_select(-1, candidates)


class LabelsWithCounts(ParallelEnsemble):
    """A trained ``model`` of labels and a ``counted`` one, such as a linear classifier, in one run: p_model^(1 -
    weight) p_counted^weight / Z.

    As in ``WithCounts``, ``counted`` is counted before the first update. If it cannot be, ``model`` is alone. The
    objective "members" trains ``model``, or each of its members, without the counts. Raises UserError for a ``weight``
    outside 0 to 1.
    """

    def __init__(self, model: Model, counted: Model, weight: float = 0.5) -> None:
        if not 0 <= weight <= 1:
            raise UserError(f"weight = {weight}: a share from 0 to 1 was expected")
        super().__init__([model, counted])
        self.weight = weight

    def members(self) -> Sequence[Any]:
        model: Any = self.models[0]
        return model.members() if can(type(model), Several) else (model,)

    def counted_parts(self) -> Sequence[Any]:
        return (self.models[1],)

    def used(self) -> Sequence[Any]:
        counted: Any = self.models[1]
        has_counts = any(parameter.numel() for parameter in counted.parameters())
        return tuple(self.models) if has_counts else (self.models[0],)

    def readout(self, output: tuple[Any, ...], candidates: Tensor | None = None) -> Tensor:
        logits = [model.readout(own) for model, own in zip(self.used(), output, strict=True)]
        own_V, *counted = [logits_V.log_softmax(-1, widened(logits_V.dtype)) for logits_V in logits]
        for counted_V in counted:
            own_V = ((1 - self.weight) * own_V + self.weight * counted_V).log_softmax(-1)
        mixed_V: Tensor = own_V
        return mixed_V if candidates is None else mixed_V.index_select(-1, candidates)
