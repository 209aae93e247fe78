"""Checkpoints: folders of safetensors and JSON, each there in whole or not at all.

``checkpoints/last`` has all that going on takes; ``best`` and ``average`` have weights. A folder is written under
another name, synced to disk and then put in the place of the old one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from transduce.data.batching import Place
from transduce.directory import CONFIG, MODEL, STATE
from transduce.errors import UserError
from transduce.models.weights import load_tensors, load_weights, save_tensors, save_weights

OPTIMIZER = "optimizer.safetensors"  # beside MODEL, STATE and CONFIG
STATISTICS, GENERATOR = "statistics.", "generator."  # how names begin in OPTIMIZER


@dataclass(frozen=True)
class State:
    """Where training stands: all of it that is no tensor.

    ``validations`` holds, of each validation, the value that chooses the best (lower is better, whatever the metric);
    ``best`` is that of checkpoints/best, which may be an average's, and its loss, which decides between equals.
    ``stale`` counts the validations since the best, and ``validating`` the seconds that all of them have taken.
    """

    step: int = 0
    place: Place = field(default_factory=lambda: Place(0, 0))
    tokens: int = 0
    seconds: float = 0.0
    validating: float = 0.0
    reserve: float = 0.0
    best_step: int = 0
    best: tuple[float, float] | None = None
    validated_step: int = 0
    validations: tuple[float, ...] = ()
    stale: int = 0
    recent: tuple[int, ...] = ()


def replace_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """``fill`` a new folder and put it in the place of ``folder``; killed at any moment, one of the two is whole."""
    new, old = folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")
    folder.parent.mkdir(parents=True, exist_ok=True)
    recover(folder)
    new.mkdir()
    fill(new)
    for path in [*new.iterdir(), new]:
        sync(path)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def recover(folder: Path) -> None:
    """Clear up after a ``replace_folder`` that was killed."""
    new, old = folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")
    if old.exists() and not folder.exists():
        # the new folder was complete and synced before the old one was moved
        (new if new.exists() else old).rename(folder)
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save_model(folder: Path, model: nn.Module, about: Mapping[str, Any], configuration: str | None = None) -> None:
    """The weights alone, with what is known ``about`` them, and where that is all there is to go on from, by what
    configuration they were made."""

    def fill(new: Path) -> None:
        save_weights(model, new / MODEL)
        (new / STATE).write_text(json.dumps(dict(about), indent=1))
        if configuration is not None:
            (new / CONFIG).write_text(configuration, encoding="utf-8")

    replace_folder(folder, fill)


def save_training(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, state: State, configuration: str
) -> None:
    """Everything that resuming takes, the random generators' states included."""

    def fill(new: Path) -> None:
        save_weights(model, new / MODEL)
        save_tensors(_optimizer_tensors(model, optimizer) | _generators(), new / OPTIMIZER)
        (new / STATE).write_text(json.dumps(asdict(state), indent=1))
        (new / CONFIG).write_text(configuration, encoding="utf-8")

    replace_folder(folder, fill)


def load_training(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> State:
    """The inverse of ``save_training``, into a model and an optimiser freshly built."""
    load_weights(model, folder / MODEL)
    tensors = load_tensors(folder / OPTIMIZER)
    _restore_generators(tensors)
    _restore_optimizer(model, optimizer, tensors, str(folder / OPTIMIZER))
    state = json.loads((folder / STATE).read_text())
    state["place"] = Place(**state["place"])
    for name in ("validations", "recent", "best"):
        if state[name] is not None:  # JSON has no tuples
            state[name] = tuple(state[name])
    return State(**state)


def resume_point(checkpoints: Path) -> Path | None:
    """``checkpoints/last``, put in order after a kill; None before the first was saved."""
    last = checkpoints / "last"
    for name in ("last", "best", "average"):
        recover(checkpoints / name)
    return last if last.exists() else None


# ----------------------------------------------------------------- averaging


def keep_recent(checkpoints: Path, model: nn.Module, state: State, count: int) -> State:
    """Store the weights among the ``count`` most recent; older ones go."""
    folder = checkpoints / "recent"
    folder.mkdir(parents=True, exist_ok=True)
    steps = (*(step for step in state.recent if step != state.step), state.step)[-count:]
    path = _recent(checkpoints, state.step)
    save_weights(model, path.with_suffix(".new"))
    path.with_suffix(".new").rename(path)
    return replace(state, recent=steps)


def forget_recent(checkpoints: Path, keep: Iterable[int]) -> None:
    """Delete what is no longer among the recent; called once the state that needs them no more is saved."""
    kept = {_recent(checkpoints, step) for step in keep}
    for path in (checkpoints / "recent").glob("*"):
        if path not in kept:
            path.unlink()


@torch.no_grad()
def average_recent(checkpoints: Path, steps: Iterable[int]) -> dict[str, Tensor]:
    """The mean of the recent weights, in float64 (Vaswani et al. 2017, section 6.1)."""
    paths = [_recent(checkpoints, step) for step in steps]
    total = {name: tensor.double() for name, tensor in load_tensors(paths[0]).items()}
    for path in paths[1:]:
        for name, tensor in load_tensors(path).items():
            total[name] += tensor
    return {name: tensor / len(paths) for name, tensor in total.items()}


def _recent(checkpoints: Path, step: int) -> Path:
    return checkpoints / "recent" / f"{step}.safetensors"


# ------------------------------------------------------- optimiser, generators


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimiser remembers of each parameter, by the parameter's name: optimisers number them differently."""
    return {
        f"{STATISTICS}{name}.{kind}": value
        for name, parameter in model.named_parameters()
        for kind, value in optimizer.state.get(parameter, {}).items()
        if value is not None  # SGD's momentum, where it has none
    }


def _restore_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], origin: str
) -> None:
    whole = optimizer.state_dict()
    every = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    number = {parameter: place for place, parameter in enumerate(every)}
    own = dict(model.named_parameters())
    for key, tensor in tensors.items():
        if key.startswith(GENERATOR):
            continue
        name, _, kind = key.removeprefix(STATISTICS).rpartition(".")
        if name not in own or tensor.shape not in (own[name].shape, ()):
            raise UserError(
                f"{origin}: {key} {tuple(tensor.shape)} fits no parameter; was config.toml changed, or is this of an "
                "earlier version (start from its weights: --init)?"
            )
        whole["state"].setdefault(number[own[name]], {})[kind] = tensor
    optimizer.load_state_dict(whole)


def _generators() -> dict[str, Tensor]:
    states = {GENERATOR + "cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states[GENERATOR + "cuda"] = torch.cuda.get_rng_state()
    return states


def _restore_generators(tensors: Mapping[str, Tensor]) -> None:
    torch.set_rng_state(tensors[GENERATOR + "cpu"])
    if torch.cuda.is_available() and GENERATOR + "cuda" in tensors:
        torch.cuda.set_rng_state(tensors[GENERATOR + "cuda"])
