"""Random numbers for each item of an origin: the first items stay the same when more items are requested."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")
Chance = np.random.Generator


def chance_of(seed: int, split: str, number: int) -> Chance:
    """The generator for one item of a split. ``number`` counts from 0."""
    return np.random.default_rng([seed, zlib.crc32(split.encode()), number])


def one(choices: Sequence[T], chance: Chance) -> T:
    """One of the choices, all equally probable."""
    return choices[int(chance.integers(len(choices)))]
