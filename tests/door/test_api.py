"""The Python API."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import transduce
from transduce.core import config, recipes, registry
from transduce.core.errors import MissingPackageError
from transduce.core.plugins import load_plugins
from transduce.core.types import Example
from transduce.evaluation.groups import training_frequencies
from transduce.layers.modules.cells.gru import GRU
from transduce.runs.layout import CONFIG, LOCK, foreign_files
from transduce.runs.lock import locked
from transduce.runs.run import Run
from transduce.training.request import TrainingRequest

PAIRS = [(text, text[::-1]) for text in ("ab", "cde", "fg", "h", "ijk", "lm", "nop", "q", "rst", "uv")] * 4


class QuietCell(GRU):
    """A user's own cell."""


def train(run: Path, settings: Any, **options: Any) -> transduce.Transducer:
    return transduce.train("reverse", run, settings, device="cpu", progress=False, **options)


def test_training_on_pairs_replaces_the_data_of_a_recipe(tiny: dict[str, Any], tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = {key: value for key, value in tiny.items() if key != "data.origin"} | {"training.steps": 2}
    model = train(run, settings, pairs=PAIRS)
    assert isinstance(model("ab"), str)
    rows = {name: (run / "data" / f"{name}.jsonl").read_text().splitlines() for name in ("train", "valid")}
    assert [json.loads(row)["source"] for row in rows["valid"]] == [PAIRS[19][0], PAIRS[39][0]]
    assert len(rows["train"]) == 38
    assert "origin" not in config.read(run / "config.toml")["data"]
    assert (
        train(run, {"training.steps": 3}, pairs=[("other", "pairs")], resume=True).settings["data"]
        == model.settings["data"]
    )


def test_pairs_too_few_to_hold_any_out(tiny: dict[str, Any], tmp_path: Path) -> None:
    settings = {key: value for key, value in tiny.items() if key != "data.origin"} | {"training.steps": 2}
    train(tmp_path / "run", settings, pairs=iter(PAIRS[:5]))
    about = json.loads((tmp_path / "run" / "checkpoints" / "best" / "state.json").read_text())
    assert about == {"step": 2, "what": "last"}


def test_pairs_leave_the_splits_that_are_set(tiny: dict[str, Any], tmp_path: Path) -> None:
    own = tmp_path / "valid.tsv"
    own.write_text("ab\tba\nbc\tcb\n")
    settings = {key: value for key, value in tiny.items() if key != "data.origin"} | {"training.steps": 2}
    asked = settings | {"data.valid.path": str(own), "data.test.path": str(own)}
    data = train(tmp_path / "run", asked, pairs=PAIRS).settings["data"]
    assert (data["valid"]["path"], data["test"]["path"]) == (str(own), str(own))
    assert len((tmp_path / "run" / "data" / "train.jsonl").read_text().splitlines()) == len(PAIRS)  # none held out
    assert not (tmp_path / "run" / "data" / "valid.jsonl").exists()
    for key, value in {"data.train.path": "t.tsv", "data.columns.source": 1, "data.origin.longest": 3}.items():
        named = ".".join(key.split(".")[:2])
        with pytest.raises(config.ConfigError, match=f"^{named}: pairs are given, which are what is trained on"):
            train(tmp_path / "other", {key: value}, pairs=PAIRS)
    assert not (tmp_path / "other" / "config.toml").exists()


def test_pairs_that_are_none_are_refused(tmp_path: Path) -> None:
    wrong: list[tuple[Any, str]] = [
        ([], "pairs is empty"),
        ([("a", "b"), ("a", "b", "c")], r"pair 2 = \('a', 'b', 'c'\): two texts were expected, \(source, target\)"),
        ([("a", 3)], r"pair 1 = \('a', 3\): two texts"),
        (["ab"], "pair 1 = 'ab': two texts"),
    ]
    for pairs, message in wrong:
        with pytest.raises(ValueError, match=message):
            train(tmp_path / "run", {"training.steps": 1}, pairs=pairs)
    assert not (tmp_path / "run").exists()


# ------------------------------------------------------------------- settings


def test_settings_are_a_mapping_or_lines() -> None:
    table = recipes.read("reverse")
    mapping = {"training.steps": 7, "search": {"type": "greedy"}, "metrics": ("exact",), "data.lines.empty": "keep"}
    lines = ["training.steps=7", 'search={type = "greedy"}', 'metrics=["exact"]', "data.lines.empty=keep"]
    assert recipes.change(table, mapping) == recipes.change(table, lines)
    assert recipes.change(table, "training.steps=7") == recipes.change(table, ["training.steps=7"])
    assert table == recipes.read("reverse")


@pytest.mark.parametrize("setting", ["training.minutes=0.5", "training.epochs = 0.5", "training.steps=0.5"])
def test_a_budget_replaces_the_recipes(setting: str) -> None:
    table = {"training": {"steps": 600, "minutes": 3, "clip": 1.0}}
    name = setting.partition("=")[0].strip().removeprefix("training.")
    assert recipes.change(table, [setting])["training"] == {"clip": 1.0, name: 0.5}
    assert recipes.change({}, [setting]) == {"training": {name: 0.5}}


def test_other_settings_leave_the_budget() -> None:
    assert recipes.change({"training": {"steps": 600}}, {"training.clip": 1.0}) == {
        "training": {"steps": 600, "clip": 1.0}
    }


def test_overwrite_begins_anew(tiny: dict[str, Any], own_run: Path) -> None:
    (own_run / "checkpoints" / "leftover").write_text("of the old run")
    train(own_run, tiny | {"training.steps": 1}, overwrite=True)
    assert not (own_run / "checkpoints" / "leftover").exists()
    assert json.loads((own_run / "checkpoints" / "last" / "state.json").read_text())["step"] == 1


def test_overwrite_deletes_nothing_that_is_no_part_of_a_run(tiny: dict[str, Any], own_run: Path) -> None:
    (own_run / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"overwrite would delete.*thesis\.tex; move it"):
        train(own_run, tiny | {"training.steps": 1}, overwrite=True)
    assert (own_run / "thesis.tex").read_text() == "years of work"
    assert (own_run / "checkpoints" / "last").exists()


def test_overwrite_deletes_no_data_that_one_keeps_in_a_run(tiny: dict[str, Any], own_run: Path) -> None:
    (own_run / "data").mkdir()
    (own_run / "data" / "mine.tsv").write_text("a\tb\n")
    with pytest.raises(ValueError, match=r"overwrite would delete.*data/mine\.tsv; move it"):
        train(own_run, tiny | {"training.steps": 1}, overwrite=True)
    assert (own_run / "data" / "mine.tsv").exists()


def test_a_run_that_was_never_replaced_is_put_back(tiny: dict[str, Any], own_run: Path) -> None:
    """A kill during the preparation of the new run's data leaves the old run set aside. Resuming puts it back."""
    before = (own_run / "config.toml").read_bytes()
    (own_run / ".set-aside").touch()
    own_run.rename(own_run.with_name("run.replaced"))
    (own_run / "data").mkdir(parents=True)
    train(own_run, {}, resume=True)
    assert (own_run / "config.toml").read_bytes() == before
    assert not own_run.with_name("run.replaced").exists()


def test_a_folder_in_the_way_is_nobodys_to_delete(tiny: dict[str, Any], own_run: Path) -> None:
    other = own_run.with_name("run.replaced")
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"run\.replaced is where .* would wait, and something else is there: move it"):
        train(own_run, tiny | {"training.steps": 1}, overwrite=True)
    assert (other / "thesis.tex").exists()
    assert (own_run / "checkpoints" / "last").exists()


def test_a_link_to_a_run_can_be_overwritten(tiny: dict[str, Any], own_run: Path) -> None:
    link = own_run.with_name("link")
    link.symlink_to(own_run)
    train(link, tiny | {"training.steps": 1}, overwrite=True)
    assert link.is_symlink()
    assert json.loads((own_run / "checkpoints" / "last" / "state.json").read_text())["step"] == 1


def test_a_run_of_pairs_goes_on_and_is_measured_where_it_has_been_moved(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {key: value for key, value in tiny.items() if key != "data.origin"} | {"training.steps": 2}
    train(Path("run"), settings, pairs=PAIRS)
    moved = tmp_path / "elsewhere" / "other"
    moved.parent.mkdir()
    Path("run").rename(moved)
    monkeypatch.chdir("/")
    assert [each.source for each in Run.open(moved).examples("valid")] == ["uv"]
    met = training_frequencies(moved, [Example("ab", ("ba",))])
    assert met is not None
    assert met.seen == {"ab"}
    train(moved, {"training.steps": 3}, resume=True)
    assert json.loads((moved / "checkpoints" / "last" / "state.json").read_text())["step"] == 3


def test_a_tilde_is_ones_home(tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    train(Path("run"), tiny | {"data.cache": "~/kept", "training.steps": 1})
    assert not Path("~").exists()
    assert (tmp_path / "home" / "kept" / "prepared").is_dir()
    (tmp_path / "run").rename(tmp_path / "home" / "run")
    assert transduce.load("~/run", device="cpu")("ab") is not None


def test_all_that_is_written_into_a_run_is_part_of_it(tiny: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    """A run has no foreign files; otherwise it could not be overwritten."""
    run = tmp_path / "run"
    own = {key: value for key, value in tiny.items() if key != "data.origin"}
    transduce.train("reverse", run, own, PAIRS, init=trained, device="cpu", progress=False)
    assert {CONFIG, "init.json", "data", LOCK} <= {path.name for path in run.iterdir()}
    assert foreign_files(run) == []


@pytest.mark.parametrize("option", ["resume", "overwrite"])
def test_two_trainings_in_one_directory_are_refused(option: str, tiny: dict[str, Any], own_run: Path) -> None:
    before = (own_run / "config.toml").read_bytes()
    with locked(own_run, "training"), pytest.raises(ValueError, match="another training is at work there"):
        train(own_run, tiny, **{option: True})
    assert (own_run / "config.toml").read_bytes() == before
    assert (own_run / "checkpoints" / "last").exists()
    train(own_run, {}, resume=True)  # the directory is free again


def test_runs_are_named_by_their_recipe() -> None:
    assert TrainingRequest("g2p").run == Path("runs/g2p")
    assert TrainingRequest("some/where/mine.toml").run == Path("runs/mine")
    assert TrainingRequest("g2p", "there").run == Path("there")


# -------------------------------------------------------------- classes of one's own


@pytest.mark.usefixtures("names_restored")
def test_a_class_of_ones_own_is_trained_and_loaded(tiny: dict[str, Any], tmp_path: Path) -> None:
    transduce.register("Cell", "quiet", QuietCell)
    model = train(tmp_path / "run", tiny | {"training.steps": 1, "model.encoder.cell": "quiet"})
    assert model.settings["model"]["encoder"]["cell"]["type"] == "quiet"
    assert any(isinstance(module, QuietCell) for module in model.model.modules())


@pytest.mark.usefixtures("names_restored")
def test_a_plugin_registers_and_stands_in_for_no_module(tmp_path: Path) -> None:
    plugin = tmp_path / "json.py"
    plugin.write_text(
        "import transduce\n"
        "from transduce.layers.modules.cells.gru import GRU\n"
        "class Mine(GRU):\n    pass\n"
        'transduce.register("Cell", "mine", Mine)\n'
    )
    load_plugins([str(plugin)])
    assert registry.find("Cell", "mine").__name__ == "Mine"
    assert sys.modules["json"] is json


def test_missing_plugins_are_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"--plugin .*nothing\.py: no such Python file"):
        load_plugins([str(tmp_path / "nothing.py")])
    with pytest.raises(MissingPackageError, match="--plugin no_such_module: there is no module 'no_such_module'"):
        load_plugins(["no_such_module"])


# ------------------------------------------------------------------ the package


def test_importing_and_asking_for_help_bring_no_torch() -> None:
    program = (
        "import sys, transduce, transduce.cli.app\n"
        "transduce.register\n"
        "transduce.recipes.names()\n"
        "try: transduce.cli.app.app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'sacrebleu', 'tokenizers', 'safetensors'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "predict" in done.stdout
