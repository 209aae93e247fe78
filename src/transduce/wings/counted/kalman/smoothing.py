"""The smoother: the state at each step, given all numbers of its series.

The means and covariances equal the ones of Rauch, Tung and Striebel (1965). They are computed in the form of de Jong
(1989), which needs no inverse of a predicted covariance: it is singular if a state has no noise of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.wings.counted.kalman.filtering import Filtered, Observed, Parameters


@dataclass(frozen=True)
class Smoothed:
    """The states given all numbers: ``mean`` [B, T, N], ``covariance`` [U, T, N, N] by pattern of gaps.

    ``lagged`` [U, T - 1, N, N] is the covariance of the state at step t + 1 (rows) with the state at step t (columns).
    """

    mean: Tensor
    covariance: Tensor
    lagged: Tensor


def smooth(model: Parameters, observed: Observed, filtered: Filtered) -> Smoothed:
    """The smoothed states of the series that were ``filtered``. Raises UserError if they have no steps."""
    H, own_B = model.observation, observed.pattern
    steps = len(filtered.error)
    if not steps:
        raise UserError("a series without steps has no states: give at least one step, which may be missing (nan)")
    r_BN, N_UNN = torch.zeros_like(filtered.mean[0]), torch.zeros_like(filtered.covariance[0])
    means, covariances, lagged = [], [], []
    for t in reversed(range(steps)):
        P_UNN, L_UNN = filtered.covariance[t], filtered.onward[t]
        if t + 1 < steps:
            eye = torch.eye(len(H.T), dtype=H.dtype, device=H.device)
            lagged.append((eye - filtered.covariance[t + 1] @ N_UNN) @ L_UNN @ P_UNN)
        back_UNC = H.T @ filtered.precision[t]
        r_BN = (back_UNC[own_B] @ filtered.error[t][..., None] + L_UNN.mT[own_B] @ r_BN[..., None])[..., 0]
        N_UNN = back_UNC @ H + L_UNN.mT @ N_UNN @ L_UNN
        means.append(filtered.mean[t] + (P_UNN[own_B] @ r_BN[..., None])[..., 0])
        covariances.append(P_UNN - P_UNN @ N_UNN @ P_UNN)
    stacked = [torch.stack(each[::-1], 1) for each in (means, covariances)]
    none = covariances[0].new_zeros(len(N_UNN), 0, *N_UNN.shape[1:])
    return Smoothed(stacked[0], stacked[1], torch.stack(lagged[::-1], 1) if lagged else none)
