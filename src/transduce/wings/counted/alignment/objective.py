"""The loss of word aligners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from transduce.core.protocols import PairModel
from transduce.core.types import Batch, Loss


@dataclass(frozen=True)
class AlignmentLikelihood:
    """The negative log-likelihood of both sides of each pair, each given the other, per word of either side.

    EOS does not count. The loss measures a word aligner on ``data.valid``. A lower loss does not always mean better
    links: measure the links with `transduce align RUN --gold FILE`.
    """

    measures_counted: ClassVar[bool] = True

    def __call__(self, model: PairModel, batch: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        words = sum(int((side.lengths - 1).sum()) for side in (batch.source, batch.target))
        return Loss(-model.pair_log_prob(batch.source, batch.target).sum(), words), carry
