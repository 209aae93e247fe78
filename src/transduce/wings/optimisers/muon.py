"""Muon: the step of a matrix is its momentum with singular values made equal. All other parameters have Adam."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from transduce.layers.modules.embedding import TableParameter
from transduce.training.optimization import check_at_least, check_constants

ROOT = (3.4445, -4.7750, 2.0315)  # Jordan et al. 2024: a x + b x^3 + c x^5 moves singular values of 0 to 1 towards 1
TIMES = 5
SIZE = 0.2  # of a step's numbers, as Adam's usually are: one rate suits both (Liu et al. 2025, eq. 4)
TINY = 1e-30  # added to a divisor that may be 0


@dataclass(frozen=True)
class Muon:
    """Muon (Jordan et al. 2024): the step of a matrix is its momentum with all singular values made equal. So a rare
    direction learns as fast as a frequent one, and a model needs fewer updates than with Adam. Embeddings, readouts and
    parameters of one axis have Adam.

    A matrix is divided into blocks of at most ``block`` rows, and each block is treated alone. The inverse root
    (M M')^(-1/2) of a block's momentum M [rows, columns] multiplies M. It is computed anew in every ``every`` updates.
    A larger ``block`` and a smaller ``every`` cost more time, and are nearer to the paper, whose blocks are whole
    matrices in every update. The numbers of a step have a mean size of 0.2 times the ``rate``, which suits the other
    parameters' Adam as well.
    """

    rate: float = 1e-2
    momentum: float = 0.95
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    block: int = 64
    every: int = 10

    def __post_init__(self) -> None:
        check_constants(self)
        check_at_least("block", self.block, 1)
        check_at_least("every", self.every, 1)

    def __call__(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return _Muon(list(parameters), self)


class _Muon(torch.optim.Adam):
    """Adam, apart from the first group of parameters, which has the matrices.

    The state of a matrix is its ``momentum``, the ``roots`` [rows, block] of its blocks, and the number of its steps.
    """

    def __init__(self, parameters: list[nn.Parameter], options: Muon) -> None:
        matrices = [each for each in parameters if each.ndim > 1 and not isinstance(each, TableParameter)]
        others = [each for each in parameters if each.ndim < 2 or isinstance(each, TableParameter)]
        groups = [{"params": matrices}, {"params": others}]
        betas = (options.beta1, options.beta2)
        super().__init__(groups, options.rate, betas, options.epsilon, fused=True)
        self.options = options
        for matrix in matrices:
            rows = divided(matrix.flatten(1), options.block).shape[1]
            roots = matrix.new_zeros(len(matrix), rows)
            self.state[matrix] = {"momentum": torch.zeros_like(matrix), "roots": roots, "step": torch.tensor(0.0)}

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        matrices = self.param_groups[0]["params"]
        gradients = [matrix.grad for matrix in matrices]
        for matrix in matrices:
            matrix.grad = None
        loss = super().step(closure)  # of the others: it leaves out what has no gradient
        for place, (matrix, gradient) in enumerate(zip(matrices, gradients, strict=True)):
            if gradient is not None:
                self._step(matrix, gradient, place)
                matrix.grad = gradient
        return loss

    def _step(self, matrix: Tensor, gradient: Tensor, place: int) -> None:
        """One step of a matrix, in place. The ``place`` among the matrices spreads their roots over the updates."""
        state, options = self.state[matrix], self.options
        state["momentum"].lerp_(gradient, 1 - options.momentum)
        ahead = gradient.lerp(state["momentum"], options.momentum).flatten(1)  # Nesterov's
        blocks = divided(ahead, options.block)
        begun = state["step"] > 0 and state["roots"].shape[1] == blocks.shape[1]  # a resumed run may have other blocks
        if not begun or (int(state["step"]) + place) % options.every == 0:
            state["roots"] = inverse_roots(blocks).flatten(0, 1)[: len(matrix)].clone()
        state["step"] += 1
        equal = divided(state["roots"], options.block) @ blocks
        size = torch.linalg.vector_norm(equal, dim=(1, 2), keepdim=True) / (equal[0].numel() ** 0.5)
        step = (equal / (size + TINY)).flatten(0, 1)[: len(matrix)]
        matrix.add_(step.view_as(matrix), alpha=-SIZE * self.param_groups[0]["lr"])


def divided(matrix: Tensor, most: int) -> Tensor:
    """Blocks [B, rows, columns] of a matrix, of at most ``most`` rows and no more rows than columns. Rows of zeros fill
    the last block.
    """
    rows, columns = matrix.shape
    count = -(-rows // min(most, columns))
    each = -(-rows // count)
    if count * each > rows:
        matrix = nn.functional.pad(matrix, (0, 0, 0, count * each - rows))
    return matrix.reshape(count, each, columns)


def inverse_roots(blocks: Tensor) -> Tensor:
    """(M M')^(-1/2) of each of the ``blocks`` M [B, rows, columns], up to a factor: [B, rows, rows]. The product with M
    has singular values that differ by a factor of at most two, if those of M do by less than 500.

    Each round of the iteration takes M to p(M M') M, with the polynomial p(x) = a + b x + c x^2.
    """
    gram = blocks @ blocks.mT
    gram /= gram.diagonal(dim1=1, dim2=2).sum(1)[:, None, None] + TINY  # the sum of the squared singular values
    gram.diagonal(dim1=1, dim2=2).add_(1e-6)
    one = torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)
    a, b, c = ROOT
    roots = a * one + b * gram + c * gram @ gram
    polynomial = roots
    for _ in range(TIMES - 1):
        gram = polynomial @ gram @ polynomial
        polynomial = a * one + b * gram + c * gram @ gram
        roots = polynomial @ roots
    return roots
