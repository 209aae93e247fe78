"""The most that a configuration may ask for: more than anyone needs, so that no file exhausts memory or time."""

from __future__ import annotations

import math
import re
from typing import Final

from transduce.core.config.errors import ConfigError, shown
from transduce.core.finite import LARGEST

FILE_BYTES: Final = 1_000_000
DEPTH: Final = 100  # tables and arrays inside each other, or parts of a key
LONG_KEY: Final = re.compile(
    rb"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){%d}""" % DEPTH
)  # a dotted key of more than DEPTH parts
INTEGER: Final = 2**63 - 1  # what TOML and tensors can hold
SIZES: Final[dict[str, int]] = {"layers": 1_000, "width": 1_000_000, "heads": 10_000, "channels": 1_000_000}
"""The largest integer by the last word of a parameter's name: ``width`` also limits ``embedding_width``."""
UNLIMITED: Final = frozenset({"beam", "threshold"})  # parameters that limit a search: infinity removes nothing


def check_integer(value: int, path: str) -> None:
    """Raises ConfigError for an integer below -2^63 or above the limit for its parameter, the last part of ``path``."""
    name = path.rpartition(".")[2]
    ending = name.rpartition("_")[2]
    limit = SIZES.get(ending, INTEGER)
    if not -INTEGER - 1 <= value <= limit:
        raise ConfigError(path, f"{shown(value)} is out of range; at most {limit:,} was expected")


def check_number(value: float, path: str) -> None:
    """Raises ConfigError for NaN, infinity, and a number above ``LARGEST`` in size. A parameter of ``UNLIMITED`` takes
    infinity, too.
    """
    unlimited = value > 0 and path.rpartition(".")[2] in UNLIMITED
    if not (math.isfinite(value) or unlimited):
        raise ConfigError(path, f"{value} is not a finite number; a finite number was expected")
    if abs(value) > LARGEST and not unlimited:
        raise ConfigError(path, f"{value} is out of range; a number from {-LARGEST:g} to {LARGEST:g} was expected")


def check_depth(value: object, where: str) -> None:
    """Raises ConfigError if tables and arrays are nested deeper than ``DEPTH``; ``where`` names them in the error."""
    level, depth = [value], 0
    while level := [inner for each in level for inner in _inner(each)]:
        depth += 1
        if depth > DEPTH:
            raise too_deep(where)


def too_deep(where: str) -> ConfigError:
    return ConfigError(where, f"tables and arrays are nested more than {DEPTH} deep, which no configuration needs")


def check_parts(keys: list[str], setting: str) -> None:
    """Raises ConfigError if a dotted key has more than ``DEPTH`` parts. ``setting`` is its text, for the error."""
    if len(keys) > DEPTH:
        raise ConfigError(
            "", f"cannot set {setting[:60]!r}...: its key has {len(keys):,} parts; at most {DEPTH} were expected"
        )


def _inner(value: object) -> list[object]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
