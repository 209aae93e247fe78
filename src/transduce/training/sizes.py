"""Settings that depend on the number of training pairs. A recipe for much data names other recipes for less data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.core import config

KEPT = ("data", "init", "distillation")  # needed before the pairs are counted, so no alternative changes them


@dataclass(frozen=True)
class Alternative:
    """The settings ``table`` of a run with fewer than ``below`` training pairs, from the recipe ``recipe``."""

    below: int
    recipe: str
    table: config.Table


def choose_settings(
    table: config.Table, sizes: Sequence[Alternative], pairs: int
) -> tuple[config.Table, tuple[str, ...]]:
    """The settings for this number of training pairs, and a line for people if they are not ``table`` itself.

    The alternative with the smallest limit above ``pairs`` wins. It keeps the data of ``table``, and the runs to start
    from and to learn from.
    """
    fitting = [each for each in sizes if pairs < each.below]
    if not fitting:
        return table, ()
    chosen = min(fitting, key=lambda each: each.below)
    kept = {key: table[key] for key in KEPT if key in table}
    others = {key: value for key, value in chosen.table.items() if key not in KEPT}
    return {**others, **kept}, (f"fewer than {chosen.below:,} training pairs: the settings of {chosen.recipe}",)
