"""Logistic regression on the features of vectors. N rows, D features, C classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from transduce.core.errors import UserError
from transduce.wings.vectors.table import Floats

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)
STEPS = 200  # of L-BFGS, at most


@dataclass(frozen=True)
class LogisticRegression:
    """p(c | x) = softmax(W (x - mean) / scale + b), with the training rows' mean and deviation of each feature."""

    weight_DC: Floats
    bias_C: Floats
    mean_D: Floats
    scale_D: Floats

    @classmethod
    def fit(cls, x_ND: Floats, target_NC: Floats, strength: float) -> LogisticRegression:
        """Minimises the mean cross-entropy between the targets, which are distributions, and p, plus ``strength`` / 2
        times the squared size of W. L-BFGS in float64 starts from zero. Raises UserError unless there are rows, as many
        of features as of targets, and ``strength`` > 0.
        """
        if not len(x_ND) or len(x_ND) != len(target_NC) or strength <= 0:
            raise UserError(
                f"{len(x_ND)} rows of features, {len(target_NC)} targets and strength {strength}: equally many rows, "
                "and a strength above 0, were expected"
            )
        mean_D, scale_D = x_ND.mean(0, dtype=np.float64), x_ND.std(0, dtype=np.float64)
        scale_D = np.where(scale_D > 0, scale_D, 1.0)
        x = torch.from_numpy((x_ND - mean_D) / scale_D)
        target = torch.from_numpy(np.asarray(target_NC, dtype=np.float64))
        weight = torch.zeros(x.shape[1], target.shape[1], dtype=torch.float64, requires_grad=True)
        bias = torch.zeros(target.shape[1], dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([weight, bias], max_iter=STEPS, line_search_fn="strong_wolfe")

        def loss() -> torch.Tensor:
            optimizer.zero_grad()
            entropy = -(target * (x @ weight + bias).log_softmax(-1)).sum(-1).mean()
            total = entropy + strength / 2 * weight.square().sum()
            total.backward()  # type: ignore[no-untyped-call]
            return total

        optimizer.step(loss)  # type: ignore[no-untyped-call]
        return cls(weight.detach().numpy(), bias.detach().numpy(), mean_D, scale_D)

    def __call__(self, x_ND: Floats) -> Floats:
        """The probabilities [N, C] of the classes for rows of features [N, D]."""
        logits_NC = (x_ND - self.mean_D) / self.scale_D @ self.weight_DC + self.bias_C
        exponential_NC = np.exp(logits_NC - logits_NC.max(1, keepdims=True))
        probability_NC: Floats = exponential_NC / exponential_NC.sum(1, keepdims=True)
        return probability_NC


def chosen(
    x_ND: Floats,
    target_NC: Floats,
    score: Callable[[LogisticRegression], float],
    strengths: Sequence[float] = STRENGTHS,
) -> LogisticRegression:
    """The regression with the highest ``score``, such as the accuracy on validation rows, over several strengths. The
    first one of equal scores counts.
    """
    return max((LogisticRegression.fit(x_ND, target_NC, strength) for strength in strengths), key=score)
