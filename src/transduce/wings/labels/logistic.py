"""Multinomial logistic regression over sparse features. N examples, F features, L labels, K numbers that are not 0."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import LBFGS

STRENGTHS = tuple(2.0**-power for power in range(-1, 9))  # of the regularisation, strongest first
EVEN = 0.5  # the share of a weight's deviation that is equal for all features and labels
ITERATIONS, CHANGE = 150, 1e-5


@dataclass(frozen=True)
class Examples:
    """Sparse rows, sorted by ``row_K``, and the label [N] of each row."""

    row_K: Tensor
    feature_K: Tensor
    value_K: Tensor
    label_N: Tensor

    def select(self, kept_N: Tensor) -> Examples:
        kept_K = kept_N[self.row_K]
        row_K = (kept_N.cumsum(0) - 1)[self.row_K[kept_K]]
        return Examples(row_K, self.feature_K[kept_K], self.value_K[kept_K], self.label_N[kept_N])

    def matrices(self, features: int) -> tuple[Tensor, Tensor]:
        """The examples [N, F], and their transpose [F, N], as compressed rows."""
        N = len(self.label_N)
        order = self.feature_K.argsort(stable=True)
        return (
            _compressed(self.row_K, self.feature_K, self.value_K, (N, features)),
            _compressed(self.feature_K[order], self.row_K[order], self.value_K[order], (features, N)),
        )


def _compressed(row_K: Tensor, column_K: Tensor, value_K: Tensor, shape: tuple[int, int]) -> Tensor:
    ends = torch.bincount(row_K, minlength=shape[0]).cumsum(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch calls these matrices a beta version
        return torch.sparse_csr_tensor(torch.cat([ends.new_zeros(1), ends]), column_K, value_K, shape)


class Regression:
    """min over W, b of -sum_n log softmax(x_n W + b)_{y_n} + strength / 2 |W / R|^2, by L-BFGS, where R are the
    ``deviations`` of the examples. Each call of ``fit`` begins where the last one ended.
    """

    def __init__(self, examples: Examples, features: int, labels: int) -> None:
        self.label_N = examples.label_N
        self.x_NF, self.x_FN = examples.matrices(features)
        self.deviation_FL = deviations(examples, features, labels)
        self._scaled = examples.value_K.new_zeros(features + 1, labels)  # W / R, and b as the last row

    @property
    def weights(self) -> Tensor:
        """W, and b as the last row."""
        return torch.cat([self._scaled[:-1] * self.deviation_FL, self._scaled[-1:]])

    @torch.no_grad()
    def fit(self, strength: float) -> None:
        scaled = self._scaled.requires_grad_()
        own_N = torch.arange(len(self.label_N))

        def closure() -> Tensor:
            log_p_NL = (self.x_NF @ (scaled[:-1] * self.deviation_FL) + scaled[-1]).log_softmax(-1)
            wrong_NL = log_p_NL.exp()
            wrong_NL[own_N, self.label_N] -= 1
            gradient_FL = (self.x_FN @ wrong_NL) * self.deviation_FL + strength * scaled[:-1]
            scaled.grad = torch.cat([gradient_FL, wrong_NL.sum(0, keepdim=True)])
            return strength / 2 * scaled[:-1].square().sum() - log_p_NL[own_N, self.label_N].sum()

        least = CHANGE * len(self.label_N)
        optimizer: Any = LBFGS([scaled], 1, ITERATIONS, None, least, 0.0, line_search_fn="strong_wolfe")
        optimizer.step(closure)
        self._scaled = scaled.detach()

    def log_prob(self, examples: Examples) -> float:
        """The sum over other examples, before the regularisation."""
        weights = self.weights
        x_NF, _ = examples.matrices(len(weights) - 1)
        log_p_NL = (x_NF @ weights[:-1] + weights[-1]).log_softmax(-1)
        return float(log_p_NL.gather(1, examples.label_N[:, None]).double().sum())


def deviations(examples: Examples, features: int, labels: int) -> Tensor:
    """How far each weight may be from 0, [F, L]: the absolute log-count ratio of a feature and a label (Wang and
    Manning 2012), averaged with the mean of all. The ratio is that of a feature's share among the features of a
    label's examples and its share among those of all others; each count is one higher.
    """
    count_FL = examples.value_K.new_ones(features, labels)
    place_K = examples.feature_K * labels + examples.label_N[examples.row_K]
    count_FL.view(-1).index_add_(0, place_K, torch.ones_like(examples.value_K))
    other_FL = count_FL.sum(1, keepdim=True) - count_FL
    ratio_FL = (count_FL / count_FL.sum(0)).log() - (other_FL / other_FL.sum(0)).log()
    distance_FL = ratio_FL.nan_to_num().abs()  # a single label has no others
    return EVEN * distance_FL.mean() + (1 - EVEN) * distance_FL


def chosen_strength(examples: Examples, features: int, labels: int, parts: int = 5) -> float:
    """The strength of ``STRENGTHS`` with the most probable labels in the held-out ``parts``-th of the examples. They
    are tried from the strongest one, as long as the labels become more probable.
    """
    held_N = torch.arange(len(examples.label_N)) % parts == parts - 1
    if not held_N.any():
        return 1.0
    held, regression = examples.select(held_N), Regression(examples.select(~held_N), features, labels)
    best, found = float("-inf"), STRENGTHS[0]
    for strength in STRENGTHS:
        regression.fit(strength)
        log_prob = regression.log_prob(held)
        if log_prob <= best:
            break
        best, found = log_prob, strength
    return found
