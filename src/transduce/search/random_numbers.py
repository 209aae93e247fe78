"""Random numbers that depend only on a source and a seed. They are the same alone, in any batch and in any order.

The generator is counter-based, SplitMix64 (Steele, Lea and Flood 2014). Number t of a row is a function of the row's
key and of t. The key is a function of the seed and of the source. Integers have 64 bits and wrap.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch
from torch import Tensor

from transduce.core.config.errors import shown
from transduce.core.errors import UserError
from transduce.core.finite import SEED
from transduce.core.types import Padded

GOLDEN = -7046029254386353131  # the step of the counter: 2^64 / golden ratio, as a signed integer
FIRST, SECOND = -4658895280553007687, -7723592293110705685  # SplitMix64's multipliers


def keys(source: object, seed: int, size: int) -> Tensor:
    """``size`` keys for each row of a source, [B * size], adjacent for each row. Rows with equal values have equal
    keys, in any batch. Padding has no effect. Raises UserError for a ``seed`` of more than 64 bits.
    """
    if not -SEED <= seed <= SEED:
        raise UserError(f"seed = {shown(seed)}: a number from -{SEED:,} to {SEED:,} was expected")
    key_B = torch.tensor(seed)
    for bits_BSM, real_BS in _parts(source):
        places_SM = torch.arange(bits_BSM[0].numel(), device=bits_BSM.device).view(bits_BSM.shape[1:])
        words_BS = mixed(bits_BSM + mixed(places_SM * GOLDEN)).sum(2)
        key_B = mixed(key_B.to(words_BS.device) + (words_BS * real_BS).sum(1))  # padding adds nothing to the sum
    numbers_K = torch.arange(1, size + 1, device=key_B.device)
    return mixed(key_B[:, None] + numbers_K * GOLDEN).reshape(-1)


def uniform(key_N: Tensor, count: int) -> Tensor:
    """The random number with the index ``count`` of each key: [N] in float64, in [0, 1), with 53 random bits."""
    return _shifted(mixed(key_N + torch.tensor(count) * GOLDEN), 11).double() * 2.0**-53


def mixed(z: Tensor) -> Tensor:
    """SplitMix64's finaliser: each bit of the result depends on all bits of ``z``."""
    z = (z ^ _shifted(z, 30)) * FIRST
    z = (z ^ _shifted(z, 27)) * SECOND
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, bits: int) -> Tensor:
    """Shifts right and fills with zeros. The usual shift of a signed integer would copy its sign."""
    return z >> bits & (1 << 64 - bits) - 1


def _bits(leaf: Tensor) -> Tensor:
    return leaf.double().view(torch.int64) if leaf.is_floating_point() else leaf.long()


def _parts(source: object) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields each tensor of a source as integers [B, S, M], and a mask [B, S] of its real positions. A position has M
    numbers. A tensor without lengths is one position (S = 1).
    """
    if isinstance(source, Padded):
        yield _bits(source.values).reshape(*source.mask.shape, -1), source.mask
    elif isinstance(source, Tensor):
        yield (
            _bits(source).reshape(len(source), 1, -1),
            torch.ones(len(source), 1, dtype=torch.bool, device=source.device),
        )
    elif isinstance(source, tuple):
        for branch in source:
            yield from _parts(branch)
    elif dataclasses.is_dataclass(source):
        for field in dataclasses.fields(source):
            yield from _parts(getattr(source, field.name))
