"""docs/results.md and the scores in recipes' headers are what the records say today."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from transduce.core import config, recipes
from transduce.core.types import Facts
from transduce.training.settings import Settings
from transduce.wings.records.machine import Machine
from transduce.wings.records.record import (
    Change,
    Effort,
    Figure,
    Fingerprint,
    MeasuredDifference,
    MeasuredSystem,
    PrintedTable,
    Record,
    TrainedModel,
    Training,
    Versions,
)

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
FACTS = Facts(33, 43)


@pytest.fixture(scope="module")
def publish() -> Iterator[ModuleType]:
    """The script behind ``bash scripts/results``, with its package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.syspath_prepend(str(BENCHMARKS))
        import publish  # type: ignore[import-not-found]

        yield publish


@pytest.fixture
def publishing(publish: ModuleType) -> dict[str, Any]:
    """The parts of the generator, by name."""
    from publishing import headers, page, rows  # type: ignore[import-not-found]

    return {name: value for module in (headers, page, rows) for name, value in vars(module).items()}


def model(recipe: str = "g2p-joint", seed: int = 1, **changes: Any) -> TrainedModel:
    """A run of a recipe with changed settings, as a record has it."""
    changed = {key.replace("__", "."): value for key, value in changes.items()}
    table = recipes.read(recipe)
    shipped = config.flatten(config.resolve(table, Settings, FACTS))
    run = config.resolve(config.change(table, changed | {"training.seed": seed}), Settings, FACTS)
    difference = {key: Change(shipped.get(key), value) for key, value in changed.items()}
    effort = Effort(12, 0.5, 3_400_000)
    return TrainedModel(recipe, recipe, run, difference, FACTS.sizes, seed, 1_280_000, effort)


def record(*systems: MeasuredSystem, **changes: Any) -> Record:
    machine = Machine("AMD EPYC", 2, 1, ("avx2",), 98.3, 213.8)
    return replace(
        Record(
            "transduce evaluate x",
            "2026-11-24",
            "test",
            machine,
            Versions("3", "2", "0"),
            systems,
            commit="0123",
            clean=True,
        ),
        **changes,
    )


def system(value: float = 6.4, found: TrainedModel | None = None, low: float | None = 6.08) -> MeasuredSystem:
    high = None if low is None else 6.71
    return MeasuredSystem("g2p-joint", {"per": Figure(value, low, high)}, Fingerprint("0", 1), {}, (found or model(),))


def folder(path: Path, template: str, **records: Record) -> Path:
    """benchmarks/results with a template and records."""
    (path / "page.md").write_text(template)
    for name, found in records.items():
        found.write(path / "records" / f"{name}.json")
    return path


# ------------------------------------------------------------------- as committed


def test_the_page_and_the_headers_are_current(publish: ModuleType) -> None:
    old = [str(path) for path, text in publish.pages() if path.read_text(encoding="utf-8") != text]
    assert not old, f"{', '.join(old)}: out of date; run `bash scripts/results`"


def test_every_recipe_with_a_model_has_a_line_of_scores() -> None:
    for name in recipes.names():
        lines = [line for line in recipes.describe(name).splitlines() if line.startswith("Score")]
        assert bool(lines) == ("model" in recipes.read(name)), name
        assert not any("not measured" in line for line in lines), f"{name}: train it as it ships, and add its record"
        words = [line for line in recipes.describe(name).splitlines() if not line.startswith(("Score", "  "))]
        assert not re.search(r"\b(BLEU|PER|WER|CER|F1|MAE|accuracy|perplexity) \d", " ".join(words)), name


def test_the_template_has_no_figures_of_its_own() -> None:
    template = re.sub(r"\{\{.*?\}\}", "", (BENCHMARKS / "results" / "page.md").read_text(encoding="utf-8"))
    assert not re.findall(r"\d+\.\d+", template)


def test_no_record_is_of_code_that_nobody_can_check_out(publish: ModuleType) -> None:
    """Each record names a commit of this history, and its code was as committed."""
    from publishing.rows import doubt_of, models_of

    records = {file.stem: Record.read(file) for file in sorted((BENCHMARKS / "results" / "records").glob("*.json"))}
    unclean = {name for name, found in records.items() if doubt_of(found)}
    assert not unclean, f"{sorted(unclean)}: measure again with committed code"
    if git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("this checkout has no whole history, so it cannot know all commits")
    history = {each[:10] for each in git("rev-list", "HEAD").split()}
    named = {(name, found.commit) for name, found in records.items()}
    for name, found in records.items():
        named |= {(name, each.commit) for model in models_of(found) for each in model.trainings if each.commit}
    absent = {name for name, commit in named if (commit or "")[:10] not in history}
    assert not absent, f"{sorted(absent)}: a commit is not in the history of HEAD; measure again"


def git(*arguments: str) -> str:
    """The output of git in this checkout; nothing outside of a checkout."""
    done = subprocess.run(["git", *arguments], cwd=BENCHMARKS, capture_output=True, text=True, check=False)
    return done.stdout.strip()


# --------------------------------------------------------------------------- rows


def test_a_record_becomes_a_row(publishing: dict[str, Any], tmp_path: Path) -> None:
    results = publishing["Results"].read(folder(tmp_path, "{{scores per | g2p-*}}", a=record(system())))
    page = results.page()
    assert "| model (parameters) | per | work | source | notes |" in page
    assert "| `g2p-joint` (1.3 M) | 6.40 (6.08 to 6.71) | 12 passes, 3.4 M target tokens, 0.5 minutes |" in page
    assert "[record](../benchmarks/results/records/a.json), 2026-11-24, AMD EPYC, 1 thread, 98 GFLOP/s" in page
    assert results.page() == page


def test_seeds_share_a_row_and_changes_are_told(publishing: dict[str, Any]) -> None:
    seeds = [system(6.0, model(seed=1)), system(7.0, model(seed=2))]
    other = system(5.0, model(training__epochs=3.0))
    one, changed = publishing["rows_of_record"](Path("a.json"), record(*seeds, other, clean=False))
    assert one.scores == {"per": "6.50 (6.08 to 6.71; seeds 6.00 to 7.00)"}
    assert one.notes == ("seeds 1, 2", "code not as committed")
    assert one.doubt == "code not as committed"
    assert (one.shipped, changed.shipped) == (True, False)
    assert "changed: training.epochs 20.0 → 3.0" in changed.notes


@pytest.mark.parametrize(
    ("commit", "clean", "doubt"),
    [("0123", True, ""), ("0123", False, "code not as committed"), (None, None, "code of no known commit")],
)
def test_code_that_is_not_committed_is_told_wherever_its_figure_stands(
    commit: str | None, clean: bool | None, doubt: str, publishing: dict[str, Any], tmp_path: Path
) -> None:
    printed = (PrintedTable("Speed", ("side", "ms"), (("ours", "1.5"),)),)
    found = MeasuredDifference("per", "one", "other", -0.6, -0.9, 1.25, 0.1, 0.2, 0.4)
    both = [replace(system(), name=name) for name in ("one", "other")]
    records = {
        "scores": record(system(), commit=commit, clean=clean),
        "both": record(*both, differences=(found,), commit=commit, clean=clean),
        "speed": record(tables=printed, commit=commit, clean=clean),
    }
    for mark in ("scores per | g2p-*", "summary g2p-joint", "differences both", "tables speed"):
        results = publishing["Results"].read(folder(tmp_path, f"{{{{{mark}}}}}", **records))
        shown = results._filled(mark)
        assert ("code " in shown.lower()) == bool(doubt), mark
        assert doubt in shown.lower(), mark
    versions = Versions("3", "2", "0")
    training = Training("2026-11-24", 0, "transduce train x", "AMD EPYC", 1, versions, "0123", clean=clean is True)
    (row,) = publishing["rows_of_record"](Path("a.json"), record(system(found=replace(model(), trainings=(training,)))))
    assert row.doubt == ("code of training not as committed" if doubt else "")
    header = publishing["header"]("g2p-joint", "# Score: x\n", results.of_recipe("g2p-joint"), True)
    assert ("code" in header) == bool(doubt)
    assert doubt in " ".join(header.replace("#", "").split())


def test_a_busy_machine_is_told(publishing: dict[str, Any], tmp_path: Path) -> None:
    """Two rows differ in the work of training and in the machine, so each row names both."""
    machine = Machine("AMD EPYC", 2, 1, ("avx2",), 98.3, 213.8, 8.74)
    busy = record(system(found=model()), machine=machine)
    told = "AMD EPYC, 1 thread, 98 GFLOP/s (214 in bfloat16), load 8.7 on 2 cores"
    for mark, found in (
        ("scores per | g2p-*", busy),
        ("tables a", replace(busy, tables=(PrintedTable("", ("a",), ()),))),
    ):
        assert told in publishing["Results"].read(folder(tmp_path, "", a=found))._filled(mark)


def test_a_model_that_was_trained_elsewhere_is_told(publishing: dict[str, Any]) -> None:
    here = Training("2026-11-24", 0, "transduce train x", "AMD EPYC", 1, Versions("3", "2", "0"))
    away = replace(here, processor="Intel")
    for trainings, notes in (((here,), ()), ((here, away), ("trained on Intel",))):
        (row,) = publishing["rows_of_record"](
            Path("a.json"), record(system(found=replace(model(), trainings=trainings)))
        )
        assert row.notes == notes


def test_an_older_recipe_is_marked(publishing: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    measured = record(system())
    read = recipes.read
    monkeypatch.setattr(recipes, "read", lambda name: config.change(read(name), {"model.order": 3}))
    (row,) = publishing["rows_of_record"](Path("a.json"), measured)
    assert row.notes == ("older recipe: model.order 8 → 3",)
    text = "# Joint n-grams.\n# Score: not measured yet.\nmodel = 1\n"
    header = publishing["header"]("g2p-joint", text, [row], True)
    assert "# Score (older recipe: model.order 8 → 3): per 6.40 (6.08 to 6.71) on test; 12 passes" in header


def test_a_budget_of_about_as_many_updates_is_no_older_recipe(
    publishing: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recipe in minutes became one in updates. Its model had made 12 updates."""
    measured = record(system())
    read = recipes.read
    for steps, notes in ((13, ()), (20, ("older recipe: training.steps nothing → 20",))):
        monkeypatch.setattr(recipes, "read", lambda name, n=steps: config.change(read(name), {"training.steps": n}))
        (row,) = publishing["rows_of_record"](Path("a.json"), measured)
        assert row.notes == notes


def test_printed_tables_of_a_benchmark(publishing: dict[str, Any], tmp_path: Path) -> None:
    printed = record(tables=(PrintedTable("Speed", ("side", "ms"), (("ours", "1.5"),)),))
    page = publishing["Results"].read(folder(tmp_path, "{{tables speed}}", speed=printed)).page()
    assert "**Speed**\n\n| side | ms |\n| --- | --- |\n| ours | 1.5 |" in page
    assert "`transduce evaluate x`" in page
    less = publishing["Results"].read(folder(tmp_path, "{{tables speed without ms}}", speed=printed)).page()
    assert "| side |\n| --- |\n| ours |" in less


def test_a_comparison_is_shown_with_its_differences_only(publishing: dict[str, Any], tmp_path: Path) -> None:
    values = {"one-1": 6.4, "one-2": 6.6, "other": 7.0}
    systems = [replace(system(value), name=name) for name, value in values.items()]
    found = MeasuredDifference("per", "one-1,one-2", "other", -0.6, -0.9, 1.25, 0.1, 0.2, 0.4)
    template = "{{scores per | g2p-*}}\n\n{{differences both}}"
    records = {"a": record(system(3.25)), "both": record(*systems, differences=(found,))}
    page = publishing["Results"].read(folder(tmp_path, template, **records)).page()
    alone, _, compared = page.partition("**per**")
    assert "3.25" in alone
    assert "6.40" not in alone
    assert "| system | work | per | difference from other |" in compared
    work = "12 passes, 3.4 M target tokens, 0.5 minutes"
    assert (
        f"| one-1,one-2 | {work} | 6.50 (6.08 to 6.71; seeds 6.40 to 6.60) | -0.60 (-0.90 to +1.25), p 0.400 |"
        in compared
    )
    assert f"| other | {work} | 7.00 (6.08 to 6.71) | – |" in compared


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("", "page.md shows nothing of `g2p-joint`"),
        ("{{scores per | ptb}}", "no record has these recipes"),
        ("{{summary mnist}}", "there is no record of mnist"),
        ("{{tables none}}", "expected .*none.json"),
        ("{{tables b without s}}", "no table of b.json has this column"),
        ("{{differences a}}", "the record a.json has no differences"),
        ("{{graph x}}", "expected scores, summary, tables, joined or differences"),
    ],
)
def test_a_mark_that_says_nothing_is_refused(
    template: str, message: str, publishing: dict[str, Any], tmp_path: Path
) -> None:
    printed = record(tables=(PrintedTable("Speed", ("side", "ms"), ()),))
    results = publishing["Results"].read(folder(tmp_path, template, a=record(system()), b=printed))
    with pytest.raises(publishing["TemplateError"], match=message):
        results.page()


# ------------------------------------------------------------------------- headers


def test_headers_are_filled_and_filled_again(publishing: dict[str, Any]) -> None:
    header = publishing["header"]
    text = "# Joint n-grams.\n#\n# Score: old\n#   and more of it.\n# Score (another): 2.\n# After.\nbase = 1\n"
    filled = header("g2p-joint", text, [], False)
    assert filled == ("# Joint n-grams.\n#\n# Score: not measured yet. Budget: 20 passes.\n# After.\nbase = 1\n")
    assert header("g2p-joint", filled, [], False) == filled
    assert "not measured as shipped; docs/results.md" in header("g2p-joint", text, [], True)
    rows = publishing["rows_of_record"](Path("a.json"), record(system()))
    long = header("g2p-joint", text, rows, True)
    assert all(len(line) <= 120 for line in long.splitlines())
    assert header("g2p-joint", long, rows, True) == long
    assert long.startswith("# Joint n-grams.\n#\n# Score: per 6.40 (6.08 to 6.71) on test; 12 passes, 3.4 M target")


def test_a_header_without_a_place_is_refused(publishing: dict[str, Any]) -> None:
    header, error = publishing["header"], publishing["TemplateError"]
    with pytest.raises(error, match="has 0 lines '# Score'"):
        header("g2p-joint", "# Joint n-grams.\n", [], False)
    with pytest.raises(error, match="is the base of others"):
        header("mnist", "# Data.\n# Score: 3\n", [], False)
    assert header("mnist", "# Data.\n", [], False) == "# Data.\n"


def test_tables_of_several_records_are_joined_and_counted(publishing: dict[str, Any], tmp_path: Path) -> None:
    """The table of results.md has all rows, and that of docs/simple.md counts their verdicts."""
    from publishing import simple

    columns = ("set", "better", "seconds, simple", "seconds, ours")
    rows = [("a", "ours", "1.0", "60"), ("b", "simple", "3.0", "–"), ("c", "ours", "2.0", "90"), ("d", "–", "9.0", "–")]
    tables = [PrintedTable(f"{name}: counts, and transduce", columns, rows) for name, rows in
              (("labels", tuple(rows[:1])), ("tags", tuple(rows[1:])))]  # fmt: skip
    files = {"simple_labels": record(tables=tuple(tables[:1])), "simple_tags": record(tables=tuple(tables[1:]))}
    results = publishing["Results"].read(folder(tmp_path, "{{joined simple_}}", **files))
    page = results.page()
    assert page.count("| set | better |") == 1
    assert [row for row in page.splitlines() if row.startswith(("| a", "| b", "| c", "| d"))] == [
        f"| {' | '.join(row)} |" for row in rows
    ]
    assert "- [Record](../benchmarks/results/records/simple_tags.json)" in page
    shown = simple.summary({name.replace("_", "-"): found for name, found in files.items()})
    assert "| labels: counts | 1 | 1 | 0 | 0 | 0 | 1 and 60 |" in shown
    assert "| tags: counts | 3 | 1 | 0 | 1 | 1 | 3 and 90 |" in shown
    with pytest.raises(publishing["TemplateError"], match="no record has a name that begins so"):
        publishing["Results"].read(folder(tmp_path, "{{joined none-}}")).page()


# ------------------------------------------------------------------------ families

FAMILIES = """
[[tasks]]
name = "words"
heading = "words right"
metric = "exact"

[[tasks]]
name = "lines"
heading = "BLEU"
metric = "bleu"

[[families]]
name = "slow"
system = "slow"

[[families]]
name = "counted"
recipes = { words = "g2p-joint" }
unsuited = ["lines"]

[[families]]
name = "fast"
system = "fast"
engines = "fast-run"
outputs = "words"

[[families]]
name = "new"
"""


def scored(name: str, metric: str, value: float, date: str, *models: TrainedModel) -> Record:
    measured = MeasuredSystem(name, {metric: Figure(value, value - 1, value + 1)}, Fingerprint("0", 1), {}, models)
    return record(measured, date=date)


@pytest.fixture
def families(publish: ModuleType, tmp_path: Path) -> tuple[ModuleType, Any, dict[str, Record]]:
    """The module, the comparison of ``FAMILIES``, and records by name."""
    from publishing import families

    (tmp_path / "families.toml").write_text(FAMILIES)
    engines = PrintedTable(
        "fast-run: sentences a second (times torch float32)",
        ("engine", "greedy, batches", "beam 5, batches"),
        (("torch float32", "9.0 (1.00×)", "1.0 (1.00×)"), ("native int8", "2.0 (2.00×)", "1,654.4 (2.00×)")),
    )
    both = scored("slow", "exact", 50, "2026-11-24", model())
    other = scored("fast", "exact", 80, "2026-11-24", model())
    records = {
        "older": scored("g2p-joint", "exact", 70, "2026-11-23", model()),
        "newer": scored("g2p-joint", "exact", 75, "2026-11-24", model()),
        "changed": scored("g2p-joint", "exact", 99, "2026-11-25", model(training__epochs=3.0)),
        "families-words": replace(both, systems=(*both.systems, *other.systems)),
        "families-lines": scored("slow", "bleu", 30, "2026-11-24", model()),
        "engines": record(tables=(engines,)),
    }
    return families, families.Comparison.read(tmp_path / "families.toml"), records


def test_families_are_ranked_by_their_share_of_the_best_score(
    families: tuple[ModuleType, Any, dict[str, Record]],
) -> None:
    """The counted family has the newest record of its recipe as shipped. A cell has the work and the machine."""
    module, compared, records = families
    machine = replace(records["newer"].machine, processor="Intel", instructions=("avx2", "amx_bf16"))
    records["newer"] = replace(records["newer"], machine=machine, clean=False)
    work = "12 passes, 0.5 minutes; 1.3 M"
    assert module.table(compared, records).splitlines() == [
        "| family | words right | BLEU | a second, fastest engine |",
        "| --- | --- | --- | --- |",
        f"| fast | 80.00 (79.00 to 81.00); {work}; A | not measured | 1,654 words, native int8 |",
        f"| counted | 75.00 (74.00 to 76.00); {work}; B; code not as committed | – | not measured |",
        f"| slow | 50.00 (49.00 to 51.00); {work}; A | 30.00 (29.00 to 31.00); {work}; A | not measured |",
        "| new | not measured | not measured | not measured |",
        "",
        "Machines: A: AMD EPYC, avx2; B: Intel, amx_bf16.",
    ]


def test_the_picture_of_families_has_what_the_table_has(
    families: tuple[ModuleType, Any, dict[str, Record]],
) -> None:
    module, compared, records = families
    drawn = module.picture(compared, records)
    assert drawn.count("<circle") == 4
    assert drawn.count(">not measured<") == 3
    assert [drawn.index(f">{name}<") for name in ("fast", "counted", "slow", "new")] == sorted(
        drawn.index(f">{name}<") for name in ("fast", "counted", "slow", "new")
    )
    assert ">80.0<" in drawn


def test_the_table_of_families_replaces_the_last_one(families: tuple[ModuleType, Any, dict[str, Record]]) -> None:
    module, _, _ = families
    page = f"# Families\n{module.BEGIN}\n\n| old |\n\n{module.END}\nAnd more.\n"
    once = module.filled(page, "| new |")
    assert once == f"# Families\n{module.BEGIN}\n\n| new |\n\n{module.END}\nAnd more.\n"
    assert module.filled(once, "| new |") == once
    with pytest.raises(ValueError, match="the page needs"):
        module.filled("# Families\n", "| new |")


def test_no_other_table_shows_the_records_of_families(publishing: dict[str, Any], tmp_path: Path) -> None:
    where = folder(tmp_path, "{{scores per | g2p-*}}", **{"families-words": record(system()), "a": record(system(5))})
    assert len(publishing["Results"].read(where).rows) == 1
