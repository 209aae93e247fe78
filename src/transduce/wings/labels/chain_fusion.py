"""Several chains as one: taggers whose labels depend on each other, mixed by their scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import cast

import torch
from torch import nn

from transduce.core.chain import Trellis
from transduce.core.errors import UserError
from transduce.core.protocols import Chain, Model, lacking_verbs
from transduce.core.registry import model_name
from transduce.core.types import Padded
from transduce.layers.modules import module_list


class ChainFusion(nn.Module):
    """The log-linear mixture of chains, p(y | x) = prod_m p_m(y | x)^w_m / Z (a logarithmic opinion pool: Smith, Cohn
    and Osborne 2005).

    It is a chain too: its scores are the weighted sums of the models' scores, so its searches stay exact. The mean of
    probabilities would be no chain. ``weights`` has one weight for each model; without them each is 1/M. The models
    read the same source and have the same labels. Raises UserError if there are no models, if one is no ``Chain``, or
    for weights that are negative, infinite or all 0. A search raises it if the models have vocabularies of different
    sizes, or look back at different numbers of labels.
    """

    def __init__(self, models: Sequence[Model], weights: Sequence[float] | None = None) -> None:
        super().__init__()
        if not models:
            raise UserError("models is empty: at least one was expected")
        for model in models:
            if lacking := lacking_verbs(type(model), Chain):
                raise UserError(
                    f"the {model_name(type(model))} model has no {' and '.join(lacking)}: a crf or an hmm was expected"
                )
        weights = [1 / len(models)] * len(models) if weights is None else list(weights)
        if len(weights) != len(models):
            raise UserError(f"weights = {weights}: one for each of {len(models)} models was expected")
        if not all(0 <= weight < math.inf for weight in weights) or not any(weights):
            raise UserError(f"weights = {weights}: numbers of 0 or more were expected, not all of them 0")
        self.models = module_list(cast("Sequence[Chain]", models))
        self.weights = tuple(weights)

    def trellis(self, source: Padded) -> Trellis:
        # a weight of 0 leaves a model out, even where its score is minus infinity
        used = [pair for pair in zip(self.models, self.weights, strict=True) if pair[1]]
        every = [(model.trellis(source), weight) for model, weight in used]
        (first, _), *others = every
        for other, _ in others:
            if other.transition.shape != first.transition.shape:
                raise UserError(
                    f"chains with transitions {list(first.transition.shape)} and {list(other.transition.shape)} cannot "
                    "be mixed: they must have the same labels and the same order"
                )
        scores = [
            [weight * part for part in (each.unary, each.transition, each.start, each.end)] for each, weight in every
        ]
        unary, transition, start, end = (reduce(torch.add, parts) for parts in zip(*scores, strict=True))
        return Trellis(unary, first.lengths, transition, start, end)
