"""Refuses a vocabulary that has nothing but special tokens, and names the setting that has emptied it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from transduce.core.types import SPECIALS
from transduce.data.corpora import DataError
from transduce.data.tokenizers.base import Tokenizer, Unit

RARE = "minimum_count"


def check_learned(side: str, unit: Unit, learned: Tokenizer, texts: Callable[[], Iterable[str]]) -> None:
    """Raises DataError if ``unit`` has ``learned`` no token of a side's texts, although there are texts.

    ``side`` is "source", "target" or "joint". The error has the settings that leave rare tokens out, and the numbers of
    lines and of different tokens.
    """
    if learned.numeric or len(learned) > len(SPECIALS):
        return
    lines = sum(1 for _ in texts())
    if not lines:
        return  # the account of the lines tells why
    settings = [f"{key} = {value}" for key, value in _counts(unit, f"data.units.{side}")]
    before = len(unit_without_counts(unit).learn(texts())) - len(SPECIALS)
    if not settings or before <= 0:
        raise DataError(f"data.units.{side}: no vocabulary can be learned of the {lines:,} lines; choose another unit")
    raise DataError(
        f"{', '.join(settings)}: the {lines:,} lines have {before:,} different tokens of the {side}, and all are "
        "rarer: no vocabulary is left; lower it, or choose smaller units"
    )


def unit_without_counts(unit: Any) -> Any:
    """The unit without a limit for rare tokens, also in its parts."""
    changes = {
        each.name: 1 if each.name == RARE else unit_without_counts(value)
        for each in fields(unit)
        if each.init and (each.name == RARE or is_dataclass(value := getattr(unit, each.name)))
    }
    return replace(unit, **changes)


def _counts(unit: Any, path: str) -> Iterator[tuple[str, int]]:
    """The settings for rare tokens of a unit and its parts, above 1."""
    for each in fields(unit):
        value = getattr(unit, each.name)
        if each.name == RARE and value > 1:
            yield f"{path}.{RARE}", value
        elif is_dataclass(value):
            yield from _counts(value, f"{path}.{each.name}")
