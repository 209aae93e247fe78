"""The loss of phrase-based models, which give outputs no probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from transduce.core.protocols import Deriving
from transduce.core.types import Batch, Loss


@dataclass(frozen=True)
class LanguageLikelihood:
    """The negative log-likelihood of a target by the language model of a phrase-based model, without its source.

    A phrase-based model scores derivations and gives no probability to a target. So this loss tells how well the
    language model fits the text, and nothing about the translation. Choose a model by a metric of the outputs.
    """

    measures_counted: ClassVar[bool] = True

    def __call__(self, model: Deriving, batch: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        return Loss(-model.language_log_prob(batch.target).sum(), int(batch.target.lengths.sum())), carry
