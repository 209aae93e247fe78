"""A subject of one's own: numbers become Roman numerals, with their data and their metric.

    transduce train examples/own_subject/roman.toml --plugin examples/own_subject/roman.py --out runs/roman
    transduce evaluate runs/roman --plugin examples/own_subject/roman.py

A wing of the package has the same parts: classes that fulfil protocols, and a name for each. Here ``register`` gives
the names; a wing has them in src/transduce/core/registry.py.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import transduce
from transduce.core.types import Example, Prediction
from transduce.data.corpora import Splits
from transduce.data.origins import tsv_splits

SIGNS = {
    "M": 1000, "CM": 900, "D": 500, "CD": 400, "C": 100, "XC": 90, "L": 50, "XL": 40, "X": 10, "IX": 9, "V": 5, "IV": 4,
    "I": 1,
}  # fmt: skip


def numeral(number: int) -> str:
    """The Roman numeral of a number from 1 to 3999."""
    text = ""
    for sign, value in SIGNS.items():
        text += sign * (number // value)
        number %= value
    return text


def value(text: str) -> int | None:
    """The number that a numeral writes; None for a text that is no numeral."""
    number = sum(SIGNS[sign] for sign in re.findall("|".join(sorted(SIGNS, key=len, reverse=True)), text))
    return number if 0 < number < 4000 and numeral(number) == text else None


@dataclass(frozen=True)
class RomanNumerals:
    """Numbers from 1 to 3999 with their numerals. No number is in two splits; the same ``seed`` gives the same ones."""

    seed: int = 1

    def prepare(self, folder: Path) -> Splits:
        """Writes the files of the splits, unless they are there."""
        numbers = random.Random(self.seed).sample(range(1, 4000), 3999)
        lines = [f"{number}\t{numeral(number)}" for number in numbers]
        return tsv_splits(folder, lambda: {"test": lines[:300], "valid": lines[300:500], "train": lines[500:]})


class ValueDistance:
    """``value_distance``: the mean distance of an output's number from the right one. No numeral: 4000."""

    name = "value_distance"
    higher_is_better = False
    needs_forcing = False
    signature = "unit:output|none:4000"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        """What is summed over all outputs: the distance, and 1."""
        found, right = value(prediction.text), value(example.references[0])
        return (4000.0 if found is None or right is None else abs(found - right)), 1.0

    def score(self, total: Sequence[float]) -> float:
        """The score of the summed statistics."""
        distance, outputs = total
        return distance / outputs


transduce.register("Origin", "roman-numerals", RomanNumerals)
transduce.register("Metric", "value_distance", ValueDistance)


def main() -> float:
    """Trains the recipe beside this file for a short time. Returns the mean distance of some outputs."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"data.cache": str(Path(folder) / "cache")}
        recipe = Path(__file__).with_name("roman.toml")
        model = transduce.train(recipe, Path(folder) / "run", settings, device="cpu", progress=False)
        numbers = [4, 49, 1987, 2026, 3888]
        outputs = model([str(number) for number in numbers])
    for number, output in zip(numbers, outputs, strict=True):
        print(f"{number} -> {output}")
    metric = ValueDistance()
    rows = [
        metric.statistics(Prediction(output), Example(str(number), (numeral(number),)))
        for number, output in zip(numbers, outputs, strict=True)
    ]
    return metric.score([sum(column) for column in zip(*rows, strict=True)])


if __name__ == "__main__":
    main()
