"""Estimation of a linear-Gaussian model's parameters: expectation maximisation, or ascent by gradient.

B series, T steps, C channels, N states, U patterns of gaps (filtering.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.wings.counted.kalman.filtering import Observed, Parameters, kalman_filter
from transduce.wings.counted.kalman.smoothing import Smoothed, smooth

ITERATIONS = 10  # of the gradient method in one pass
SMALLEST = 1e-12  # variance that a covariance keeps in each direction, so that it stays invertible


@dataclass(frozen=True)
class Estimated:
    """Which parameters are estimated: masks of the entries of ``transition`` [N, N], ``state_noise`` [N, N] and
    ``observation`` [C, N]. If ``start`` is True, the mean and covariance of the first state are estimated too.

    The noise R is always estimated.
    """

    transition: Tensor
    state_noise: Tensor
    observation: Tensor
    start: bool


def log_likelihood(model: Parameters, groups: Sequence[Observed]) -> Tensor:
    """The log-density (natural logarithm) of all known numbers, summed over all groups of series."""
    return torch.stack([kalman_filter(model, each).log_density.sum() for each in groups]).sum()


# ------------------------------------------------------------ expectation maximisation


@dataclass
class Moments:
    """Sums of expected products over all series and steps, given all numbers. x is a state, v the noise of an
    observation, and ' the transpose.

    ``series`` counts series, and ``steps`` counts their steps. ``first`` [N] sums x_1 and ``first_square`` [N, N] sums
    x_1 x_1'. Over all transitions, ``before`` [N, N] sums x_t x_t', ``after`` x_t+1 x_t+1' and ``across`` x_t+1 x_t'.
    Over all steps, ``state`` [N, N] sums x x', ``noise_state`` [C, N] v x' and ``noise`` [C, C] v v'.
    """

    series: int
    steps: int
    first: Tensor
    first_square: Tensor
    before: Tensor
    after: Tensor
    across: Tensor
    state: Tensor
    noise_state: Tensor
    noise: Tensor

    def __add__(self, other: Moments) -> Moments:
        return Moments(**{name: value + getattr(other, name) for name, value in vars(self).items()})


def em_pass(model: Parameters, estimated: Estimated, groups: Sequence[Observed]) -> tuple[Parameters, float]:
    """One pass of expectation maximisation (Shumway and Stoffer 1982).

    Returns the new parameters, and the log-likelihood of the old ones.
    """
    log_prob, total = 0.0, None
    for observed in groups:
        filtered = kalman_filter(model, observed)
        log_prob += float(filtered.log_density.sum())
        found = moments(model, observed, smooth(model, observed, filtered))
        total = found if total is None else total + found
    assert total is not None
    return maximised(model, estimated, total), log_prob


def moments(model: Parameters, observed: Observed, smoothed: Smoothed) -> Moments:
    """The expected products of the smoothed states and of the noise of all observations, missing ones included."""
    H, R = model.observation, model.noise
    x_BTN, V_UTNN = smoothed.mean, smoothed.covariance
    count_U = torch.bincount(observed.pattern, minlength=len(observed.patterns)).to(H.dtype)

    def products(one_BTX: Tensor, other_BTY: Tensor, covariance_UTXY: Tensor) -> Tensor:
        spread_XY = torch.einsum("u,utxy->xy", count_U, covariance_UTXY)
        return torch.einsum("btx,bty->xy", one_BTX, other_BTY) + spread_XY

    there_UTC1 = observed.patterns[..., None].to(H.dtype)
    known_UTCC = there_UTC1 * there_UTC1.mT
    own_UTCC = R * known_UTCC + torch.diag_embed(1 - there_UTC1[..., 0])
    guess_UTCC = R @ (torch.linalg.inv(own_UTCC) * known_UTCC)  # the noise of all channels from the known ones
    error_BTC = (observed.values - x_BTN @ H.T) * observed.known
    H_UTCN = H * there_UTC1
    v_BTC = (guess_UTCC[observed.pattern] @ error_BTC[..., None])[..., 0]
    seen_UTCC = guess_UTCC @ (H_UTCN @ V_UTNN @ H_UTCN.mT) @ guess_UTCC.mT
    return Moments(
        series=len(x_BTN),
        steps=len(x_BTN) * x_BTN.shape[1],
        first=x_BTN[:, 0].sum(0),
        first_square=products(x_BTN[:, :1], x_BTN[:, :1], V_UTNN[:, :1]),
        before=products(x_BTN[:, :-1], x_BTN[:, :-1], V_UTNN[:, :-1]),
        after=products(x_BTN[:, 1:], x_BTN[:, 1:], V_UTNN[:, 1:]),
        across=products(x_BTN[:, 1:], x_BTN[:, :-1], smoothed.lagged),
        state=products(x_BTN, x_BTN, V_UTNN),
        noise_state=products(v_BTC, x_BTN, -guess_UTCC @ H_UTCN @ V_UTNN),
        noise=products(v_BTC, v_BTC, seen_UTCC + R - guess_UTCC @ R),
    )


def maximised(model: Parameters, estimated: Estimated, sums: Moments) -> Parameters:
    """New parameters from the sums of the expectation step. Parameters that are not estimated stay the same.

    F and H maximise the expected log-likelihood, given the old Q and R. Then Q, R and the first state maximise it,
    given F and H. So the likelihood never falls (Meng and Rubin 1993).
    """
    transitions = sums.steps - sums.series
    F, Q = model.transition, model.state_noise
    if transitions:
        F = _regressed(F, estimated.transition, sums.across, sums.before, Q)
        square_NN = sums.after - F @ sums.across.T - sums.across @ F.T + F @ sums.before @ F.T
        Q = _positive(square_NN / transitions, estimated.state_noise)
    H = model.observation
    H = _regressed(H, estimated.observation, H @ sums.state + sums.noise_state, sums.state, model.noise)
    moved_CN = model.observation - H
    noise_CC = sums.noise + moved_CN @ sums.noise_state.T + sums.noise_state @ moved_CN.T
    R = _positive((noise_CC + moved_CN @ sums.state @ moved_CN.T) / sums.steps, torch.ones_like(noise_CC).bool())
    mean, covariance = model.mean, model.covariance
    if estimated.start:
        mean = sums.first / sums.series
        covariance_NN = sums.first_square / sums.series - mean[:, None] * mean
        covariance = _positive(covariance_NN, torch.ones_like(covariance_NN).bool())
    return Parameters(F, Q, H, R, mean, covariance)


def _regressed(matrix_RN: Tensor, free_RN: Tensor, products_RN: Tensor, squares_NN: Tensor, noise_RR: Tensor) -> Tensor:
    """The most probable matrix that predicts R variables from N predictors: only its free entries are new.

    ``products_RN`` are the expected products of variables and predictors, and ``squares_NN`` of the predictors with
    each other. ``noise_RR`` is the covariance of the errors (generalised least squares, Aitken 1936).
    """
    fixed_RN = matrix_RN * ~free_RN
    left_RN = products_RN - fixed_RN @ squares_NN
    rows = free_RN.any(1)
    if not rows.any():
        return matrix_RN
    masks = free_RN[rows][0]
    new_RN = matrix_RN.clone()
    if (free_RN[rows] == masks).all():  # then the covariance changes nothing
        solved_RN = torch.linalg.lstsq(squares_NN[masks][:, masks], left_RN[rows][:, masks].T).solution.T
        new_RN[rows.nonzero(), masks.nonzero()[:, 0]] = solved_RN
        return new_RN
    weight_RR = torch.linalg.inv(noise_RR + SMALLEST * torch.eye(len(noise_RR), dtype=noise_RR.dtype))
    row_F, column_F = free_RN.nonzero().T
    equations_FF = weight_RR[row_F][:, row_F] * squares_NN[column_F][:, column_F]
    new_RN[row_F, column_F] = torch.linalg.lstsq(equations_FF, (weight_RR @ left_RN)[row_F, column_F]).solution
    return new_RN


def _positive(covariance_NN: Tensor, mask_NN: Tensor) -> Tensor:
    """The covariance made symmetric, 0 outside ``mask_NN``, with ``SMALLEST`` added to its diagonal inside the mask."""
    kept_NN = (covariance_NN + covariance_NN.T) / 2 * mask_NN
    return kept_NN + SMALLEST * torch.diag(mask_NN.diagonal().to(kept_NN.dtype))


# ------------------------------------------------------------------ gradient


class GradientAscent:
    """Ascent of the log-likelihood by L-BFGS (Liu and Nocedal 1989), with derivatives through the filter. Each call
    does one pass of at most ``ITERATIONS`` steps.

    Covariances are L L' with a lower triangular L, so they stay positive.
    """

    def __init__(self, model: Parameters, estimated: Estimated) -> None:
        self.model, self.estimated = model, estimated
        self.masks = [
            estimated.transition,
            estimated.state_noise.tril(),
            estimated.observation,
            torch.ones_like(model.noise, dtype=torch.bool).tril(),
            torch.full_like(model.mean, estimated.start, dtype=torch.bool),
            torch.full_like(model.covariance, estimated.start, dtype=torch.bool).tril(),
        ]
        parts = [
            model.transition,
            _factor(model.state_noise),
            model.observation,
            _factor(model.noise),
            model.mean,
            _factor(model.covariance),
        ]
        self.parts = parts
        self.free = [part[mask].clone().requires_grad_() for part, mask in zip(parts, self.masks, strict=True)]
        self.optimizer = torch.optim.LBFGS(self.free, max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def parameters(self) -> Parameters:
        """The current parameters, as tensors with derivatives by the estimated entries."""
        F, Q, H, R, mean, P = (
            part.masked_scatter(mask, free) for part, mask, free in zip(self.parts, self.masks, self.free, strict=True)
        )
        return Parameters(F, Q @ Q.T, H, _square(R), mean, P @ P.T)

    def __call__(self, groups: Sequence[Observed]) -> float:
        """One pass. Returns the log-likelihood of all known numbers before the pass."""
        numbers = max(1, sum(int(each.known.sum()) for each in groups))
        losses: list[float] = []

        def closure() -> Tensor:
            self.optimizer.zero_grad()
            with torch.enable_grad():
                loss = -log_likelihood(self.parameters(), groups) / numbers
                torch.autograd.backward(loss)
            losses.append(float(loss.detach()))
            return loss

        step: Callable[[Callable[[], Tensor]], object] = self.optimizer.step
        step(closure)
        return -losses[0] * numbers


def _square(root_CC: Tensor) -> Tensor:
    return root_CC @ root_CC.T + SMALLEST * torch.eye(len(root_CC), dtype=root_CC.dtype, device=root_CC.device)


def _factor(covariance_NN: Tensor) -> Tensor:
    """A lower triangular L with L L' = the covariance. Rows of states without noise are 0."""
    noisy_N = covariance_NN.diagonal() > 0
    root_NN = torch.zeros_like(covariance_NN)
    places = noisy_N.nonzero()[:, 0]
    root_NN[places[:, None], places] = torch.linalg.cholesky(covariance_NN[places][:, places])
    return root_NN
