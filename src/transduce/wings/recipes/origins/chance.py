"""Chance that is the same everywhere: splits by hashes, and random generators of single items."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from transduce.data.base import Split

T = TypeVar("T")
Chance = np.random.Generator


def hashed_split(key: str) -> Split:
    """Decides the split of a key, such as a word, in the same way everywhere: the SHA-1 of the key modulo 100 is below
    90 for train, below 95 for valid, otherwise test.
    """
    hundredth = int(hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest(), 16) % 100
    return "train" if hundredth < 90 else "valid" if hundredth < 95 else "test"


def chance_of(seed: int, split: str, number: int) -> Chance:
    """The random generator for one item of made-up data. ``number`` is the item's index in the split, from 0.

    Each item has a generator of its own, so the first items stay the same if more are requested.
    """
    return np.random.default_rng([seed, zlib.crc32(split.encode()), number])


def one(choices: Sequence[T], chance: Chance) -> T:
    """One of the choices, all equally probable."""
    return choices[int(chance.integers(len(choices)))]
