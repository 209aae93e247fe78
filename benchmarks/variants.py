"""Compares variants of one recipe after equal updates: other layers, other encoders, other units.

COMPARISON.toml has a ``title``, a ``recipe``, the ``metric`` that validation and the table show, the number of
``updates``, the ``settings`` of all variants, and the table ``variants``: the settings of each. A later setting
replaces an earlier one. A variant may name another ``recipe``. All variants read the same data and make the same
updates. Each run trains in RUNS/COMPARISON-VARIANT-SEED; the same command again continues an interrupted run.

The first table has the score on test with the recipe's search. Parentheses have 95 % intervals by bootstrap over the
test examples. The difference is to the first variant, on the same resamples. With ``new_words = true``, two columns
more have the score of the examples whose reference has only words of the training references, and of all others. The
second table has the scores of validation after so many updates, which is the learning curve.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

from report import Report, cell, columns, titled

import transduce
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.text_files import read_text
from transduce.core.types import Example
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import Statistics
from transduce.runs.layout import METRICS
from transduce.runs.run import Run
from transduce.wings.records.making import trained_model


@dataclass(frozen=True)
class Comparison:
    """A file of benchmarks/variants."""

    title: str
    recipe: str
    metric: str
    updates: int
    variants: Mapping[str, config.Table]
    settings: Sequence[str] = ()
    new_words: bool = False


@dataclass(frozen=True)
class Trained:
    """A variant after training, with the statistics of its outputs for the test examples."""

    run: Path
    statistics: Statistics
    name: str  # of the metric

    @cached_property
    def curve(self) -> dict[int, float]:
        """The score of each validation, by the number of updates."""
        events = [json.loads(line) for line in read_text(self.run / METRICS).split("\n") if line]
        found = [each for each in events if each["event"] == "validation" and each["what"] == "valid"]
        return {each["step"]: each["metrics"][self.name] for each in found}


def trained(comparison: Comparison, variant: str, run: Path, more: Sequence[str], threads: int) -> Trained:
    """Trains a variant, unless it is finished, and measures it on test."""
    own = comparison.variants[variant]
    settings = [
        f"training.steps={comparison.updates}",
        f'training.validation.metrics=["{comparison.metric}"]',
        "training.clock=processor",
        *comparison.settings,
        *own.get("settings", []),
        *more,
    ]
    recipe = own.get("recipe", comparison.recipe)
    transducer = transduce.train(recipe, run, settings, resume=True, device="cpu", threads=threads)
    found = transducer.evaluate(Run.open(run).examples("test"), [metric(comparison.metric)])
    return Trained(run, found.statistics[0], comparison.metric)


def with_new_words(train: Sequence[Example], test: Sequence[Example]) -> list[bool]:
    """For each test example: whether a reference has a word that no reference of training has."""
    known = {word for example in train for reference in example.references for word in reference.split()}
    return [any(word not in known for each in example.references for word in each.split()) for example in test]


def row(variant: str, seed: int, own: Trained, first: Trained, new: Sequence[bool] | None) -> str:
    """The line of a run in the table of scores."""
    resampling = Resampling()
    drawn = resampling.bootstrap(own.statistics)
    gain = "–"
    if own is not first:
        other = first.statistics
        gain = cell(own.statistics.score - other.score, drawn - resampling.bootstrap(other), "+")
    described = trained_model(own.run)
    minutes = described.effort.minutes if described.effort is not None else 0.0
    shown = [variant, f"{seed}", f"{described.parameters:,}", f"{minutes:.1f}", cell(own.statistics.score, drawn), gain]
    if new is not None:
        for wanted in (False, True):
            part = own.statistics.of([place for place, each in enumerate(new) if each is wanted])
            shown.append(cell(part.score, resampling.bootstrap(part)))
    return f"| {' | '.join(shown)} |"


def curves(found: Mapping[str, Trained]) -> list[str]:
    """The lines of the table of validations, which are at the same updates in all runs."""
    steps = [*next(iter(found.values())).curve]
    lines = columns(f"| variant | {' | '.join(f'{step:,}' for step in steps)} |")
    for name, each in found.items():
        lines.append(
            f"| {name} | {' | '.join(f'{each.curve[step]:.1f}' if step in each.curve else '–' for step in steps)} |"
        )
    return lines


def main(
    report: Report,
    file: Annotated[Path, "of benchmarks/variants"],
    *,
    runs: Path,
    updates: int | None = None,
    seeds: Sequence[int] = (1,),
    only: Annotated[Sequence[str], "these variants"] = (),
    settings: Sequence[str] = (),
) -> None:
    comparison = Comparison(**(config.read(file) | ({} if updates is None else {"updates": updates})))
    if unknown := [name for name in only if name not in comparison.variants]:
        raise UserError(f"--only {unknown[0]}: {file.name} has {', '.join(comparison.variants)}")
    names = [name for name in comparison.variants if not only or name in only]
    found, table = dict[str, Trained](), list[str]()
    new: list[bool] | None = None
    for seed in seeds:
        for name in names:
            run = runs / f"{file.stem}-{name.replace(' ', '-').replace(',', '')}-{seed}"
            own = trained(comparison, name, run, [*settings, f"training.seed={seed}"], report.threads)
            if comparison.new_words and new is None:
                opened = Run.open(run)
                new = with_new_words(opened.examples("train"), opened.examples("test"))
            found[f"{name}, seed {seed}"] = own
            table.append(row(name, seed, own, found[f"{names[0]}, seed {seed}"], new))
            head = f"| variant | seed | parameters | minutes | {comparison.metric} on test | difference |"
            if new is not None:
                head += f" known words ({new.count(False):,}) | new words ({new.count(True):,}) |"
            page = [*titled(comparison.title), f"{comparison.updates:,} updates each.", "", *columns(head), *table]
            page += ["", f"## {comparison.metric} on validation, by updates", "", *curves(found)]
            report.show(page, [run])
