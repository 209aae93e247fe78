"""The options of tuning: the table ``[tuning]`` of a run's settings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.metrics.base import metric
from transduce.metrics.statistics import check_compares_texts
from transduce.training.optimization import check_at_least


@dataclass(frozen=True)
class Tuning:
    """Minimum error rate training of the weights of a phrase-based model (Och 2003), for the corpus score of ``metric``
    on ``data.valid``.

    An iteration searches for ``nbest`` outputs of each example with the run's own search, and adds them to the outputs
    of all earlier iterations. Then it chooses the weights whose best outputs of these lists have the best score. It
    climbs from the last weights and from ``starts`` random changes of them. A climb has at most ``rounds`` rounds along
    each weight and along random directions. Tuning ends after ``iterations`` iterations, if an iteration finds no new
    output, or if the weights hardly change. The model keeps the weights whose search had the best score. If
    ``iterations`` is 0, it keeps its first weights.
    """

    metric: str = "bleu"
    nbest: int = 100
    iterations: int = 8
    starts: int = 4
    rounds: int = 3

    def __post_init__(self) -> None:
        for name, least in (("nbest", 2), ("iterations", 0), ("starts", 0), ("rounds", 1)):
            check_at_least(f"tuning.{name}", getattr(self, name), least)
        check_compares_texts(metric(self.metric))


@dataclass(frozen=True)
class Tuned:
    """The result of an iteration (0 is the search with the first weights). ``score`` is the score by ``metric`` of the
    outputs that the search found with the weights ``weights_F``. ``outputs`` is the number of different outputs in all
    lists so far.
    """

    iteration: int
    metric: str
    score: float
    outputs: int
    weights_F: NDArray[np.float64]
