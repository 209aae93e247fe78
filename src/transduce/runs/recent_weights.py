"""``checkpoints/recent``: the last validated weights, whose mean becomes ``checkpoints/average``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from transduce.core.files import write_file
from transduce.models.weights import load_tensors, save_weights
from transduce.runs.layout import RECENT


def keep_recent(checkpoints: Path, model: nn.Module, step: int) -> None:
    """Saves the model's weights of update ``step`` into ``checkpoints/recent``, for an average at the end of training.

    Files of other updates stay until ``forget_recent``: a training that is killed goes on from an earlier state, which
    needs them.
    """
    write_file(_file(checkpoints, step), lambda scratch: save_weights(model, scratch))


def recent_steps(steps: Iterable[int], step: int, count: int) -> tuple[int, ...]:
    """The last ``count`` of the updates ``steps``, whose weights were kept so far, and of ``step``."""
    return (*(each for each in steps if each != step), step)[-count:]


def forget_recent(checkpoints: Path, keep: Iterable[int]) -> None:
    """Deletes the weights in ``checkpoints/recent``, except the weights of the updates ``keep``. Call it only after the
    state of training that no longer needs them is saved.
    """
    kept = {_file(checkpoints, step) for step in keep}
    for path in (checkpoints / RECENT).glob("*"):
        if path not in kept:
            path.unlink()


@torch.no_grad()
def average_recent(checkpoints: Path, steps: Iterable[int]) -> dict[str, Tensor]:
    """The mean of the kept weights of the updates ``steps``, by the name of the parameter, in float64, in the
    processor's memory (Vaswani et al. 2017, section 6.1). Integers, such as counts, are those of the first of them.
    """
    paths = [_file(checkpoints, step) for step in steps]
    first = load_tensors(paths[0])
    total = {name: tensor.double() for name, tensor in first.items() if tensor.is_floating_point()}
    for path in paths[1:]:
        every = load_tensors(path)
        for name in total:
            total[name] += every[name]
    return first | {name: tensor / len(paths) for name, tensor in total.items()}


def _file(checkpoints: Path, step: int) -> Path:
    return checkpoints / RECENT / f"{step}.safetensors"
