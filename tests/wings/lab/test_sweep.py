"""Sweeps over settings: the grid, training of its cells, errors, and the table and picture of the results."""

from __future__ import annotations

import csv
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from transduce import api
from transduce.core import config
from transduce.core.errors import UserError
from transduce.metrics.bins import Bin
from transduce.metrics.significance import Interval
from transduce.runs.layout import ASKED, MEASURED, foreign_files
from transduce.runs.lock import locked, wait_until_free
from transduce.wings.lab.sweeps import curves, measurement, picture, processes, results_page, table
from transduce.wings.lab.sweeps.grid import SweepCell, SweepGrid, Variant, shared, values
from transduce.wings.lab.sweeps.measurement import Conditions, Measurement
from transduce.wings.lab.sweeps.question import OtherQuestionError, Question, ask
from transduce.wings.lab.sweeps.recording import record_sweep
from transduce.wings.lab.sweeps.results import SweepResults, collect
from transduce.wings.lab.sweeps.sweep import sweep
from transduce.wings.records.record import Record

# ------------------------------------------------------------------- the grid


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=1,2.5, x", ("a.b", [1, 2.5, "x"])),
        ("a=true", ("a", [True])),
        ('a="x,y",z', ("a", ["x,y", "z"])),
        ("a='x, [',b", ("a", ["x, [", "b"])),
        ('a=plain,{type="luong", c={d=1}},[1, 2]', ("a", ["plain", {"type": "luong", "c": {"d": 1}}, [1, 2]])),
    ],
)
def test_values_are_toml_between_commas(text: str, expected: tuple[str, list[Any]]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize("text", ["a", "=1", "a=", "a={b", "a=1,{"])
def test_what_cannot_be_varied(text: str) -> None:
    with pytest.raises(ValueError, match="cannot"):
        values(text)


def names(vary: dict[str, list[Any]], recipe: str | None = "reverse", seeds: tuple[int, ...] = (1,)) -> list[str]:
    return [cell.name for cell in SweepGrid(vary, seeds).cells(recipe)]


def test_every_combination_and_a_whole_table_of_a_seed_first() -> None:
    assert names({"model.encoder.width": [1, 2], "search.size": [3, 4]}, seeds=(7, 5)) == [
        f"encoder.width={width},search.size={size}-seed{seed}" for seed in (7, 5) for width in (1, 2) for size in (3, 4)
    ]


@pytest.mark.parametrize(
    ("vary", "name"),
    [
        ({}, "reverse-seed1"),
        ({"model.decoder.wiring.type": ["plain"]}, "decoder.wiring=plain-seed1"),
        ({"model.decoder.wiring": [{"type": "luong", "input_feeding": True}]}, "luong-input_feeding-true"),
        ({"training.optimizer.rate": [0.002]}, "optimizer.rate=0.002-seed1"),
        ({"training.optimizer.betas": [[0.9, 0.98]]}, "optimizer.betas=0.9-0.98-seed1"),
        ({"data.train.path": ["a/b c+d.tsv"]}, "data.train.path=a-b-c-d.tsv-seed1"),
    ],
)
def test_names_are_short_and_safe(vary: dict[str, list[Any]], name: str) -> None:
    (found,) = names(vary)
    assert name in found
    assert not set(found) & set(" +/\\\"'{}[]:*?")


def test_recipes_are_varied_by_their_names() -> None:
    vary = {"recipe": ["g2p", "folder/own.toml"], "training.steps": [1]}
    assert names(vary, None) == ["g2p,steps=1-seed1", "own,steps=1-seed1"]
    assert [cell.variant.recipe for cell in SweepGrid(vary, (1,)).cells(None)] == ["g2p", "folder/own.toml"]


def test_long_names_are_cut_and_stay_apart() -> None:
    one, other = names({"data.train.path": ["x" * 300 + "a", "x" * 300 + "b"]})
    assert one != other
    assert len(one) < 200


def test_what_names_begin_with() -> None:
    assert shared(["a-b-lstm", "a-b-lstm-fed", "a-b-lo"]) == "a-b"
    assert shared(["a", "b"]) == ""


def test_the_table_of_a_cell() -> None:
    cell = SweepCell(Variant("reverse", {"model.decoder.wiring.type": "plain", "training.epochs": 2}), 9)
    asked = cell.merged({"training.clip": 3.0, "model.decoder.width": 8}).table
    assert asked["model"]["decoder"]["wiring"] == {"type": "plain"}
    assert (asked["model"]["decoder"]["width"], asked["training"]["clip"], asked["training"]["seed"]) == (8, 3.0, 9)
    assert "steps" not in asked["training"]  # a budget takes the place of the recipe's


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        ({}, {"training.schedule.warmup": 5, "training.schedule.type": "cosine"}),
        ({"training.schedule.warmup": 5}, {"training.schedule.type": "cosine"}),
        ({"training.schedule.warmup": 5}, {"training.schedule": {"type": "cosine"}}),
        ({"training.schedule.warmup": 5, "training.schedule.type": "cosine"}, {}),
    ],
)
def test_what_is_asked_of_another_type_stands_in_any_order(settings: dict[str, Any], changes: dict[str, Any]) -> None:
    table = SweepCell(Variant("reverse", changes), 1).merged(settings).table
    assert table["training"]["schedule"] == {"type": "cosine", "warmup": 5}


def test_a_cell_is_not_called_what_it_is_not() -> None:
    """Where a key and the table around it are both asked for, one of the two would not be true."""
    vary = {"training.schedule": {"type": "cosine", "warmup": 7}}
    with pytest.raises(config.ConfigError, match=r"warmup: 7 is asked for with training.schedule, and 5 too"):
        SweepCell(Variant("reverse", vary), 1).merged({"training.schedule.warmup": 5})


@pytest.mark.parametrize(
    ("recipe", "vary", "seeds", "problem"),
    [
        ("reverse", {"recipe": ["g2p"]}, (1,), "not both"),
        (None, {"training.steps": [1]}, (1,), "give RECIPE or --vary recipe=a,b"),
        ("reverse", {"training.seed": [1, 2]}, (1,), "--seeds 2"),
        ("reverse", {"training.steps": []}, (1,), "no value"),
        ("reverse", {}, (), "at least one, and each once"),
        ("reverse", {}, (1, 1), "at least one, and each once"),
        ("reverse", {"training.steps": [1, 1]}, (1,), "is a value given twice"),
        ("reverse", {"training.clip": [1, 2]}, (1,), "training.clip is both set and varied"),
        ("reverse", {"data.train.path": ["a b", "a-b"]}, (1,), "two cells would be called data.train.path=a-b"),
    ],
)
def test_grids_that_mean_nothing(
    recipe: str | None, vary: dict[str, list[Any]], seeds: tuple[int, ...], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        Question(recipe, {"training.clip": 1.0}, (SweepGrid(vary, seeds),))


# --------------------------------------------------------------- the question

SMALL = SweepGrid({"model.encoder.width": [4, 6]}, (1,))


def test_a_question_is_kept_and_grows(tmp_path: Path) -> None:
    asked = Question("reverse", {"training.steps": 3, "search": {"type": "greedy"}}, (SMALL,))
    asked.write(tmp_path)
    assert Question.read(tmp_path) == asked
    more = Question("reverse", asked.settings, (SMALL, SweepGrid({"model.encoder.width": [6, 8]}, (1, 2))))
    assert asked.differences(more) == []
    joined = asked.joined(more)
    assert len(joined.grids) == 2
    assert [cell.name.removeprefix("encoder.width=") for cell in joined.cells()] == [
        "4-seed1", "6-seed1", "8-seed1", "6-seed2", "8-seed2"
    ]  # fmt: skip
    assert Question.read(tmp_path / "nothing") is None


def test_questions_that_differ_say_in_what() -> None:
    asked = Question("reverse", {"training.steps": 3}, (SMALL,))
    assert asked.differences(replace(asked, recipe="g2p")) == ["recipe = 'g2p' (was 'reverse')"]
    assert asked.differences(replace(asked, settings={"training.minutes": 1})) == [
        "training.steps = None (was 3)",
        "training.minutes = 1 (was None)",
    ]


# -------------------------------------------------------------- the processes


def tasks(folder: Path, *programs: str) -> list[processes.Task]:
    return [
        processes.Task(str(number), [sys.executable, "-c", program], folder / str(number) / "log.txt")
        for number, program in enumerate(programs)
    ]


PARENT = """
import sys
from pathlib import Path
from transduce.wings.lab.sweeps.processes import Task, run
list(run([Task("1", [sys.executable, "-c", sys.argv[1]], Path(sys.argv[2]))], 1))
"""
CHILD = """
import signal, time
from transduce.wings.lab.sweeps.processes import end_with_parent
signal.signal(signal.SIGTERM, lambda *_: exit(print("saved")))
end_with_parent()
print("began")
time.sleep(60)
"""


def test_a_task_ends_when_its_sweep_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, CHILD, str(log)])
    wait_for(lambda: log.exists() and "began" in log.read_text())
    parent.kill()
    parent.wait()
    wait_for(lambda: "saved" in log.read_text())


def wait_for(condition: Callable[[], bool], seconds: float = 50.0) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_a_cell_waits_until_the_training_of_a_killed_sweep_has_ended(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        with locked(tmp_path / "run", "training"):
            waiting = pool.submit(wait_until_free, tmp_path / "run")
            time.sleep(0.1)
            assert not waiting.done()
        waiting.result(timeout=50)


def test_processes_run_beside_each_other_and_fail_alone(tmp_path: Path) -> None:
    """The first two wait for each other: one at a time neither would ever end."""
    meet = "import pathlib, time\npathlib.Path({!r}).touch()\nwhile not pathlib.Path({!r}).exists(): time.sleep(0.01)"
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    programs = [meet.format(one, other), meet.format(other, one), "print('so far'); raise ValueError('no')", "exit(3)"]
    programs.append("import os; os.kill(os.getpid(), 9)")
    ended = {each.task.name: each for each in processes.run(tasks(tmp_path, *programs), jobs=2)}
    assert {name: each.status for name, each in ended.items()} == {"0": 0, "1": 0, "2": 1, "3": 3, "4": -9}
    assert [ended[name].reason for name in "234"] == ["ValueError: no", "exit status 3", "killed by SIGKILL"]
    assert "so far" in ended["2"].task.log.read_text()


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_an_interruption_is_passed_on_and_waited_for(number: int, raised: type[BaseException], tmp_path: Path) -> None:
    program = (
        "import pathlib, signal, sys, time\n"
        "def end(*_): time.sleep(0.2); print('saved'); sys.exit(1)\n"
        f"signal.signal(signal.SIGTERM, end); pathlib.Path({str(tmp_path / 'up')!r}).touch(); time.sleep(60)"
    )

    def interrupt() -> None:
        while not (tmp_path / "up").exists():
            threading.Event().wait(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt, daemon=True).start()
    (task,) = tasks(tmp_path, program)
    with pytest.raises(raised):
        list(processes.run([task], 1))
    assert task.log.read_text() == "saved\n"


# ------------------------------------------------------------------ the answer

HERE = Conditions(1, 2, "cpu", "a machine")


def measured(exact: float, cer: float = 10.0, **changes: Any) -> Measurement:
    lengths = [Bin(1, 4, 2.5, 60, {"exact": exact + 5}), Bin(5, 9, 7.0, 40, {"exact": exact - 5})]
    numbers = Measurement(
        split="test",
        examples=100,
        metrics={"exact": exact, "cer": cer},
        signatures={"exact": "", "cer": "refs:nearest"},
        parameters=1_234_567,
        updates=600,
        training_seconds=60.0,
        tokens_per_second=4321.0,
        search_seconds=0.0123,
        greedy_seconds=0.0045,
        length_unit="words",
        lengths=lengths,
        conditions=HERE,
        intervals={"exact": Interval(exact - 2, exact + 2)},
        validation={"exact": exact - 1, "loss": 0.5},
    )
    return replace(numbers, **changes)


def answered(
    out: Path, scores: dict[str, Measurement], vary: dict[str, list[Any]], seeds: tuple[int, ...]
) -> SweepResults:
    """The results of a sweep whose cells were measured so."""
    for name, found in scores.items():
        (out / "cells" / name).mkdir(parents=True)
        found.write(out / "cells" / name)
    return collect(Question("reverse", {"training.clip": 2.0}, (SweepGrid(vary, seeds),)), out)


@pytest.fixture
def results(tmp_path: Path) -> SweepResults:
    scores = {
        "encoder.width=4-seed1": measured(50.0, 30.0),
        "encoder.width=4-seed2": measured(53.0, 31.0, tokens_per_second=4323.0),
        "encoder.width=8-seed1": measured(81.25, 9.0),
        "encoder.width=8-seed2": measured(80.75, 9.0),
        "encoder.width=16-seed2": measured(70.0, 5.0, conditions=replace(HERE, jobs=1)),
    }
    return answered(tmp_path / "widths", scores, {"model.encoder.width": [4, 8, 16]}, (1, 2))


def ranked(folder: Path, cells: list[Measurement]) -> SweepResults:
    """The results of a sweep with a variant for each measurement: steps=1, steps=2 and so on."""
    scores = {f"steps={number}-seed1": found for number, found in enumerate(cells, 1)}
    return answered(folder, scores, {"training.steps": [*range(1, len(cells) + 1)]}, (1,))


def test_rows_are_ranked_on_validation(results: SweepResults, tmp_path: Path) -> None:
    assert [row.variant.name.partition("=")[2] for row in results.rows] == ["8", "16", "4"]
    assert "Ranked by exact on validation data" in table.page(results)
    lucky = [measured(90.0, validation={"exact": 60.0}), measured(80.0, validation={"exact": 70.0})]
    found = ranked(tmp_path / "lucky", lucky)
    assert [row.variant.name for row in found.rows] == ["steps=2", "steps=1"]  # though the first is better on test
    assert table.table(found).splitlines()[2].startswith("| steps=2 | 70.00 | 80.00 |")


@pytest.mark.parametrize("name", ["cer", "loss"])
def test_of_errors_and_losses_the_lowest_is_first(name: str, tmp_path: Path) -> None:
    found = ranked(tmp_path, [measured(0.0, validation={name: value}) for value in (9.0, 3.0)])
    assert [row.variant.name for row in found.rows] == ["steps=2", "steps=1"]


def test_measured_on_validation_the_first_metric_ranks(tmp_path: Path) -> None:
    cells = [measured(exact, split="valid", validation={"loss": loss}) for exact, loss in ((50.0, 0.1), (60.0, 0.2))]
    found = ranked(tmp_path, cells)
    assert [row.variant.name for row in found.rows] == ["steps=2", "steps=1"]
    assert table.table(found).startswith("|  | exact | cer |")  # the scores are of validation: no further column for it


def test_without_a_common_score_on_validation_nothing_is_ranked(tmp_path: Path) -> None:
    cells = [measured(50.0, validation={}), measured(60.0)]  # an older version measured the first
    found = ranked(tmp_path, cells)
    assert [row.variant.name for row in found.rows] == ["steps=1", "steps=2"]
    assert found.ranked_by is None
    assert "Not ranked" in table.page(found)


def test_the_table_has_means_and_ranges(results: SweepResults) -> None:
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.table(results).splitlines()]
    assert lines[0][:6] == ["", "valid exact", "exact", "cer", "seeds", "parameters"]
    scores = ["80.00 (79.75 to 80.25)", "81.00 (80.75 to 81.25)", "9.00 (9.00 to 9.00)"]
    assert lines[2] == ["encoder.width=8", *scores, "2", "1.2 M", "600", "4,321", "12.3", "4.5"]
    assert lines[3][1:5] == ["69.00", "70.00", "5.00", "1"]  # of one seed no range is known
    assert lines[4][7] == "4,322"


def test_where_nothing_is_searched_no_time_of_a_search_is_told(tmp_path: Path) -> None:
    forced = measured(50.0, search_seconds=0.0, greedy_seconds=0.0)
    found = answered(tmp_path / "forced", {"steps=1-seed1": forced}, {"training.steps": [1]}, (1,))
    head, _, row = table.table(found).splitlines()
    assert head.endswith("| updates | training tokens/s |")
    assert row.count("|") == head.count("|")
    assert "Milliseconds" not in table.page(found)


def test_the_page_says_what_was_asked_and_what_is_missing(results: SweepResults, tmp_path: Path) -> None:
    page = table.page(results)
    assert "Recipe: `reverse`" in page
    assert "`training.clip=2.0`" in page
    assert "`model.encoder.width` = `4`, `8`, `16`; seeds 1, 2" in page
    assert "Lower is better for cer" in page
    assert "cer: `refs:nearest`" in page
    assert "Not all under the same conditions: 1 thread, 2 runs at a time" in page
    assert "- encoder.width=16-seed1 (" in page
    assert "results.png" not in page
    one = answered(tmp_path / "one", {"steps=1-seed1": measured(1.0)}, {"training.steps": [1]}, (1,))
    assert "One seed each" in table.page(one)
    assert "Not finished" not in table.page(one)
    assert "to" not in table.table(one).splitlines()[2]
    assert table.table(answered(tmp_path / "none", {}, {}, (1,))) == "Nothing is finished."


def test_the_csv_has_every_run(results: SweepResults) -> None:
    results_page.write(results)
    rows = list(csv.DictReader((results.out / "results.csv").read_text().splitlines()))
    assert [(row["variant"], row["seed"]) for row in rows[:2]] == [("encoder.width=8", "1"), ("encoder.width=8", "2")]
    assert (rows[0]["model.encoder.width"], float(rows[0]["exact"]), float(rows[0]["search_seconds"])) == (
        "8",
        81.25,
        0.0123,
    )
    assert len(rows) == 5


def test_a_measurement_is_read_as_it_was_written(tmp_path: Path) -> None:
    measured(12.5).write(tmp_path)
    assert Measurement.read(tmp_path) == measured(12.5)
    assert Measurement.read(tmp_path / "none") is None


# ----------------------------------------------------------------- the picture


def colors(path: Path) -> int:
    image = pytest.importorskip("matplotlib.image").imread(path)
    assert min(image.shape[:2]) > 300
    return len({tuple(pixel) for pixel in image.reshape(-1, image.shape[-1])[::7]})


def test_a_picture_of_both_panels(results: SweepResults, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    original = picture._lengths
    monkeypatch.setattr(picture, "_lengths", lambda *arguments: (drawn.append(arguments), original(*arguments)))
    picture.draw(results)
    assert colors(results.out / "results.png") > 20
    ((axes, lines, _, _),) = drawn
    assert lines[0] == [(2.5, 86.0), (7.0, 76.0)]  # of the best, the mean over its seeds
    panels = [ax for ax in axes if ax.get_visible()]
    assert [len(ax.lines) for ax in panels] == [3, 3, 3], "the own curve, and the others behind it"
    assert len({ax.get_title(loc="left") for ax in panels}) == 3
    whole = axes[0].figure.figure.get_axes()
    assert "(mean and range of up to 2 seeds)" in whole[0].get_title(loc="left"), "one of three has one"
    assert "![widths](results.png)" in table.page(results)


def test_the_labels_leave_out_what_all_share() -> None:
    assert curves.short_names(["m-de-en-lstm", "m-de-en-gru"]) == ["lstm", "gru"]
    assert curves.short_names(["alone-here"]) == ["alone-here"]
    looks = {tuple(look.values()) for look in picture._looks(16)}
    assert len(looks) == 16
    assert len({color for color, *_ in looks}) == 8
    assert len({(mark, line) for _, mark, line in looks}) == 2  # those who see no colours tell half of them apart


def test_the_page_has_every_variant_numbers_to_sort_by_and_a_true_sentence(results: SweepResults) -> None:
    results_page.write(results)
    text = (results.out / "results.html").read_text()
    for row in results.rows:
        assert row.variant.name in text
        assert f'data-value="{row.score(results.metrics[0]).mean!r}"' in text
    best, *others = curves.short_names([row.variant.name for row in results.rows])
    assert f"{best} is best by " in text
    reversed_ = replace(results, rows=tuple(reversed(results.rows)))
    assert results_page.summary(reversed_).startswith(f"{others[-1]} is best by "), "it follows the ranking"
    assert results_page.summary(replace(results, rows=())) == "Nothing is finished."
    twice = replace(results, rows=(results.rows[0], results.rows[0]))
    assert results_page.summary(twice).startswith("All variants are equally good by ")
    more = replace(results, rows=(results.rows[0], results.rows[0], results.rows[-1]))
    assert results_page.summary(more).startswith("The best 2 variants are equally good by ")


def test_nothing_is_drawn_of_nothing(tmp_path: Path) -> None:
    picture.draw(answered(tmp_path, {}, {}, (1,)))
    assert not (tmp_path / "results.png").exists()


# ------------------------------------------------------------- the whole of it

FAKE = """
import json, pathlib, sys
run, record = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
width = int(run.name.partition("=")[2].partition("-")[0])
if width == 6: print("training"); raise RuntimeError("the loss is nan")
record["metrics"]["exact"] = record["validation"]["exact"] = float(width)
(run / "measured.json").write_text(json.dumps(record))
"""
"""In the place of a training: the width is the score, and width 6 fails."""


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The cells that a sweep had trained (by FAKE), in order."""
    seen: list[str] = []

    def command(run: Path, conditions: Conditions, split: str, plugins: Sequence[str]) -> list[str]:
        seen.append(run.name.removeprefix("encoder.width="))
        measured(0.0, split=split, asked=split).write(tmp_path)
        record = (tmp_path / MEASURED).read_text()
        return [sys.executable, "-c", FAKE, str(run), record]

    monkeypatch.setattr("transduce.wings.lab.sweeps.sweep.command", command)
    monkeypatch.setattr("transduce.wings.lab.sweeps.sweep.draw", lambda _: None)  # pictures take half a second each
    return seen


def asking(tiny: dict[str, Any], out: Path) -> Callable[..., SweepResults]:
    own = {key: value for key, value in tiny.items() if key != "model.encoder.width"}

    def ask(*widths: int, seeds: Any = 1, settings: dict[str, Any] | None = None, **options: Any) -> SweepResults:
        vary = {"model.encoder.width": list(widths)}
        return sweep("reverse", vary, seeds, {**own, **(settings or {})}, out, device="cpu", **options)

    return ask


def test_what_is_done_is_skipped_and_what_failed_is_told(
    tiny: dict[str, Any], tmp_path: Path, called: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "sweep"
    ask = asking(tiny, out)
    with caplog.at_level(logging.INFO, "transduce.sweep"):
        first = ask(4, 6, 8, jobs=2)
    assert sorted(called) == ["4-seed1", "6-seed1", "8-seed1"]
    assert [row.variant.name for row in first.rows] == ["encoder.width=8", "encoder.width=4"]
    assert [cell.name for cell in first.unfinished] == ["encoder.width=6-seed1"]
    assert "encoder.width=6-seed1  failed: RuntimeError: the loss is nan (see " in caplog.text
    assert "encoder.width=8-seed1  exact 8.00" in caplog.text
    assert (out / "results.md").read_text() == table.page(first)

    called.clear()
    more = ask(8, 10, seeds=[1, 3])  # another grid adds to it, and tries only its own
    assert called == ["10-seed1", "8-seed3", "10-seed3"]
    assert [len(row.cells) for row in more.rows] == [2, 2, 1]
    called.clear()
    sweep(out=out)  # all that was asked: only what failed is left
    assert called == ["6-seed1"]


def test_another_question_is_refused_or_replaces(tiny: dict[str, Any], tmp_path: Path, called: list[str]) -> None:
    out = tmp_path / "sweep"
    ask = asking(tiny, out)
    ask(4)
    with pytest.raises(OtherQuestionError, match=r"training.steps = 9 \(was 8\).*--overwrite"):
        ask(8, settings={"training.steps": 9})
    assert called == ["4-seed1"]
    replaced = ask(8, settings={"training.steps": 9}, overwrite=True)
    assert [row.variant.name for row in replaced.rows] == ["encoder.width=8"]
    assert [path.name for path in (out / "cells").iterdir() if path.is_dir()] == ["encoder.width=8-seed1"]


def test_a_slip_costs_no_finished_cells(tiny: dict[str, Any], tmp_path: Path, called: list[str]) -> None:
    """``overwrite`` deletes cells of other settings only when the new cells can start training."""
    out = tmp_path / "sweep"
    ask = asking(tiny, out)
    ask(4)
    run = trained_cell(out, "encoder.width=4-seed1")
    before = {path: path.read_bytes() for path in [out / "sweep.toml", *run.glob("*.*")]}
    slips: list[tuple[dict[str, Any], str]] = [
        ({"data.origin": {"type": "reverse", "pairs": 99999, "longest": 2}}, "cannot draw 99999"),
        ({"data.columns": {"source": 0, "target": 1}, "data.train.path": "gone.tsv"}, "gone.tsv|data.train"),
        ({"init.run": str(tmp_path / "gone")}, "gone is no run directory"),
        ({"init.run": str(run)}, r"init.run is .*width=4-seed1, which overwrite would delete"),
        ({"distillation.teacher": str(run)}, "distillation.teacher is .*, which overwrite would delete"),
    ]
    for settings, problem in slips:
        with pytest.raises((ValueError, FileNotFoundError), match=problem):
            ask(4, 8, settings=settings, overwrite=True)
    with pytest.raises(ValueError, match="device 'gpu'"):
        sweep("reverse", seeds=1, settings={"training.steps": 9}, out=out, device="gpu", overwrite=True)
    assert {path: path.read_bytes() for path in before} == before
    assert called == ["4-seed1"]
    ask(4, settings={"training.steps": 9}, overwrite=True)
    assert called == ["4-seed1", "4-seed1"]
    assert config.read(run / "asked.toml")["training"]["steps"] == 9
    assert not (run / "config.toml").exists()


def test_the_same_data_elsewhere_are_no_other_question(tiny: dict[str, Any], tmp_path: Path, called: list[str]) -> None:
    """A sweep with another cache folder keeps its finished cells. The saved question then has the new folder."""
    out = tmp_path / "sweep"
    ask = asking(tiny, out)
    ask(4)
    (out / "cells" / "4-seed1" / "config.toml").unlink(missing_ok=True)  # as where only measurements were kept
    both = ask(4, 8, settings={"data.cache": str(tmp_path / "elsewhere")})
    assert called == ["4-seed1", "8-seed1"]
    assert len(both.rows) == 2
    question = Question.read(out)
    assert question is not None
    assert question.settings["data.cache"] == str(tmp_path / "elsewhere")


def test_mistakes_are_told_before_anything_is_trained(tiny: dict[str, Any], tmp_path: Path, called: list[str]) -> None:
    with pytest.raises(config.ConfigError, match=r"encoder.widht=4-seed1: model.encoder.widht.*width"):
        sweep("reverse", {"model.encoder.widht": [4]}, out=tmp_path / "a")
    with pytest.raises(config.ConfigError, match=r"decoder.wiring=plain-seed1: model.decoder.wiring.input_feeding"):
        sweep("reverse", {"model.decoder.wiring.input_feeding": [False], "model.decoder.wiring.type": ["plain"]})
    with pytest.raises(ValueError, match="jobs = 0"):
        sweep("reverse", jobs=0)
    for settings in (["training.seed=99"], {"training": {"seed": 99}}):
        with pytest.raises(ValueError, match=r"set training.seed: seeds have an option of their own, --seeds 99,"):
            sweep("reverse", settings=settings, out=tmp_path / "a")
    with pytest.raises(ValueError, match="a sweep is of a recipe, or of --vary recipe=a,b"):
        sweep()
    with pytest.raises(ValueError, match="holds no sweep to go on with"):
        sweep(out=tmp_path / "a")
    for asked in ({"seeds": 5}, {"settings": ["training.steps=9"]}):
        with pytest.raises(ValueError, match="seeds and settings are of a grid, and without a recipe and vary"):
            sweep(out=tmp_path / "a", **asked)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot draw 99999"):
        asking(tiny, tmp_path / "a")(4, settings={"data.origin": {"type": "reverse", "pairs": 99999, "longest": 2}})
    assert called == []
    assert not (tmp_path / "a" / "sweep.toml").exists()


def test_without_matplotlib_there_is_a_line_and_no_picture(
    tiny: dict[str, Any], tmp_path: Path, called: list[str], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr("transduce.wings.lab.sweeps.sweep.draw", picture.draw)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    asking(tiny, tmp_path / "sweep")(4)
    assert "no picture: drawing needs matplotlib: pip install 'transduce[plots]'" in caplog.text
    assert not (tmp_path / "sweep" / "results.png").exists()


def two_wirings(settings: dict[str, Any], out: Path) -> Path:
    """A sweep of two models, trained."""
    found = sweep("reverse", {"model.decoder.wiring.type": ["plain", "luong"]}, 1, settings, out, 2, 1, "cpu")
    assert not found.unfinished, (out / "cells").glob("*/log.txt")
    return out


def run_here(tasks: Sequence[processes.Task], jobs: int, environment: Any = None) -> Iterator[processes.Ended]:
    """Does the work of the commands in this process, which saves the start of others."""
    for task in tasks:
        task.log.touch()
        measurement.main(task.command[3:])
        yield processes.Ended(task, 0, 0.0)


@pytest.fixture(scope="module")
def real(tiny: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep, trained in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "run", run_here)
        return two_wirings(tiny, tmp_path_factory.mktemp("sweeps") / "wirings")


@pytest.mark.slow
def test_a_sweep_in_processes(tiny: dict[str, Any], real: Path, tmp_path: Path) -> None:
    out = two_wirings(tiny, tmp_path / "wirings")
    found, same = (Measurement.read(each / "cells" / "decoder.wiring=luong-seed1") for each in (out, real))
    assert found is not None
    assert same is not None
    assert (found.metrics, found.lengths, found.parameters) == (same.metrics, same.lengths, same.parameters)


def test_a_real_sweep(real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = real
    run = out / "cells" / "decoder.wiring=luong-seed1"
    found = Measurement.read(run)
    assert found is not None
    assert (found.split, found.examples, found.updates, found.length_unit) == ("test", 100, 8, "characters")
    assert set(found.metrics) == {"exact", "cer"}
    assert sum(each.examples for each in found.lengths) == 100
    assert min(found.tokens_per_second, found.search_seconds, found.greedy_seconds) > 0
    assert found.conditions.device == "cpu"
    assert foreign_files(run) == []  # so that it can be overwritten
    # trained but not measured: it is only measured again, and finds the same
    (run / MEASURED).rename(out / "before")
    events = (run / "metrics.jsonl").read_text()
    asked = Conditions(1, 1, "cpu")
    measurement.main(measurement.command(run, asked, "test", [])[3:])
    again = Measurement.read(run)
    assert again is not None
    assert (again.metrics, again.lengths, again.parameters) == (found.metrics, found.lengths, found.parameters)
    assert (run / "metrics.jsonl").read_text() == events
    # another split: measured on that, with the times of before and their conditions, and as the test's not there
    shutil.copytree(run, tmp_path / "run")
    measurement.main(measurement.command(tmp_path / "run", Conditions(2, 3, "cpu"), "valid", [])[3:])
    other = Measurement.read(tmp_path / "run", "valid")
    assert other is not None
    assert (other.split, other.conditions, other.search_seconds) == ("valid", again.conditions, again.search_seconds)
    assert other.metrics != found.metrics
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == events
    assert Measurement.read(tmp_path / "run", "test") is None
    # all there: nothing is run
    monkeypatch.setattr(processes, "_start", lambda *_: pytest.fail("a finished cell was trained"))
    assert not sweep(out=out).unfinished


def test_a_run_that_goes_on_finds_its_data_where_they_are_now(real: Path, tmp_path: Path) -> None:
    """As on another machine, of which the run's own settings know nothing."""
    shutil.copytree(real / "cells" / "decoder.wiring=plain-seed1", tmp_path / "run")
    run, elsewhere = tmp_path / "run", str(tmp_path / "elsewhere")
    (run / MEASURED).unlink()
    asked = config.assign(config.read(run / ASKED), "data.cache", elsewhere)
    (run / ASKED).write_text(config.write(asked))
    measurement.main(measurement.command(run, Conditions(1, 1, "cpu"), "test", [])[3:])
    assert config.read(run / "config.toml")["data"]["cache"] == elsewhere
    assert Path(elsewhere).exists()
    assert Measurement.read(run) is not None


def test_a_recipe_that_has_changed_since_is_refused(real: Path, tmp_path: Path) -> None:
    """The question reads the same; the runs' own settings tell."""
    out = real
    shutil.copytree(out, tmp_path / "sweep")
    run = tmp_path / "sweep" / "cells" / "decoder.wiring=plain-seed1" / "config.toml"
    run.write_text(run.read_text().replace("clip = 1.0", "clip = 0.5"))
    with pytest.raises(OtherQuestionError, match=r"plain-seed1 is of another.*: training.clip = 1.0 \(was 0.5\)"):
        sweep(out=tmp_path / "sweep")


def trained_cell(out: Path, name: str) -> Path:
    """A cell of a sweep whose trainings were FAKE, trained."""
    run = out / "cells" / name
    api.train(run / ASKED, run, device="cpu", progress=False)
    return run


def test_cells_that_are_not_asked_again_are_looked_at_too(
    tiny: dict[str, Any], tmp_path: Path, called: list[str]
) -> None:
    """They stand in the same table."""
    out, recipe = tmp_path / "sweep", tmp_path / "small.toml"
    recipe.write_text('base = "reverse"\n' + config.write(asking_table(tiny)))

    def ask(width: int, **options: Any) -> SweepResults:
        return sweep(recipe, {"model.encoder.width": [width]}, 1, out=out, device="cpu", **options)

    ask(4)
    trained_cell(out, "encoder.width=4-seed1")
    assert len(ask(8).rows) == 2
    recipe.write_text(recipe.read_text().replace("steps = 8", "steps = 9"))
    with pytest.raises(OtherQuestionError, match=r"width=4-seed1 is of another question: training.steps = 9 \(was 8\)"):
        ask(10)
    replaced = ask(10, overwrite=True)
    assert called == ["4-seed1", "8-seed1", "10-seed1"]
    assert [cell.name for cell in replaced.unfinished] == ["encoder.width=4-seed1"]  # deleted, and not asked again
    sweep(out=out, device="cpu")
    assert called[3:] == ["4-seed1"]


def test_a_recipe_that_is_gone_is_refused(tiny: dict[str, Any], tmp_path: Path, called: list[str]) -> None:
    out, recipes = tmp_path / "sweep", [str(tmp_path / f"width={width}.toml") for width in (4, 8)]
    for recipe in recipes:
        Path(recipe).write_text('base = "reverse"\n' + config.write(asking_table(tiny)))
    sweep(None, {"recipe": recipes[:1]}, 1, out=out, device="cpu")
    Path(recipes[0]).unlink()
    sweep(None, {"recipe": recipes[1:]}, 1, out=out, device="cpu")  # of a measurement alone nothing can differ
    assert called == ["width=4-seed1", "width=8-seed1"]
    trained_cell(out, "width=4-seed1")
    with pytest.raises(OtherQuestionError, match=r"its settings do not read any more: .*width=4\.toml"):
        sweep(None, {"recipe": recipes[1:]}, 1, out=out, device="cpu")


def test_units_of_a_predecessor_are_no_other_question(
    tiny: dict[str, Any], trained: Path, tmp_path: Path, called: list[str]
) -> None:
    """A run that starts from another run keeps that run's units and ignores the requested ones. It uses the requested
    units only if ``init.vocabulary`` is ``own``."""
    settings = {"init.run": str(trained), "data.units": {"joint": "bytes"}}
    kept, own = asking(tiny, tmp_path / "kept"), asking(tiny, tmp_path / "own")
    kept(4, settings=settings)
    run = trained_cell(tmp_path / "kept", "encoder.width=4-seed1")
    assert config.read(run / "config.toml")["data"]["units"]["joint"]["type"] == "characters"
    assert len(kept(4, 8, settings=settings).rows) == 2

    settings["init.vocabulary"] = "own"
    own(4, settings=settings)
    run = trained_cell(tmp_path / "own", "encoder.width=4-seed1")
    own(4, settings=settings)
    written = (run / "config.toml").read_text()
    (run / "config.toml").write_text(written.replace('type = "bytes"', 'type = "characters"'))
    with pytest.raises(OtherQuestionError, match=r"data.units.joint.type = 'bytes' \(was 'characters'\)"):
        own(8, settings=settings)


def test_the_evaluation_is_that_of_evaluate(real: Path, capsys: Any, monkeypatch: Any) -> None:
    from transduce.cli import app as cli

    run = real / "cells" / "decoder.wiring=luong-seed1"
    monkeypatch.setattr(sys, "argv", ["transduce", "evaluate", str(run), "--json", "--device=cpu"])
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    record = json.loads(capsys.readouterr().out)
    found = Measurement.read(run)
    assert found is not None
    assert (record["metrics"], record["signatures"]) == (found.metrics, found.signatures)


@pytest.mark.usefixtures("quick_products")
def test_the_record_has_every_cell(real: Path, capsys: Any, monkeypatch: Any, tmp_path: Path) -> None:
    from transduce.cli import app as cli

    monkeypatch.setattr(sys, "argv", ["transduce", "sweep", f"--out={real}", f"--record={tmp_path / 'sweep.json'}"])
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    record = Record.read(tmp_path / "sweep.json")
    assert sorted(system.name for system in record.systems) == [
        "decoder.wiring=luong-seed1",
        "decoder.wiring=plain-seed1",
    ]
    for system in record.systems:
        found = Measurement.read(real / "cells" / system.name)
        (model,) = system.models
        assert found is not None
        assert {name: figure.value for name, figure in system.scores.items()} == found.metrics
        assert system.scores["exact"].low == found.intervals["exact"].low
        assert (model.parameters, model.validation) == (found.parameters, found.validation)
    with pytest.raises(ValueError, match="has no finished cell to record"):
        record_sweep("transduce sweep", answered(tmp_path / "none", {}, {}, (1,)))


def test_one_chooses_on_valid_and_tells_of_test(tiny: dict[str, Any], tmp_path: Path, called: list[str]) -> None:
    ask = asking(tiny, tmp_path / "sweep")
    chosen = ask(4, 8, split="valid")
    assert {each.split for each in chosen.measurements} == {"valid"}
    assert "Measured on valid" in (tmp_path / "sweep" / "results.md").read_text()
    called.clear()
    assert not ask(10).unfinished  # more of the same question, which is of valid
    assert called == ["10-seed1"]
    called.clear()
    told = ask(8, 12, split="test")
    assert called == ["4-seed1", "8-seed1", "10-seed1", "12-seed1"]
    assert not told.unfinished
    assert {each.split for each in told.measurements} == {"test"}
    called.clear()
    assert not sweep(out=tmp_path / "sweep").unfinished
    assert called == []
    with pytest.raises(ValueError, match="split = 'train': test or valid was expected"):
        ask(4, split="train")


def test_the_command(
    tmp_path: Path, tiny: dict[str, Any], called: list[str], capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transduce.cli import app as cli

    out = tmp_path / "sweep"
    recipe = tmp_path / "small.toml"
    recipe.write_text('base = "reverse"\n' + config.write(asking_table(tiny)))

    def call(*arguments: str) -> Any:
        monkeypatch.setattr(sys, "argv", ["transduce", "sweep", *arguments, f"--out={out}"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code or 0

    assert call(str(recipe), "--vary=model.encoder.width=4,8", "--seeds=2,", "--minutes=0.5", "--jobs=2") == 0
    printed = capsys.readouterr().out
    assert [line.split()[1] for line in printed.splitlines()[2:]] == ["encoder.width=8", "encoder.width=4"]
    assert config.read(out / "sweep.toml")["settings"] == {"training.minutes": 0.5}
    asked = config.read(out / "cells" / "encoder.width=8-seed2" / "asked.toml")["training"]
    assert (asked["minutes"], asked["seed"], "steps" in asked) == (0.5, 2, False)
    assert call(str(recipe), "--vary=model.encoder.width=6", "--seeds=2,", "--minutes=0.5") == 1  # it fails
    assert call(str(recipe), "--vary=a=1", "--vary=a=2") == 2
    assert "--vary names a key twice" in capsys.readouterr().err
    assert call(str(recipe), "--seeds=x") == 2
    assert "--seeds 'x': a number" in capsys.readouterr().err


def asking_table(tiny: dict[str, Any]) -> config.Table:
    made: config.Table = {}
    for key, value in tiny.items():
        if not key.startswith("model."):
            made = config.assign(made, key, value)
    return made


def test_two_sweeps_do_not_share_a_directory(tmp_path):
    out = tmp_path / "sweep"
    out.mkdir()
    with FileLock(out / ".lock"), pytest.raises(ValueError, match="another sweep is at work there"):
        sweep("reverse", seeds=1, settings={"training.steps": 1}, out=out)
    assert not (out / "cells").exists()


def test_a_number_of_seeds_is_bounded() -> None:
    with pytest.raises(UserError, match="seeds = 1000000: at most 10,000 were expected"):
        ask("reverse", {}, 10**6, ())
