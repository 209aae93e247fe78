"""The losses that measure word aligners, and phrase-based models, which give outputs no probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from transduce.core.protocols import Carry, Deriving, PairModel
from transduce.core.types import Batch, Loss


@dataclass(frozen=True)
class AlignmentLikelihood:
    """The negative log-likelihood of both sides of each pair, each given the other, per word of either side.

    EOS does not count. The loss measures a word aligner on ``data.valid``. A lower loss does not always mean better
    links: measure the links with `transduce align RUN --gold FILE`.
    """

    measures_counted: ClassVar[bool] = True

    def __call__(
        self, model: PairModel, batch: Batch, progress: float = 0.0, carry: Carry = None
    ) -> tuple[Loss, Carry]:
        words = sum(int((side.lengths - 1).sum()) for side in (batch.source, batch.target))
        return Loss(-model.pair_log_prob(batch.source, batch.target).sum(), words), carry


@dataclass(frozen=True)
class LanguageLikelihood:
    """The negative log-likelihood of a target by the language model of a phrase-based model, without its source.

    A phrase-based model scores derivations and gives no probability to a target. So this loss tells how well the
    language model fits the text, and nothing about the translation. Choose a model by a metric of the outputs.
    """

    measures_counted: ClassVar[bool] = True

    def __call__(self, model: Deriving, batch: Batch, progress: float = 0.0, carry: Carry = None) -> tuple[Loss, Carry]:
        return Loss(-model.language_log_prob(batch.target).sum(), int(batch.target.lengths.sum())), carry
