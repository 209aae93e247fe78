"""The statistics that an optimiser keeps of each parameter, as tensors of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transduce.core.config import ConfigError
from transduce.core.errors import UserError

PREFIX = "statistics."  # of their names in the checkpoint's file
Kind = tuple[type[nn.Parameter], int]  # a parameter's class, and the number of its axes
Kept = Mapping[Kind, frozenset[str]]  # the names of the statistics


@dataclass(frozen=True)
class Moments:
    """The statistics that an optimiser keeps of each parameter, as ``torch.optim.Optimizer.state`` has them."""

    state: Mapping[Tensor, Mapping[str, Tensor | None]]


def kept_statistics(make: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer], model: nn.Module) -> Kept:
    """The state that an optimiser keeps of parameters like the model's, found by one update of small ones. Empty if
    that fails: the optimiser may need more than gradients.

    Raises ConfigError if it keeps what a checkpoint cannot: values that are no tensors of the parameter's shape or of
    one number, or values of no parameter.
    """
    kinds = list(dict.fromkeys(_kind(each) for each in model.parameters() if each.requires_grad))
    small = [kind(torch.zeros((2,) * axes)) for kind, axes in kinds]
    for each in small:
        each.grad = torch.zeros_like(each)
    try:
        with torch.random.fork_rng(devices=()):
            optimizer = make(small)
            optimizer.step()
    except Exception:
        return {}
    own = dict(zip(small, kinds, strict=True))
    for parameter, statistics in optimizer.state.items():
        if parameter not in own:
            raise ConfigError("training.optimizer", f"{type(optimizer).__name__} keeps state of no parameter: {WHAT}")
        for kind, value in statistics.items():
            _check_kept(type(optimizer).__name__, kind, value, parameter)
    return {kind: frozenset(_tensors(optimizer.state.get(each, {}))) for each, kind in own.items()}


def _kind(parameter: nn.Parameter) -> Kind:
    return type(parameter), parameter.ndim


WHAT = "a checkpoint keeps tensors of a parameter's shape, factors of it, or one number, such as torch.tensor(0.0)"


def _check_kept(optimizer: str, kind: str, value: object, parameter: Tensor) -> None:
    if value is None:  # SGD without momentum
        return
    if not isinstance(value, Tensor):
        raise ConfigError(
            "training.optimizer", f"{optimizer} keeps {kind!r} = {value!r} ({type(value).__name__}): {WHAT}"
        )
    if not _fits(value, parameter):
        shapes = f"{tuple(value.shape)} of a parameter {tuple(parameter.shape)}"
        raise ConfigError("training.optimizer", f"{optimizer} keeps {kind!r} of the shape {shapes}: {WHAT}")


def _fits(value: Tensor, parameter: Tensor, factors: bool = True) -> bool:
    """True for a tensor of the parameter's shape, for one number, and, with ``factors``, for a matrix whose sides are
    no longer than the parameter's: a factor of it, or what belongs to a factor.
    """
    sides = parameter.flatten(1).shape if parameter.ndim > 1 else (0, 0)
    small = value.ndim == 2 and value.shape[0] <= sides[0] and value.shape[1] <= sides[1]
    return value.shape in (parameter.shape, ()) or (factors and small)


def _tensors(statistics: Mapping[str, Tensor | None]) -> dict[str, Tensor]:
    return {kind: value for kind, value in statistics.items() if value is not None}


def optimizer_tensors(model: nn.Module, optimizer: Moments | torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's statistics by the name of the parameter, because optimisers number parameters differently.
    Raises ConfigError as ``kept_statistics`` does.
    """
    found = {}
    for name, parameter in model.named_parameters():
        for kind, value in optimizer.state.get(parameter, {}).items():
            _check_kept(type(optimizer).__name__, kind, value, parameter)
            found[f"{PREFIX}{name}.{kind}"] = value
    return {name: value for name, value in found.items() if value is not None}


def restore_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], origin: str, kept: Kept
) -> None:
    """Gives a new optimiser the statistics in ``tensors``, in place. Raises UserError if one fits no parameter, is not
    finite, or if one that the optimiser keeps (``kept``) is missing.
    """
    whole = optimizer.state_dict()
    every = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    number = {parameter: place for place, parameter in enumerate(every)}
    own = dict(model.named_parameters())
    found: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if not key.startswith(PREFIX):
            continue
        name, _, kind = key.removeprefix(PREFIX).rpartition(".")
        if name not in own or own[name] not in number or not _fits(tensor, own[name], bool(optimizer.state)):
            raise UserError(
                f"{origin}: {key} {tuple(tensor.shape)} fits no parameter; was config.toml changed, or is this of an "
                "earlier version (start from its weights: --init)?"
            )
        if not tensor.isfinite().all():
            raise UserError(f"{origin}: {key} has numbers that are not finite; {ANOTHER}")
        found.setdefault(name, {})[kind] = tensor
    for name, statistics in found.items():
        if missing := kept.get(_kind(own[name]), frozenset()) - statistics.keys():
            raise UserError(
                f"{origin} has no {', '.join(sorted(missing))} of {name}: it is of another optimiser, or damaged; "
                f"resume with training.optimizer as it was, or {ANOTHER}"
            )
        whole["state"][number[own[name]]] = statistics
    optimizer.load_state_dict(whole)


ANOTHER = "start from its weights in another directory (--init RUN)"
