"""How does each family's score grow with the number of pairs, and where do the curves cross?

COMPARISON.toml is a file of benchmarks/variants for a recipe of Multi30k, German to English. Each of its variants
trains on the first pairs of the training data, for each number of ``--pairs``. All networks make the same updates; a
counted model counts its pairs once. The first table has the score on test with the recipe's search, and 95 % intervals
by bootstrap over the test examples. It also has the minutes of training on the processor's clock, and these divided by
the minutes of the first variant with as many pairs, which trained just before. The second table has the curves, and the
third one the number of pairs at which two curves cross, if they do. It is read off straight lines between two measured
numbers of pairs, on a scale of logarithms. The same command again continues an interrupted run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from report import Report, cell, columns, titled
from report import row as line_of
from variants import Comparison, Trained, trained

from transduce.core import config
from transduce.core.files import write_lines
from transduce.data.corpora import text_lines
from transduce.metrics.significance import Resampling
from transduce.wings.recipes.origins.multi30k import Multi30k
from transduce.wings.records.making import trained_model

SIZES = (500, 2000, 8000, 29_000)
Curve = Mapping[int, float]
"""The score for each number of pairs."""


def first_pairs(size: int, folder: str | None, runs: Path) -> list[str]:
    """Writes the first pairs of training. Returns the settings that name the files of all splits."""
    whole = runs / "multi30k"
    splits = Multi30k("de", "en", folder).prepare(whole)
    for side in ("de", "en"):
        write_lines(runs / f"train-{size}.{side}", itertools.islice(text_lines(whole / f"train.{side}"), size))
    train = runs / f"train-{size}"
    named = {"train": (f"{train}.de", f"{train}.en")}
    named |= {split: (own.source, own.target) for split in ("valid", "test") if (own := getattr(splits, split))}
    return [f'data.{split}={{source="{source}", target="{target}"}}' for split, (source, target) in named.items()]


def crossings(one: Curve, other: Curve) -> list[int]:
    """The numbers of pairs at which two curves cross, between measured ones. Curves that touch do not cross."""
    found = []
    for low, high in itertools.pairwise(sorted(one.keys() & other.keys())):
        before, after = one[low] - other[low], one[high] - other[high]
        if before * after < 0:
            share = before / (before - after)
            found.append(round(math.exp((1 - share) * math.log(low) + share * math.log(high))))
    return found


def crossing_lines(curves: Mapping[str, Curve]) -> list[str]:
    """The lines of the table of crossings. "above" names the better one of two with the most pairs."""
    lines = columns("| families | cross at pairs | above with the most pairs |")
    for (name, one), (other_name, other) in itertools.combinations(curves.items(), 2):
        if not (shared := one.keys() & other.keys()):
            continue
        at = ", ".join(f"{place:,}" for place in crossings(one, other)) or "–"
        best = name if one[max(shared)] > other[max(shared)] else other_name
        lines.append(line_of([f"{name}, {other_name}", at, best]))
    return lines


def minutes(own: Trained) -> float:
    effort = trained_model(own.run).effort
    return effort.minutes if effort is not None else 0.0


def main(
    report: Report,
    file: Annotated[Path, "of benchmarks/variants"],
    *,
    runs: Path,
    folder: str | None = None,
    pairs: Sequence[int] = SIZES,
    updates: int | None = None,
    seed: int = 1,
) -> None:
    comparison = Comparison(**(config.read(file) | ({} if updates is None else {"updates": updates})))
    runs.mkdir(parents=True, exist_ok=True)
    resampling, table = Resampling(), list[str]()
    curves: dict[str, dict[int, float]] = {name: {} for name in comparison.variants}
    first, *_ = comparison.variants
    for size in pairs:
        settings = [*first_pairs(size, folder, runs), f"training.seed={seed}"]
        base = 0.0
        for name in comparison.variants:
            run = runs / f"{name.replace(' ', '-').replace(',', '')}-{size}-{seed}"
            own = trained(comparison, name, run, settings, report.threads)
            taken = minutes(own)
            base = taken if name == first else base
            curves[name][size] = own.statistics.score
            score = cell(own.statistics.score, resampling.bootstrap(own.statistics))
            ratio = f"{taken / base:.2f}" if base else "–"
            table.append(line_of([f"{size:,}", name, score, f"{taken:.1f}", ratio]))
            heads = columns(f"| pairs | family | {comparison.metric} on test | minutes | minutes, {first} = 1 |")
            page = [*titled(comparison.title), f"{comparison.updates:,} updates of each network, seed {seed}.", ""]
            page += [*heads, *table, "", f"## {comparison.metric} on test, by training pairs", ""]
            page += columns(f"| family | {' | '.join(f'{each:,}' for each in pairs)} |")
            for other, curve in curves.items():
                scores = [f"{curve[each]:.1f}" if each in curve else "–" for each in pairs]
                page.append(line_of([other, *scores]))
            report.show([*page, "", "## Where two curves cross", "", *crossing_lines(curves)], [run])
