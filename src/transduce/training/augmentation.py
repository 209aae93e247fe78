"""The contract of an augmentation, and its random numbers. B rows, S steps, D numbers per step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.types import Batch, Padded
from transduce.data.tokenizers.base import Tokenizer


class Augmentation(Protocol):
    """Changes the signals [B, S, D] of a batch for training. ``ids_B`` are the row numbers of the examples in the data
    (``Batch.ids``). The result may have other lengths. A class with the attribute ``for_bands = True`` gets signals of
    frequency bands alone. A class with the attribute ``for_text = True`` gets pairs of texts instead, before a batch is
    divided among processes (``wings.robustness.base``).

    The change depends only on the seed, the epoch and the example's id, so a resumed run sees the same signals. The
    values at padding are arbitrary, both in the batch and in the result.
    """

    def __call__(self, source: Padded, ids_B: Tensor, epoch: int, seed: int) -> Padded: ...


MOST = 1000  # largest number of augmentations in a run


def augmented(augmentations: Sequence[Augmentation], batch: Batch, epoch: int, seed: int) -> Batch:
    """Applies the augmentations to the sources of a batch, one after the other. Returns the changed batch. Each
    augmentation has its own random numbers.
    """
    source = batch.source
    for place, augmentation in enumerate(augmentations):
        if for_text(augmentation):  # the feed has changed its texts
            continue
        source = augmentation(source, batch.ids, epoch, seed * MOST + place)
    return replace(batch, source=source)


def for_text(augmentation: object) -> bool:
    """True if the augmentation changes texts, and no signals."""
    return bool(getattr(augmentation, "for_text", False))


def check_augmentation(augmentations: Sequence[object], tokenizer: Tokenizer) -> None:
    """Raises UserError if an augmentation changes another kind of source than the one that ``tokenizer`` reads: a
    signal or text. Also raises it for one that is for frequency bands alone (``for_bands``) if the signal's numbers are
    others.
    """
    wrong = next((each for each in augmentations if getattr(each, "for_bands", False)), None)
    if wrong is not None and tokenizer.signal and not getattr(tokenizer, "bands", False):
        raise UserError(
            f"training.augmentation: {type(wrong).__name__} moves frequency bands, and the source has other numbers "
            "(cepstra, differences, pixels): leave it out, or read log-mel energies alone"
        )
    other = next((each for each in augmentations if for_text(each) == tokenizer.signal), None)
    if other is not None and tokenizer.signal:
        raise UserError(
            f"training.augmentation: {type(other).__name__} changes texts, and the source is a signal: leave it out"
        )
    if other is not None:
        raise UserError(
            f"training.augmentation: {type(other).__name__} changes signals (steps of numbers), and the "
            'source is text or a series; leave it out, or set data.units.source to "sound", "picture" or "clip"'
        )


def generators(ids_B: Tensor, epoch: int, seed: int) -> list[np.random.Generator]:
    """A random generator for each example, seeded with the seed, the epoch and the example's id."""
    return [np.random.default_rng([seed, epoch, number]) for number in ids_B.tolist()]


def uniform(ids_B: Tensor, epoch: int, seed: int, count: int) -> Tensor:
    """Random numbers [B, count] in [0, 1), float64, from the ``generators`` of the examples."""
    return torch.from_numpy(np.stack([random.random(count) for random in generators(ids_B, epoch, seed)]))


def check_share(name: str, value: float, most: float = 1.0) -> None:
    if not 0 <= value <= most:
        raise UserError(f"{name} = {value}: 0 to {most:g} was expected")
