"""The lines that the progress bar prints during a run and at its end."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from transduce.cli.training_bar import ProgressBar
from transduce.training.budget import Budget
from transduce.training.callbacks import Finished, Notice, Started, Validated


def last_line(seconds: float, validating: float) -> str:
    said = io.StringIO()
    bar = ProgressBar(Console(file=said))
    bar.on_start(Started(Path("run"), 1_000, 0, "cpu", "float32", ()))
    bar.on_finish(Finished(Path("run"), "budget", 90, 80, seconds, validating))
    return said.getvalue().rstrip().splitlines()[-1]


def test_what_validation_took_is_told_where_it_was_much() -> None:
    assert last_line(600, 140) == (
        "2:20 of it went into validation: less with fewer examples (training.validation.examples) or times "
        "(training.validation.times)"
    )


@pytest.mark.parametrize(("seconds", "validating"), [(600, 80), (40, 20), (0, 0)])
def test_where_it_was_little_it_is_not(seconds: float, validating: float) -> None:
    assert last_line(seconds, validating).endswith("the best model is of update 80, in run")


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        (Budget(1750, minutes=4.0), ", for 1,750 updates or 4 minutes"),
        (Budget(epochs=0.5), ", for 0.5 passes"),
        (None, ""),
    ],
)
def test_the_first_line_says_when_training_ends(budget: Budget | None, told: str) -> None:
    said = io.StringIO()
    bar = ProgressBar(Console(file=said))
    bar.on_start(Started(Path("run"), 0, 3, "cpu", "float32", budget=budget))
    bar.on_finish(Finished(Path("run"), "budget", 90, 80, 600, 0))
    assert said.getvalue().splitlines()[0] == f"training run: counted, cpu, float32, from update 3{told}"


def test_a_notice_is_printed_and_a_validation_without_metrics_too() -> None:
    said = io.StringIO()
    bar = ProgressBar(Console(file=said, width=200))
    bar.on_start(Started(Path("run"), 1_000, 0, "cpu", "float32", ()))
    bar.on_validation(Validated(9, 2.0, {"bleu": 3.0}, True, 60.0))
    bar.on_notice(Notice(10, "train for longer"))
    bar.on_validation(Validated(19, 1.0, {}, False, 120.0))
    bar.on_finish(Finished(Path("run"), "budget", 90, 80, 600, 0))
    lines = said.getvalue().splitlines()
    assert "train for longer" in lines
    assert any("update     19  valid  loss 1.000" in line for line in lines)
    assert bar.metric == "bleu 3.00  "  # of the last validation that has one
