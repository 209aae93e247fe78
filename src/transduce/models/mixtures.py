"""Several models as one: they read the same source, have the same vocabulary, and are mixed at each token.

V vocabulary, M models; outputs and states are tuples with one entry per model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, Model, Several, can, lacking_verbs
from transduce.core.registry import model_name
from transduce.core.types import PAD, Factory, Memory, Padded, widened
from transduce.layers.modules import module_list


class Together(nn.Module):
    """The base of models that consist of several, which read the same source and write the same vocabulary.

    Each must fulfil the ``protocol`` of the class. Raises UserError if there are no models, and for another model;
    ``remedy`` is the end of that message.
    """

    protocol: ClassVar[type]
    remedy: ClassVar[str]

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        if not models:
            raise UserError("models is empty: at least one was expected")
        for model in models:
            if lacking := lacking_verbs(type(model), self.protocol):
                raise UserError(f"the {model_name(type(model))} model cannot {' and '.join(lacking)}, so {self.remedy}")
        self.models = module_list(models)

    def members(self) -> Sequence[Model]:
        return tuple(self.models)

    def used(self) -> Sequence[Any]:
        """The models that are mixed, in the order of ``models``: outputs and states have one entry for each of them."""
        return tuple(self.models)

    def start(self, source: Padded | Memory) -> tuple[object, ...]:
        return tuple(model.start(source) for model in self.used())

    def log_probs(self, output: tuple[object, ...]) -> Iterator[Tensor]:
        """Yields log p [..., V] of each model, in float32 or wider, one model at a time. Raises UserError at the first
        model whose vocabulary has another size.
        """
        V = None
        for model, own in zip(self.used(), output, strict=True):
            logits_V = model.readout(own)
            V = V or logits_V.shape[-1]
            if logits_V.shape[-1] != V:
                raise UserError(
                    f"models of {V} and of {logits_V.shape[-1]} words cannot be mixed: they must share one target "
                    "vocabulary; others' outputs can be ranked by their log-probabilities as text"
                )
            yield logits_V.log_softmax(-1, widened(logits_V.dtype))


class Mixture(Together):
    """The base of mixtures word by word: every model starts from the same source and reads the same tokens."""

    protocol = Autoregressive
    remedy = "it cannot be mixed word by word; score the outputs of each model with the others instead, as text"

    def extend(self, tokens_BT: Tensor, state: tuple[object, ...]) -> tuple[tuple[object, ...], tuple[object, ...]]:
        every = [model.extend(tokens_BT, own) for model, own in zip(self.used(), state, strict=True)]
        return tuple(output for output, _ in every), tuple(after for _, after in every)


class Ensemble(Mixture):
    """The mean of the models' probabilities: p(y_t | ...) = 1/M sum_m p_m(y_t | ...). ``readout`` returns its
    logarithm.

    If one model gives a word probability 0, its mean still uses the other models' probabilities.
    """

    meaning = "part of the probability that this model gives"

    def shares(self, own_MT: Tensor, other_MT: Tensor) -> Tensor:
        return own_MT.softmax(0)

    def readout(self, output: tuple[object, ...], candidates: Tensor | None = None) -> Tensor:
        return mean(self.log_probs(output), len(self.models), candidates)


class Seeds(Ensemble):
    """An ensemble of ``members`` models of one table, which differ in their random start (and in their dropout).

    Train it with the objective "members", so that each member learns alone. Cross-entropy would make the members share
    the work, and be no better than one model of this size.
    """

    def __init__(self, model: Factory[Model], members: int = 5) -> None:
        if members < 1:
            raise UserError(f"members = {members}: at least 1 was expected")
        super().__init__([model() for _ in range(members)])


class Fusion(Mixture):
    """The log-linear mixture p(y_t | ...) = prod_m p_m(y_t | ...)^w_m / Z, with one of ``weights`` for each model.

    A word with probability 0 in one model has probability 0, unless the model's weight is 0. Without ``renormalise`` Z
    is 1, as in shallow fusion (Gulcehre et al. 2015): log p is the sum over m of w_m log p_m. Probabilities then sum to
    at most 1. PAD gets the rest, and no search writes PAD. The weights must then sum to at least 1, so that
    probabilities cannot exceed 1.
    """

    def __init__(self, models: Sequence[Model], weights: Sequence[float], renormalise: bool = True) -> None:
        super().__init__(models)
        if len(weights) != len(models):
            raise UserError(f"weights = {list(weights)}: one for each of {len(models)} models was expected")
        if not all(0 <= weight < math.inf for weight in weights) or not any(weights):
            raise UserError(f"weights = {list(weights)}: numbers of 0 or more were expected, not all of them 0")
        if not renormalise and sum(weights) < 1 - 1e-6:
            raise UserError(
                f"weights = {list(weights)} add up to {sum(weights):g}: without renormalise at least 1 was expected, "
                "as probabilities would exceed 1"
            )
        self.weights = tuple(weights)
        self.renormalise = renormalise

    meaning = "weight × log(p / p of the strongest other token); below 0, this model prefers the other token"

    def shares(self, own_MT: Tensor, other_MT: Tensor) -> Tensor:
        weights = [weight for weight, _ in zip(self.weights, own_MT, strict=False)]
        return own_MT.new_tensor(weights)[:, None] * (own_MT - other_MT)

    def readout(self, output: tuple[object, ...], candidates: Tensor | None = None) -> Tensor:
        mixed_V = weighted(self.log_probs(output), self.weights)
        return columns(mixed_V.log_softmax(-1) if self.renormalise else completed(mixed_V), candidates)


class BesideCounts:
    """What models have in common that are a trained model, the first of ``models``, and a counted one, the second: the
    renormalised log-linear mixture with ``weights``.

    If nothing was counted, the mixture is the first model alone.
    """

    models: Any
    weights: tuple[float, ...]
    log_probs: Any

    def members(self) -> Sequence[Model]:
        model = self.models[0]
        return model.members() if can(type(model), Several) else (model,)

    def counted_parts(self) -> Sequence[Model]:
        return (self.models[1],)

    def used(self) -> Sequence[Any]:
        has_counts = any(parameter.numel() for parameter in self.models[1].parameters())
        return tuple(self.models) if has_counts else (self.models[0],)

    def readout(self, output: tuple[object, ...], candidates: Tensor | None = None) -> Tensor:
        if len(output) > 1:
            return columns(weighted(self.log_probs(output), self.weights).log_softmax(-1), candidates)
        logits: Tensor = self.models[0].readout(output[0], candidates)
        return logits


def shares_of_two(weight: float) -> tuple[float, float]:
    """The weights of a trained model and of a counted one, whose ``weight`` is given. Raises UserError outside 0 to
    1.
    """
    if not 0 <= weight <= 1:
        raise UserError(f"weight = {weight}: a share from 0 to 1 was expected")
    return 1 - weight, weight


class WithCounts(BesideCounts, Fusion):
    """A trained ``model`` and a ``counted`` one, such as a joint n-gram model, in one run: the renormalised log-linear
    mixture p_model^(1 - weight) p_counted^weight / Z.

    Before the first update of training, ``counted`` is counted from the training pairs. If they cannot be counted, the
    run's report says why, and the mixture is ``model`` alone. The objective "members" trains ``model``, or each of its
    own members, without the counts: these know the training pairs too well to learn beside them. Raises UserError for a
    ``weight`` outside 0 to 1.
    """

    def __init__(self, model: Model, counted: Model, weight: float = 0.3) -> None:
        super().__init__([model, counted], shares_of_two(weight))


def mean(log_probs: Iterable[Tensor], count: int, candidates: Tensor | None = None) -> Tensor:
    """The logarithm of the mean of ``count`` models' probabilities, of the ``candidates`` alone if they are given."""
    every = (columns(log_p_V, candidates) for log_p_V in log_probs)
    # pair by pair: five times as fast as logsumexp over a stack
    return reduce(_logaddexp if torch.is_grad_enabled() else torch.logaddexp, every) - math.log(count)


def weighted(log_probs: Iterable[Tensor], weights: Sequence[float]) -> Tensor:
    """The weighted sum of log-probabilities. A weight of 0 leaves a model out, even if its log-probability is minus
    infinity.
    """
    every = zip(weights, log_probs, strict=True)
    return reduce(torch.add, (weight * log_p_V for weight, log_p_V in every if weight))


def completed(log_p_V: Tensor) -> Tensor:
    """A copy of the log-probabilities [..., V] in which PAD has what the others leave, so that all probabilities sum to
    1.
    """
    padding_V = torch.arange(log_p_V.shape[-1], device=log_p_V.device) == PAD
    words_V = log_p_V.masked_fill(padding_V, float("-inf"))
    lost_1 = -words_V.logsumexp(-1, keepdim=True).expm1()
    # clamped so that the gradient is defined if nothing is lost
    return torch.where(padding_V, lost_1.clamp(min=torch.finfo(lost_1.dtype).tiny).log(), words_V)


def _logaddexp(one_V: Tensor, other_V: Tensor) -> Tensor:
    """logaddexp with gradient 0, instead of nan, if both arguments are minus infinity."""
    none_V = torch.maximum(one_V, other_V) == float("-inf")
    return torch.logaddexp(one_V.masked_fill(none_V, 0.0), other_V.masked_fill(none_V, 0.0)).masked_fill(
        none_V, float("-inf")
    )


def columns(x_V: Tensor, candidates: Tensor | None) -> Tensor:
    """The columns ``candidates`` [C] of a tensor [..., V], in this order: [..., C]. The tensor itself if ``candidates``
    is None.
    """
    return x_V if candidates is None else x_V.index_select(-1, candidates)
