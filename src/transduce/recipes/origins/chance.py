"""Chance of its own for each thing that an origin makes: the first hundred are the same, however many there are."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")
Chance = np.random.Generator


def chance_of(seed: int, split: str, number: int) -> Chance:
    """What is drawn for one of a split, by its number from 0."""
    return np.random.default_rng([seed, zlib.crc32(split.encode()), number])


def one(choices: Sequence[T], chance: Chance) -> T:
    """Any of them, all alike."""
    return choices[int(chance.integers(len(choices)))]
