"""Records of figures: writing, reading, and comparison with the current recipes."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from transduce.compute import processor
from transduce.core import config, recipes
from transduce.core.types import Example, Facts
from transduce.data.corpora import Files
from transduce.data.preparation import Tokenizers
from transduce.runs import code
from transduce.runs.code import Code
from transduce.training.settings import Settings
from transduce.wings.records import changes, machine, provenance
from transduce.wings.records.machine import measure_gflops
from transduce.wings.records.making import count_parameters, effort_of, new_record, trained_model, validation_scores
from transduce.wings.records.record import (
    Change,
    Effort,
    Figure,
    Fingerprint,
    MeasuredSystem,
    PrintedTable,
    Record,
    RecordError,
    TrainedModel,
)

Call = Callable[..., tuple[int, str, str]]
FACTS = Facts(11, 12)

pytestmark = pytest.mark.usefixtures("quick_products")


@pytest.fixture(scope="module")
def model(trained: Path) -> TrainedModel:
    return trained_model(trained)


@pytest.fixture
def record(model: TrainedModel) -> Record:
    system = MeasuredSystem(
        "reverse",
        {"exact": Figure(12.5, 10.0, 15.0, "unit:output"), "loss": Figure(0.5)},
        Fingerprint("0123", 12),
        {"type": "beam", "size": 5},
        (model,),
    )
    table = PrintedTable("Speed", ("side", "ms"), (("ours", "1.5"), ("theirs", "2.5")))
    return new_record("transduce evaluate reverse", "test", [system], [table])


def resolved(name: str, **settings: Any) -> config.Table:
    changed = {key.replace("__", "."): value for key, value in settings.items()}
    return config.resolve(config.change(recipes.read(name), changed), Settings, FACTS)


# ---------------------------------------------------------------- written and read


def test_a_record_is_read_as_it_was_written(record: Record, tmp_path: Path) -> None:
    file = record.write(tmp_path / "new" / "record.json")
    assert file == tmp_path / "new" / "record.json"
    assert Record.read(file) == record


def test_a_file_is_replaced_and_a_folder_gets_a_new_file(record: Record, tmp_path: Path) -> None:
    file = record.write(tmp_path / "record.json")
    assert replace(record, split="valid").write(file) == file
    assert Record.read(file).split == "valid"
    folder = tmp_path / "records"
    assert [record.write(folder).name for _ in range(2)] == ["reverse-test.json", "reverse-test-2.json"]
    printed = replace(record, systems=(), split="data/a b.txt")
    assert printed.write(folder).name == "Speed-a-b.txt.json"


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda table: "{", r"record\.json: not JSON .*expected one JSON object; restore the file"),
        (lambda table: "[]", "a JSON list, expected one JSON object"),
        (lambda table: table | {"format": 99}, "format = 99, expected 1"),
        (lambda table: table | {"command": 3}, r"record\.json: command: 3 is an integer, expected a string"),
        (lambda table: table | {"spilt": "test"}, 'spilt: Record takes no such key; did you mean "split"'),
        (lambda table: {key: table[key] for key in table if key != "machine"}, "machine: missing; Record needs"),
        (
            lambda table: table | {"systems": [table["systems"][0] | {"scores": {"exact": {"value": "high"}}}]},
            r'systems\[0\]\.scores\.exact\.value: "high" is a string, expected a number',
        ),
    ],
)
def test_a_broken_record_is_refused(
    broken: Callable[[dict[str, Any]], Any], message: str, record: Record, tmp_path: Path
) -> None:
    file = record.write(tmp_path / "record.json")
    made = broken(json.loads(file.read_text()))
    file.write_text(made if isinstance(made, str) else json.dumps(made))
    with pytest.raises(RecordError, match=message):
        Record.read(file)


# --------------------------------------------------------------------- provenance


def test_the_machine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine.Machine.here()
    assert (found.float32_gflops, found.bfloat16_gflops, found.threads) == (12.5, 25.0, torch.get_num_threads())
    information = "model name\t: AMD EPYC 9\nflags\t\t: fpu avx2 avx512f sse\nmodel name\t: another\n"
    monkeypatch.setattr(processor, "_description", lambda: information)
    assert processor.model_name() == "AMD EPYC 9"
    assert processor.product_instructions() == ("avx2", "avx512f")
    monkeypatch.setattr(processor, "_description", lambda: "")
    assert processor.model_name()


def test_products_are_timed() -> None:
    assert measure_gflops(torch.float32, size=64, seconds=0.0) > 0


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("/home/me/runs/g2p", "g2p"),
        ("data.train.path=/home/me/a.tsv", "data.train.path=a.tsv"),
        ('data.origin={folder="/home/me/x", text=2}', 'data.origin={folder="x", text=2}'),
        ("/a/b/one+/a/b/two", "one+two"),
        ("runs/g2p", "runs/g2p"),
        ("~/runs/g2p", "~/runs/g2p"),
        ("../runs/g2p", "../runs/g2p"),
        ("a/b", "a/b"),
    ],
)
def test_the_folders_of_this_machine_are_not_kept(word: str, shown: str) -> None:
    assert provenance.without_folders(word) == shown
    assert provenance.without_folders({"a": [word, 3, True]}) == {"a": [shown, 3, True]}


def test_the_command_is_quoted() -> None:
    words = ["evaluate", "/home/me/runs/g2p", "--set", "a=[1, 2]"]
    assert provenance.command_line("transduce", words) == "transduce evaluate g2p --set 'a=[1, 2]'"


def test_the_commit_and_whether_the_code_is_as_it_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> tuple[str | None, bool | None]:
        own = Code.find()
        return own.commit, own.clean

    monkeypatch.setattr(code, "SOURCE", tmp_path)
    assert found() == (None, None)
    (tmp_path / "code.py").write_text("1\n")
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    name, clean = found()
    assert name is not None
    assert clean is True
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    (tmp_path / "benchmarks" / "results" / "new.json").write_text("{}")
    assert found() == (name, True)  # a record is no change of the code
    (tmp_path / "code.py").write_text("2\n")
    assert found() == (name, False)
    (tmp_path / "benchmarks" / ".gitignore").write_text("*\n")
    monkeypatch.setattr(code, "SOURCE", tmp_path / "benchmarks")  # installed in another checkout
    assert found() == (None, None)


UNCOMMITTED = [
    (Code("0123", ("a.py", "b.py", "c.py", "d.py")), r"not as commit 0123 has it \(a.py, b.py, c.py, …\)"),
    (Code(), "no git checkout: no commit has this code"),
]


@pytest.mark.parametrize(("own", "message"), UNCOMMITTED)
@pytest.mark.usefixtures("benchmarks")
def test_no_record_is_made_of_code_that_is_not_committed(
    own: Code,
    message: str,
    trained: Path,
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By commands and by benchmarks, before anything is measured. --uncommitted writes a record that is marked."""
    monkeypatch.setattr(code, "code", lambda: own)
    file = tmp_path / "r.json"
    asked = ("evaluate", trained, "--metric=exact", "--beam=1", "--device=cpu", f"--record={file}")
    status, out, err = call(*asked)
    assert (status, out) == (2, "")
    assert re.search(message, err)
    assert "or give --uncommitted too" in err
    assert len(err.splitlines()) == 1
    assert call(*asked, "--uncommitted")[0] == 0
    assert Record.read(file).clean is own.clean
    assert Record.read(file).commit == own.commit

    import cases

    def measure(report: Any, run: Path) -> None:
        report.tell("| a |", "|---|", "| 1 |", runs=[run])

    monkeypatch.setattr(importlib.import_module("pruning"), "main", measure)
    benchmark = ("pruning", str(trained), f"--record={file}")
    with pytest.raises(SystemExit):
        cases.main(benchmark)
    assert re.search(message, capsys.readouterr().err)
    file.unlink()
    cases.main([*benchmark, "--uncommitted"])
    assert Record.read(file).clean is own.clean


def test_a_mark_without_a_record_is_refused(trained: Path, call: Call) -> None:
    status, _, err = call("evaluate", trained, "--uncommitted")
    assert status == 2
    assert "--uncommitted marks a record: give --record FILE.json too" in err


def test_fingerprints_are_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("x\ty\nz\tw\n")
    found = provenance.fingerprint_of_files(Files(path=str(tmp_path / "a.tsv")))
    assert (found.lines, found.files) == (2, ("a.tsv",))
    shutil.copy(tmp_path / "a.tsv", tmp_path / "b.tsv")
    assert provenance.fingerprint_of_files(Files(path=str(tmp_path / "b.tsv"))).sha256 == found.sha256
    (tmp_path / "b.tsv").write_text("x\ty\nz\tv\n")
    assert provenance.fingerprint_of_files(Files(path=str(tmp_path / "b.tsv"))).sha256 != found.sha256
    one, other = [Example("a", ("b",))], [Example("a", ("c",))]
    assert provenance.fingerprint_of_examples(one) != provenance.fingerprint_of_examples(other)
    here, there = [Example("/here/a.wav", ("b",))], [Example("/there/a.wav", ("b",))]
    assert provenance.fingerprint_of_examples(here) == provenance.fingerprint_of_examples(there)


# ------------------------------------------------------------------------ the run


def test_what_is_known_of_a_run(trained: Path, model: TrainedModel) -> None:
    found = model
    assert (found.name, found.recipe, found.seed) == ("reverse", "reverse", 1)
    assert found.difference["training.steps"].run == 8
    assert "training.precision" not in found.difference  # "auto" agrees with what the machine chose
    assert "data.cache" not in found.difference
    state = json.loads((trained / "checkpoints" / "last" / "state.json").read_text())
    assert found.effort == Effort(8, round(state["seconds"] / 60, 3), state["tokens"])
    assert found.training_data is not None
    assert found.training_data.lines == 120
    assert found.validation == validation_scores(trained)
    assert found.validation.keys() >= {"loss"}
    assert found.facts["target_vocabulary"] == Tokenizers.load(trained / "tokenizers").facts.target_vocabulary
    (training,) = found.trainings
    assert (training.step, training.processor, training.threads) == (0, processor.model_name(), 1)
    assert training.versions == provenance.versions()
    kept = json.loads((trained / "history.jsonl").read_text())
    assert (training.commit, training.clean) == (kept["commit"], kept["clean"])
    assert found.parameters == count_parameters(trained / "checkpoints" / "best" / "model.safetensors") > 0


def test_a_run_without_its_data_and_last_checkpoint_is_recorded_too(
    own_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(own_run / "checkpoints" / "last")
    settings = config.read(own_run / "config.toml")
    del settings["data"]["origin"]
    settings["data"]["train"] = {"path": str(own_run / "gone.tsv")}
    (own_run / "config.toml").write_text(config.write(settings))
    found = trained_model(own_run)
    assert (found.effort, found.training_data) == (None, None)
    assert "the record has no fingerprint of the training data" in caplog.text
    assert effort_of(own_run) is None


def test_a_run_that_a_kill_left_between_two_renames_is_recorded_too(own_run: Path, trained: Path) -> None:
    (own_run / "checkpoints" / "last").rename(own_run / "checkpoints" / "last.old")
    (own_run / "checkpoints" / "best").rename(own_run / "checkpoints" / "best.old")
    assert effort_of(trained) is not None
    assert effort_of(own_run) == effort_of(trained)
    assert validation_scores(own_run) == validation_scores(trained) != {}


def test_a_line_of_the_history_that_a_kill_has_cut_is_left_out(own_run: Path) -> None:
    with (own_run / "history.jsonl").open("a") as file:
        file.write('3\n{"time": "2026-1')
    (training,) = trained_model(own_run).trainings
    assert training.step == 0
    (own_run / "history.jsonl").unlink()  # as of a run that an older version trained
    assert trained_model(own_run).trainings == ()


# ------------------------------------------------------------- the shipped recipe


def test_the_difference_from_a_recipe_is_found() -> None:
    assert changes.differences(recipes.read("g2p-attention"), resolved("g2p-attention"), FACTS) == {}
    aligner = resolved("g2p-attention", training__aligner=True)  # it is made after training
    assert changes.differences(recipes.read("g2p-attention"), aligner, FACTS) == {}
    run = resolved("g2p-attention", model__decoder__dropout=0.45, training__precision="float32", data__cache="x")
    assert changes.differences(recipes.read("g2p-attention"), run, FACTS) == {
        "model.decoder.dropout": Change(recipes.read("g2p-attention")["model"]["decoder"]["dropout"], 0.45)
    }


def test_the_files_of_a_recipe_without_data_are_no_difference() -> None:
    files = {"data__train__path": "t.conllu", "data__valid__path": "v.conllu"}
    assert changes.differences(recipes.read("tagging"), resolved("tagging", **files), FACTS) == {}
    own = changes.differences(recipes.read("g2p"), resolved("g2p", data__train__path="mine.tsv"), FACTS)
    assert own == {"data.train.path": Change(None, "mine.tsv")}
    small = resolved("g2p-small", data__train__path="mine.tsv", data__origin={"type": "cmudict"})  # g2p's data, unused
    assert changes.differences(recipes.read("g2p-small"), small, FACTS) == {}


def test_the_nearest_recipe() -> None:
    assert changes.nearest_recipe(resolved("g2p-small", training__seed=3), FACTS)[0] == "g2p-small"
    name, difference = changes.nearest_recipe(resolved("multi30k-de-en-gru"), FACTS)
    assert (name, difference) == ("multi30k-de-en-gru", {})


def test_a_run_is_as_shipped_whatever_its_seed_and_the_users_text(model: TrainedModel) -> None:
    def shipped(key: str, origin: str) -> bool:
        configuration = config.change(model.configuration, {"data.origin.type": origin})
        return changes.as_shipped(replace(model, configuration=configuration, difference={key: Change(None, "mine")}))

    assert shipped("training.seed", "plays")
    assert not shipped("training.steps", "plays")
    assert shipped("data.origin.path", "plays")
    assert not shipped("data.origin.text", "plays")
    assert shipped("data.origin.text", "sentences")
    assert not shipped("data.origin.text", "text-lines")


def test_an_older_recipe_is_noticed(model: TrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    assert changes.changed_since(model) == {}  # its own changes are none of the recipe's
    read = recipes.read
    monkeypatch.setattr(recipes, "read", lambda name: config.change(read(name), {"training.steps": 77}))
    assert changes.changed_since(model) == {}, "the run has a budget of its own"
    whole = {key: change for key, change in model.difference.items() if key != "training.steps"}
    assert changes.changed_since(replace(model, difference=whole))["training.steps"].recipe == 77
    monkeypatch.setattr(recipes, "read", lambda name: config.change(read(name), {"training.average": 7}))
    assert changes.changed_since(model)["training.average"].recipe == 7
    gone = replace(model, recipe="no-such-recipe")
    assert changes.changed_since(gone) == {"recipe": Change(None, "no-such-recipe")}


def test_a_setting_that_the_package_has_learned_since_is_no_change(model: TrainedModel) -> None:
    older = {key: value for key, value in model.configuration["training"].items() if key != "accumulate"}
    before = replace(model, configuration=model.configuration | {"training": older})
    assert changes.changed_since(before) == {}


# --------------------------------------------------------------- the command line


def test_evaluate_and_compare_keep_a_record(
    trained: Path, sister: Path, model: TrainedModel, call: Call, tmp_path: Path
) -> None:
    status, out, err = call(
        "evaluate", trained, "--metric=exact", "--beam=2", "--device=cpu", f"--record={tmp_path / 'records'}"
    )
    file = tmp_path / "records" / "reverse-test.json"
    assert status == 0
    assert str(file) in err
    record = Record.read(file)
    (system,) = record.systems
    assert record.command.startswith("transduce evaluate reverse --metric=exact --beam=2")
    assert (record.split, system.name, system.search["size"]) == ("test", "reverse", 2)
    exact = system.scores["exact"]
    assert exact.low is not None
    assert exact.high is not None
    assert exact.low <= exact.value <= exact.high
    assert f"{exact.value:.2f}" in out
    assert system.models == (model,)

    both = tmp_path / "both.json"
    few = ("--resamples=20", "--trials=20")
    asked = ("compare", trained, sister, f"--baseline={trained}", "--metric=exact", "--device=cpu", "--json")
    status, out, _ = call(*asked, *few, f"--record={both}")
    assert status == 0
    (pair,) = json.loads(out)["pairs"]
    compared = Record.read(both)
    assert [system.name for system in compared.systems] == ["reverse", "sister"]
    (difference,) = compared.differences
    assert (difference.metric, difference.one, difference.other) == ("exact", "sister", "reverse")
    one, other = (compared.systems[place].scores["exact"].value for place in (1, 0))
    assert difference.value == pytest.approx(one - other)
    assert [difference.low, difference.high] == pair["interval"]
    told = (difference.bootstrap_p, difference.randomisation_p, difference.adjusted_p)
    assert told == (pair["bootstrap_p"], pair["randomisation_p"], pair["adjusted_p"])


def test_a_place_where_nothing_can_be_written_is_told_first(trained: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("record.json", "folder"):
        status, out, err = call("evaluate", trained, f"--record={tmp_path / 'file' / name}")
        assert status == 2
        assert "is a file, and a folder is needed" in err
        assert out == ""


# ---------------------------------------------------------------------- benchmarks

PAGE = """\
# Speed

| side | ms |
|---|---|
| ours | 1.5 |

Words between.

## Memory
| side | MB | |
|---|---|---|
| ours | 7 | |
| theirs | 9 | least |
"""


@pytest.mark.usefixtures("benchmarks")
def test_a_benchmark_keeps_the_tables_that_it_prints(
    trained: Path, model: TrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from report import Report

    monkeypatch.setattr("sys.argv", ["benchmarks", "speed", "/home/me/run", "--record", "x"])
    folder = tmp_path / "records"
    report = Report(tmp_path / "x.md", folder)
    report.show(["another page"])
    report.show(PAGE.splitlines()[:4])
    report.tell(*PAGE.splitlines()[4:], runs=[trained])  # more rows: the same file
    (file,) = folder.iterdir()
    record = Record.read(file)
    assert (tmp_path / "x.md").read_text() == PAGE
    assert record.command == "python benchmarks speed run --record x"
    assert record.models == (model,)
    assert record.tables == (
        PrintedTable("Speed", ("side", "ms"), (("ours", "1.5"),)),
        PrintedTable("Memory", ("side", "MB", ""), (("ours", "7", ""), ("theirs", "9", "least"))),
    )
