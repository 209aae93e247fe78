"""Low-rank adaptation (LoRA): a small product of two matrices learns beside each matrix of a trained model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from transduce.core.config import ConfigError, Table
from transduce.core.errors import UserError
from transduce.core.registry import alternatives
from transduce.models.weights import prefixes, summarise
from transduce.training.inheritance import Inherited
from transduce.training.optimization import Optimizer, check_at_least

FACTORS = ("up", "down")


@dataclass(frozen=True)
class LowRank:
    """Low-rank adaptation, LoRA (Hu et al. 2021, section 4.1): each matrix [M, N] of the run that training starts from
    becomes W = W0 + alpha / rank * U D. U [M, rank] starts at 0, and D [rank, N] at random numbers. Only U and D are
    trained, so an optimiser's statistics are small.

    ``matrices`` names the modules or parameters whose matrices learn so, also with wildcards; a smaller
    matrix has the rank of its shorter side. ``whole`` names the parameters that are trained as usual, such as "*.bias".
    All others keep their values.

    The model always has W itself, so checkpoints, averages and exports have no part that is new. The product is added
    to W after each update, with its rounding. Raises UserError if ``rank`` is below 1, or ``alpha`` is not above 0.
    """

    rank: int = 8
    alpha: float = 16.0
    matrices: tuple[str, ...] = ("*",)
    whole: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_at_least("training.adapter.rank", self.rank, 1)
        if not 0 < self.alpha < math.inf:
            raise UserError(f"training.adapter.alpha = {self.alpha}: a finite number above 0 was expected")

    def __call__(
        self, model: nn.Module, optimizer: Optimizer, inherited: Inherited | None
    ) -> tuple[torch.optim.Optimizer, list[str]]:
        """Excludes all parameters of ``model`` from training, in place, that are neither adapted nor ``whole``. Frozen
        parameters stay frozen. Returns the optimiser and a line for the report.

        Raises ConfigError if a pattern matches nothing, if nothing is left to train, or if a parameter that
        no run has given would keep its random values.
        """
        names: dict[nn.Parameter, list[str]] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            if parameter.is_floating_point() and parameter.requires_grad:
                names.setdefault(parameter, []).append(name)
        every = {name: parameter for parameter, each in names.items() for name in each}
        matrices = {name: parameter for name, parameter in every.items() if parameter.ndim == 2}
        whole = dict.fromkeys(every[name] for name in _matching("whole", self.whole, every))
        chosen = dict.fromkeys(every[name] for name in _matching("matrices", self.matrices, matrices))
        adapted = [parameter for parameter in chosen if parameter not in whole]
        if not adapted:
            raise ConfigError(
                "training.adapter", "no matrix is left to adapt: name fewer parameters as whole or frozen"
            )
        begun = () if inherited is None else random_values(inherited.as_json())
        lacking = [name for name in begun if name in every and every[name] not in whole]
        if lacking:
            raise ConfigError(
                "training.adapter",
                f"{', '.join(summarise(lacking, every))} starts at random values, which low rank cannot train: name it "
                "in training.adapter.whole",
            )
        for parameter in names:
            parameter.requires_grad_(parameter in chosen or parameter in whole)
        made = Adapted({names[each][0]: each for each in adapted}, [*whole], self, optimizer)
        few = sum(factor.numel() for pair in made.factors.values() for factor in pair)
        told = summarise([name for each in adapted for name in names[each]], [*matrices])
        return made, [
            f"adapted with rank {self.rank}: {', '.join(told)}, {len(adapted):,} matrices with {few:,} numbers beside "
            f"{sum(each.numel() for each in adapted):,}",
            *([f"trained whole: {sum(each.numel() for each in whole):,} parameters"] if whole else []),
        ]


def random_values(inherited: Table) -> list[str]:
    """The parameters with values that no run has given, from a report as init.json has it."""
    found = [*inherited["fresh"], *inherited.get("misfits", ())]
    given = inherited.get("from_parts", {})
    found += [name for name, (own, size) in inherited.get("by_token", {}).items() if own + given.get(name, 0) < size]
    return [*found, *(name for part in inherited.get("parts", ()) for name in random_values(part))]


def _matching(key: str, patterns: Sequence[str], names: Mapping[str, object]) -> list[str]:
    """The names that the patterns match, or that are in a module that they match. Raises ConfigError if a pattern
    matches none.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        some = [name for name in names if any(fnmatchcase(prefix, pattern) for prefix in prefixes(name))]
        if not some:
            depth = pattern.count(".") + 1
            near = {prefix for name in names for prefix in prefixes(name) if prefix.count(".") < depth}
            what = "matrix" if key == "matrices" else "parameter"
            raise ConfigError(
                f"training.adapter.{key}", f'"{pattern}" names no {what} that is trained{alternatives(pattern, near)}'
            )
        found |= dict.fromkeys(some)
    return [*found]


class Adapted(torch.optim.Optimizer):
    """Trains the factors of the ``matrices`` by the gradients of the matrices, and adds the change of their product to
    the matrices. The chain rule gives the factors' gradients: of U it is s G D^T and of D it is s U^T G, if G is the
    gradient of the matrix and s = alpha / rank. It trains the parameters ``whole`` as the inner optimiser does.

    The state of a matrix has the factors, and the inner optimiser's statistics of them.
    """

    def __init__(
        self, matrices: Mapping[str, nn.Parameter], whole: list[nn.Parameter], options: LowRank, make: Optimizer
    ) -> None:
        super().__init__([*matrices.values(), *whole], {"lr": make.rate})
        self.names = {matrix: name for name, matrix in matrices.items()}
        self.scale, self.whole = options.alpha / options.rank, whole
        self.factors = {matrix: _factors(matrix, options.rank) for matrix in matrices.values()}
        self.inner = make([*(factor for pair in self.factors.values() for factor in pair), *whole])
        self.peaks = [group["lr"] for group in self.inner.param_groups]
        self.peak = make.rate
        self._tell()

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        share = self.param_groups[0]["lr"] / self.peak if self.peak else 0.0
        for group, peak in zip(self.inner.param_groups, self.peaks, strict=True):
            group["lr"] = peak * share
        before = {}
        for matrix, (up, down) in self.factors.items():
            if matrix.grad is not None:
                gradient = matrix.grad
                up.grad, down.grad = self.scale * gradient @ down.T, self.scale * up.T @ gradient
                before[matrix] = up.clone(), down.clone()
        self.inner.step()
        for matrix, (old_up, old_down) in before.items():
            up, down = self.factors[matrix]
            change = torch.cat((up, old_up), 1) @ torch.cat((down, -old_down))
            matrix.add_(change, alpha=self.scale)
            up.grad = down.grad = None
        self._tell()

    def _tell(self) -> None:
        """Shows the factors and their statistics as the state of the matrices."""
        for matrix, pair in self.factors.items():
            self.state[matrix] = dict(zip(FACTORS, (each.detach() for each in pair), strict=True))
            for factor, each in zip(FACTORS, pair, strict=True):
                kept = self.inner.state.get(each, {})
                self.state[matrix] |= {f"{factor}_{kind}": value for kind, value in kept.items()}
        for parameter in self.whole:
            self.state[parameter] = self.inner.state.get(parameter, {})

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Goes on from a state, in place. Raises UserError if it is of another rank."""
        super().load_state_dict(state_dict)
        for matrix, pair in self.factors.items():
            given = self.state[matrix]
            if any(given[kind].shape != each.shape for kind, each in zip(FACTORS, pair, strict=True)):
                raise UserError(
                    f"training.adapter: the checkpoint has no factors {_shapes(pair)} of {self.names[matrix]}: resume "
                    "with training.adapter as it was, or start from its weights in another directory (--init RUN)"
                )
            for kind, each in zip(FACTORS, pair, strict=True):
                each.copy_(given[kind])
                kept = {
                    key.removeprefix(f"{kind}_"): value for key, value in given.items() if key.startswith(f"{kind}_")
                }
                self.inner.state[each] = kept
        for parameter in self.whole:
            self.inner.state[parameter] = self.state[parameter]
        self._tell()


def _factors(matrix: nn.Parameter, rank: int) -> tuple[nn.Parameter, nn.Parameter]:
    rows, columns = matrix.shape
    rank = min(rank, rows, columns)
    up, down = matrix.new_zeros(rows, rank), matrix.new_empty(rank, columns)
    bound = 1 / math.sqrt(columns)
    return nn.Parameter(up), nn.Parameter(down.uniform_(-bound, bound))


def _shapes(pair: Sequence[Tensor]) -> str:
    return " and ".join(f"{tuple(each.shape)}" for each in pair)
