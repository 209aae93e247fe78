"""Packs the n-grams of a counted model for the native engine: 16 bytes for each n-gram in place of 32, and 10 with
8-bit numbers.

An n-gram has its last word, and the number of n-grams that go on from it. Its key follows from these, and from the keys
its suffix and the next history (``NGrams``), which the engine finds when it opens the file. M n-grams, W words.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from transduce.core.errors import UserError

KEYS = "ngrams.keys"
FOUND = ("suffix", "after", "ends")  # what the engine finds by itself
LARGEST = 2**16 - 1
CODES = 256


def packed(tensors: Mapping[str, Tensor], integers: bool) -> dict[str, Tensor]:
    """The tensors of a model, with the n-grams of its counted models packed. With ``integers``, log-probabilities and
    back-off weights are places in a table of 256. Raises UserError for more words than 16 bits can number.
    """
    found = dict(tensors)
    for name in tensors:
        if name.endswith(KEYS):
            _pack(found, name.removesuffix("keys"), integers)
    return found


def _pack(tensors: dict[str, Tensor], name: str, integers: bool) -> None:
    keys, ends = (tensors.pop(f"{name}{own}").numpy() for own in ("keys", "ends"))
    for own in FOUND[:-1]:
        del tensors[name + own]
    words = int(ends[0]) + 2
    if words > LARGEST:
        raise UserError(
            f"the joint n-gram model has {words:,} units, and the native engine numbers at most {LARGEST:,}: "
            "predict with --engine torch"
        )
    parent, word = np.divmod(keys, words)
    children = np.bincount(parent, minlength=len(keys) + 1)
    tensors[f"{name}words"], tensors[f"{name}children"] = (
        torch.from_numpy(numbers.astype(np.uint16)) for numbers in (word, children)
    )
    if integers:
        for own in ("log_prob", "back_off"):
            codes, values = coded(tensors[name + own].numpy())
            tensors[name + own], tensors[f"{name}{own}.values"] = torch.from_numpy(codes), torch.from_numpy(values)


def coded(numbers: np.ndarray[tuple[int], np.dtype[np.float32]]) -> tuple[np.ndarray, np.ndarray]:
    """The place [M] of each number in a table, and the table [256]. Zero and minus infinity stay themselves; the others
    become the mean of a group of as many numbers as each other group has.
    """
    codes, values = np.zeros(len(numbers), np.uint8), np.zeros(CODES, np.float32)
    codes[np.isneginf(numbers)], values[1] = 1, -np.inf
    (others,) = np.nonzero(np.isfinite(numbers) & (numbers != 0))
    groups = np.array_split(others[np.argsort(numbers[others], kind="stable")], CODES - 2)
    for code, group in enumerate(groups, 2):
        if len(group):
            codes[group], values[code] = code, numbers[group].astype(np.float64).mean()
    return codes, values
