"""The grid of a sweep: every combination of the values that it varies, each with several seeds."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.core import config, recipes
from transduce.core.config.errors import shown
from transduce.core.config.user_data import Merged
from transduce.core.errors import UserError

RECIPE, SEED = "recipe", "training.seed"
LONGEST_NAME = 120  # longest folder name; most file systems allow 255 bytes

Vary = Mapping[str, Sequence[object]]


@dataclass(frozen=True)
class Variant:
    """A recipe with changes: one row of the table. The cells of a variant differ only in their seed.

    ``changes`` are the varied values by dotted key. The key ``recipe`` is among them if the sweep varies the recipe.
    """

    recipe: str
    changes: Mapping[str, object]

    @property
    def name(self) -> str:
        """The changes as a short text, safe as a file name: ``encoder.width=64,dropout=0.1``.

        The recipe's name comes first if recipes vary, and alone if nothing else varies. A name of more than
        ``LONGEST_NAME`` characters is cut and gets a hash.
        """
        parts = [f"{_short(key)}={_slug(value)}" for key, value in self.changes.items() if key != RECIPE]
        named = [Path(self.recipe).stem] if RECIPE in self.changes or not parts else []
        name = ",".join([*named, *parts])
        if len(name) <= LONGEST_NAME:
            return name
        return f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class SweepCell:
    """One run of a sweep: a variant with a seed."""

    variant: Variant
    seed: int

    @property
    def name(self) -> str:
        """The variant's name and the seed. It names the cell's folder."""
        return f"{self.variant.name}-seed{self.seed}"

    def merged(self, settings: Mapping[str, object]) -> Merged:
        """The run's configuration: the recipe with ``settings`` (the same for all cells), the varied values and the
        seed; and lines for people about settings that speak of the recipe's own data.

        For the same key, the varied value or the seed wins over ``settings``. Outer keys are set before the keys inside
        them, because another ``type`` or a whole table replaces its earlier content. Raises ConfigError if one of these
        settings undoes another one.
        """
        changes = {key: value for key, value in self.variant.changes.items() if key != RECIPE}
        asked = {**settings, **changes, SEED: self.seed}
        outer_first = sorted(asked, key=lambda key: (key.removesuffix(".type").count("."), key.endswith(".type")))
        merged = recipes.merged(self.variant.recipe, {key: asked[key] for key in outer_first})
        made = config.flatten(merged.table)
        for key, value in asked.items():
            for inner, wanted in config.flatten({key: list(value) if isinstance(value, tuple) else value}).items():
                if made.get(inner) != wanted:
                    raise config.ConfigError(
                        inner,
                        f"{shown(wanted)} is asked for with {key}, and {shown(made.get(inner))} too: leave one of them "
                        "out",
                    )
        return merged


@dataclass(frozen=True)
class SweepGrid:
    """Every combination of the values in ``vary``, with every seed. The key ``recipe`` varies the recipe itself.

    Raises UserError for no seeds, a seed that is given twice, a key without values, or ``training.seed`` as a key.
    """

    vary: Vary
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise UserError(f"seeds = {list(self.seeds)}: at least one, and each once, was expected")
        for key, values in self.vary.items():
            if not values:
                raise UserError(f"vary {key}: no value to compare; such as {key}=a,b")
        if SEED in self.vary:
            raise UserError(f"vary {SEED}: seeds have an option of their own, --seeds {len(self.vary[SEED])}")

    def cells(self, recipe: str | None) -> list[SweepCell]:
        """All cells, seed by seed, so that all variants are comparable once the first seed is finished.

        ``recipe`` is the recipe of all cells, or None if the grid varies it. Raises UserError if it is given in both
        ways or in neither.
        """
        if (recipe is None) is not (RECIPE in self.vary):
            raise UserError(
                "a sweep is of one recipe or varies it: give RECIPE or --vary recipe=a,b"
                + ("" if recipe is None else ", not both")
            )
        combinations = [dict(zip(self.vary, values, strict=True)) for values in itertools.product(*self.vary.values())]
        variants = [Variant(str(changes.get(RECIPE, recipe)), changes) for changes in combinations]
        return [SweepCell(variant, seed) for seed in self.seeds for variant in variants]


def values(text: str) -> tuple[str, list[object]]:
    """Splits "KEY=a,b,c" into the key and the list of its values. Raises UserError if one of the two is missing.

    Values are TOML; a value that is not TOML is a string, as in ``--set``.
    """
    key, equals, listed = text.partition("=")
    if not equals or not key.strip() or not listed.strip():
        raise UserError(f"cannot vary {text!r}: expected KEY=a,b, such as model.encoder.width=64,128")
    return key.strip(), [config.override({}, f"value={part}")["value"] for part in _split(listed)]


def shared(names: Iterable[str]) -> str:
    """The common beginning of all names, in whole parts between hyphens: "g2p" for "g2p-ctc" and "g2p-small"; "" if
    none.
    """
    parts = zip(*(name.split("-") for name in names), strict=False)
    return "-".join(same[0] for same in itertools.takewhile(lambda part: len(set(part)) == 1, parts))


def _split(text: str) -> list[str]:
    """The parts of the text between commas. Commas inside brackets, braces or quotes do not split."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if character == "," and not depth and not quote:
            parts.append("")
            continue
        parts[-1] += character
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "[{") - (character in "]}")
    return [part.strip() for part in parts]


def _short(key: str) -> str:
    return re.sub(r"^(model|training)\.|\.type$", "", key)


def _slug(value: Any) -> str:
    """A value written in characters that need no quotes in a shell, for a file name. "+" becomes "-", because "+" joins
    run directories.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return re.sub(r"[^\w.-]+", "-", str(value))
    if isinstance(value, Mapping):
        return "-".join(_slug(inner) if key == "type" else f"{key}-{_slug(inner)}" for key, inner in value.items())
    return "-".join(map(_slug, value))
