"""What an augmentation is, where its chance comes from, and who may have one. B rows, S steps, D numbers a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from transduce.errors import UserError
from transduce.types import Batch, Padded


class Augmentation(Protocol):
    """The signals [B, S, D] of a batch, changed for training: what happens to an example is a function of the seed, the
    epoch and the example's id alone, so that a run that is resumed sees what it would have seen. What stands behind a
    row's end stays nobody's."""

    def __call__(self, source: Padded, ids_B: Tensor, epoch: int, seed: int) -> Padded: ...


MOST = 1000  # augmentations of a run


def augmented(augmentations: Sequence[Augmentation], batch: Batch, epoch: int, seed: int) -> Batch:
    """A batch of an epoch of training, changed by each in order, with draws of their own."""
    source = batch.source
    for place, augmentation in enumerate(augmentations):
        source = augmentation(source, batch.ids, epoch, seed * MOST + place)
    return replace(batch, source=source)


def check_augmentation(augmentations: Sequence[Augmentation], signal: bool) -> None:
    """Raise ValueError where there are some, and the source is no ``signal``."""
    if augmentations and not signal:
        raise UserError(
            f"training.augmentation: {type(augmentations[0]).__name__} changes signals (steps of numbers), and the "
            'source is text or a series; leave it out, or set data.units.source to "sound", "picture" or "clip"'
        )


def generators(ids_B: Tensor, epoch: int, seed: int) -> list[np.random.Generator]:
    """A source of chance for each example."""
    return [np.random.default_rng([seed, epoch, number]) for number in ids_B.tolist()]


def uniform(ids_B: Tensor, epoch: int, seed: int, count: int) -> Tensor:
    """[B, count], from 0 to below 1, float64."""
    return torch.from_numpy(np.stack([random.random(count) for random in generators(ids_B, epoch, seed)]))


def check_share(name: str, value: float, most: float = 1.0) -> None:
    if not 0 <= value <= most:
        raise UserError(f"{name} = {value}: 0 to {most:g} was expected")
