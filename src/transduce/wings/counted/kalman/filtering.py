"""The Kalman filter over many series at once (Kalman 1960).

    x_1 ~ N(m, P),   x_t+1 = F x_t + w_t,   w_t ~ N(0, Q),   y_t = H x_t + v_t,   v_t ~ N(0, R)

B series, T steps, C channels, N states, U different patterns of gaps. Covariances do not depend on the numbers, only on
which of them are missing. So they are computed once per pattern, not once per series.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.core.errors import UserError

ROUNDING = 8  # errors of rounding in the pivot of a Cholesky factor, for each channel


@dataclass(frozen=True)
class Parameters:
    """The parameters of a linear-Gaussian model, in float64, with the letters of the formulas above.

    ``transition`` is F [N, N], ``state_noise`` Q [N, N], ``observation`` H [C, N] and ``noise`` R [C, C]. ``mean`` m
    [N] and ``covariance`` P [N, N] are of the first state.
    """

    transition: Tensor
    state_noise: Tensor
    observation: Tensor
    noise: Tensor
    mean: Tensor
    covariance: Tensor


@dataclass(frozen=True)
class Observed:
    """Series of numbers, [B, T, C] in float64. ``known`` [B, T, C] is True where a number is given; others are 0.

    ``pattern`` [B] is the index of each series' pattern of gaps, and ``patterns`` [U, T, C] are the different patterns.
    """

    values: Tensor
    known: Tensor
    pattern: Tensor
    patterns: Tensor

    @classmethod
    def of(cls, values_BTC: Tensor) -> Observed:
        """The series; NaN means that a number is missing."""
        wide_BTC = values_BTC.double()
        known_BTC = ~wide_BTC.isnan()
        if not known_BTC.numel():
            return cls(wide_BTC, known_BTC, torch.zeros(len(wide_BTC), dtype=torch.long), known_BTC[:1])
        patterns_UTC, pattern_B = torch.unique(known_BTC, dim=0, return_inverse=True)
        return cls(wide_BTC.nan_to_num(0.0), known_BTC, pattern_B, patterns_UTC)


@dataclass(frozen=True)
class Filtered:
    """The filter's predictions for each step, before it reads the step's numbers. Lists have T entries.

    ``mean`` [B, N] and ``covariance`` [U, N, N] are of the state; both lists have one more entry, for the step after
    the last. ``error`` [B, C] is y - H x, and 0 where y is missing. ``precision`` [U, C, C] is the inverse of the
    error's covariance, with rows and columns of 0 for missing channels. ``onward`` [U, N, N] is F (I - K H) with the
    gain K: it maps an error of this step's mean to the error of the next mean.

    ``log_density`` [B, T, C] is the log-density of each number given all numbers before it, in the order of steps and
    then of channels; 0 where the number is missing.
    """

    mean: list[Tensor]
    covariance: list[Tensor]
    error: list[Tensor]
    precision: list[Tensor]
    onward: list[Tensor]
    log_density: Tensor


def kalman_filter(model: Parameters, observed: Observed) -> Filtered:
    """Runs the filter over all series. Raises UserError if the covariance of the errors is singular."""
    F, H, R = model.transition, model.observation, model.noise
    B, T, C = observed.values.shape
    U, N = len(observed.patterns), len(F)
    own_B = observed.pattern
    eye_NN, _eye_CC = torch.eye(N, dtype=F.dtype, device=F.device), torch.eye(C, dtype=F.dtype, device=F.device)
    x_BN, P_UNN = model.mean.expand(B, N), model.covariance.expand(U, N, N)
    means, covariances, errors, precisions, onwards, densities = [x_BN], [P_UNN], [], [], [], []
    for t in range(T):
        there_UC1 = observed.patterns[:, t, :, None].to(F.dtype)
        H_UCN = H * there_UC1
        noise_UCC = R * there_UC1 * there_UC1.mT + torch.diag_embed(1 - there_UC1[..., 0])  # 1 for a missing channel
        cross_UNC = P_UNN @ H_UCN.mT
        root_UCC = _root(H_UCN @ cross_UNC + noise_UCC, t)
        precision_UCC = torch.cholesky_inverse(root_UCC) * there_UC1 * there_UC1.mT
        gain_UNC = cross_UNC @ precision_UCC
        kept_UNN = eye_NN - gain_UNC @ H_UCN
        error_BC = (observed.values[:, t] - x_BN @ H.T) * observed.known[:, t]
        unit_BC = torch.linalg.solve_triangular(root_UCC[own_B], error_BC[..., None], upper=False)[..., 0]
        spread_UC = root_UCC.diagonal(dim1=-2, dim2=-1).log() + 0.5 * math.log(2 * math.pi)
        densities.append((-spread_UC[own_B] - 0.5 * unit_BC.square()) * observed.known[:, t])
        # Joseph's form keeps the covariance positive
        P_UNN = kept_UNN @ P_UNN @ kept_UNN.mT + gain_UNC @ noise_UCC @ gain_UNC.mT
        x_BN = x_BN + (gain_UNC[own_B] @ error_BC[..., None])[..., 0]
        x_BN, P_UNN = x_BN @ F.T, F @ P_UNN @ F.T + model.state_noise
        means.append(x_BN)
        covariances.append(P_UNN)
        errors.append(error_BC)
        precisions.append(precision_UCC)
        onwards.append(F @ kept_UNN)
    log_density_BTC = torch.stack(densities, 1) if densities else observed.values
    return Filtered(means, covariances, errors, precisions, onwards, log_density_BTC)


def _root(covariance_UCC: Tensor, step: int) -> Tensor:
    """The Cholesky factors. Raises UserError if a channel's variance, given the channels before it, is zero up to
    rounding. The sign of such a variance depends on the processor.
    """
    root_UCC: Tensor
    root_UCC, fault_U = torch.linalg.cholesky_ex((covariance_UCC + covariance_UCC.mT) / 2)
    left_UC, whole_UC = (each.diagonal(dim1=-2, dim2=-1) for each in (root_UCC, covariance_UCC))
    rounding = ROUNDING * covariance_UCC.shape[-1] * torch.finfo(covariance_UCC.dtype).eps
    if bool((fault_U > 0).any()) or not bool((left_UC.square() > rounding * whole_UC).all()):
        raise UserError(
            f"the covariance of the Kalman filter's errors is singular at step {step + 1}: one channel follows exactly "
            "from the others or from the past; leave out a channel that repeats another (data.origin.columns), or use "
            "fewer model.components"
        )
    return root_UCC
