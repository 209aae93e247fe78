"""Several parallel models as one."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.protocols import Model, Parallel
from transduce.core.types import Emission
from transduce.models.mixtures import BesideCounts, Together, mean, shares_of_two


class ParallelMixture(Together):
    """The base of mixtures of classifiers or taggers, which write all labels at once. ``emit`` raises UserError for
    models that choose a length.
    """

    protocol = Parallel
    remedy = 'its labels have no mean with others: take models of type "classifier" or "tagger"'

    def emit(self, state: tuple[object, ...], lengths: Tensor | None = None) -> Emission:
        every = [model.emit(own, lengths) for model, own in zip(self.used(), state, strict=True)]
        if any(each.length_log_probs is not None for each in every):
            raise UserError("models that choose the length of an output have no mean: take classifiers or taggers")
        return Emission(tuple(each.output for each in every), every[0].lengths)


class ParallelEnsemble(ParallelMixture):
    """The mean of the probabilities of several classifiers or taggers: p(y_t | t, x) = 1/M sum_m p_m(y_t | t, x).

    The ``models`` may differ in kind, or in their random start alone. Train them with ``objective = {type = "members",
    objective = "parallel-cross-entropy"}``, so that each model learns alone. Raises UserError if there is none, and for
    a model that does not write all labels at once.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__(models)

    def readout(self, output: tuple[object, ...], candidates: Tensor | None = None) -> Tensor:
        """The logarithm of the mean probability, [..., V]."""
        return mean(self.log_probs(output), len(output), candidates)


class LabelsWithCounts(BesideCounts, ParallelMixture):
    """A trained ``model`` of labels and a ``counted`` one, such as a linear classifier, in one run: p_model^(1 -
    weight) p_counted^weight / Z.

    As in ``WithCounts``, ``counted`` is counted before the first update. If it cannot be, ``model`` is alone. The
    objective "members" trains ``model``, or each of its members, without the counts. Raises UserError for a ``weight``
    outside 0 to 1.
    """

    def __init__(self, model: Model, counted: Model, weight: float = 0.5) -> None:
        super().__init__([model, counted])
        self.weights = shares_of_two(weight)
