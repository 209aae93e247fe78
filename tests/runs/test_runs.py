"""A run directory after a kill, damage, a move or a copy: the run can be read, or the error says what to do."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file, save_file
from test_resume import At, KilledError, events, kill
from test_training import loop, steady
from torch import nn

import transduce
from transduce import api
from transduce.core import config
from transduce.core.errors import UserError
from transduce.data.corpora import DataError
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Characters
from transduce.models.weights import set_weights, weights
from transduce.runs import training_state
from transduce.runs.checkpoints import Rank, best_rank, load_checkpoint
from transduce.runs.layout import SET_ASIDE, find_weights, foreign_files
from transduce.runs.lock import locked
from transduce.runs.recent_weights import keep_recent
from transduce.runs.run import Run
from transduce.training.callbacks import Callback, Saved, Validated
from transduce.training.request import TrainingRequest
from transduce.training.settings import Validation

Call = Callable[..., tuple[int, str, str]]


def train(run: Path, settings: Any, *callbacks: Callback, **options: Any) -> None:
    api.train_run(TrainingRequest("reverse", run, settings, **options), callbacks, device="cpu", progress=False)


class AtCheckpoint(Callback):
    """Does something when a checkpoint was written, and keeps the names of all."""

    def __init__(self, what: Callable[[Saved], None]) -> None:
        self.what = what

    def on_checkpoint(self, saved: Saved) -> None:
        self.what(saved)


# -------------------------------------------------------------- a run as a value


def test_a_run_has_its_settings_data_tokenizers_weights_and_parents(trained: Path, tiny: dict[str, Any]) -> None:
    run = Run.open(trained)
    assert run.settings["training"]["steps"] == 8
    assert run.tokenizers.facts.target_vocabulary == len(run.tokenizers.target)
    assert len(run.examples("valid")) == 100
    assert len(run.prepared().train) == 120
    assert run.weights("last") == trained / "checkpoints" / "last" / "model.safetensors"
    assert run.parents == []
    assert run.cache == Path(tiny["data.cache"])
    assert run.transducer()("abc") == transduce.load(trained, device="cpu")("abc")


def test_a_run_names_the_runs_that_it_comes_from(trained: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    train(tmp_path / "run", tiny | {"training.steps": 1}, init=trained, teacher=trained)
    parents = Run.open(tmp_path / "run").parents
    assert [(each.key, each.run, each.checkpoint) for each in parents] == [
        ("init.run", trained, "best"),
        ("distillation.teacher", trained, "best"),
    ]


def test_training_from_the_command_line_does_not_load_the_model_again(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: Any, **__: Any) -> None:
        pytest.fail("the model was loaded, and nobody asked for it")

    monkeypatch.setattr(api, "trained", load)
    train(tmp_path / "run", tiny | {"training.steps": 1})


# ------------------------------------------------------------------------ kills


@pytest.mark.parametrize("folder", ["checkpoints/best", "tokenizers"])
def test_a_run_is_read_whose_replacement_was_killed_between_its_renames(folder: str, own_run: Path, call: Call) -> None:
    before = call("predict", own_run, "--device=cpu", stdin=b"abc\n")
    (own_run / folder).rename(own_run / f"{folder}.old")
    assert call("predict", own_run, "--device=cpu", stdin=b"abc\n") == before
    assert (own_run / f"{folder}.old").exists(), "reading changes nothing: the run may be somebody else's"


def test_recent_weights_are_synced_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    keep_recent(tmp_path, nn.Linear(2, 2), 7)
    assert any("7.safetensors" in path for path in synced)


def test_the_best_weights_and_their_rank_are_one_step(tmp_path: Path) -> None:
    """Training is killed after its best validation, and before its state is saved; it goes on from before that."""
    training = steady(steps=4, validation=Validation(every=1), checkpoint_every=9)
    first, _ = loop(tmp_path, training, values=[3, 1])
    with pytest.raises(StopIteration):
        first()
    assert best_rank(tmp_path / "checkpoints") == Rank("loss", 1, 1)
    weights = find_bytes(tmp_path)
    earlier = training_state.State(step=1, best=Rank("loss", 3, 3), best_step=1)
    again, _ = loop(tmp_path, training, values=[2, 2, 2], state=earlier)
    again()
    assert find_bytes(tmp_path) == weights, "better weights were replaced by worse ones"
    assert again.course.state.best == Rank("loss", 2, 2), (
        "and it counts its own validations, as if nothing had happened"
    )


def find_bytes(run: Path) -> bytes:
    return (run / "checkpoints" / "best" / "model.safetensors").read_bytes()


def test_a_kill_in_the_last_save_leaves_no_line_twice(
    tiny: dict[str, Any], trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, save, saves = tmp_path / "run", training_state.save_training, []

    def until_the_last(*arguments: Any) -> None:
        saves.append(1)
        if len(saves) == 5:  # after updates 2, 4, 6, 8 and at the end
            kill()
        save(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("transduce.training.keeper.save_training", until_the_last)
        with pytest.raises(KilledError):
            train(run, tiny)
    train(run, (), resume=True)
    assert events(run) == events(trained)


def test_patience_that_has_ended_stays_ended_where_the_average_is_better(tmp_path: Path) -> None:
    training = steady(steps=9, average=2, validation=Validation(every=1, patience=2))
    first, _ = loop(tmp_path, training, values=[2, 3, 4, 1])
    assert first().reason == "patience"
    assert first.course.state.best == Rank("loss", 1, 1)
    again, told = loop(tmp_path, training, values=[], state=first.course.state)
    assert again().reason == "patience"
    assert told.of(Validated) == []


def test_the_generator_of_the_models_own_device_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: asked.append(device) or torch.zeros(1))
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: asked.append(device))
    second = torch.device("cuda:1")
    states = training_state._generators(second)
    training_state._restore_generators(states, second, "last")
    assert asked == [second, second]
    assert set(training_state._generators(torch.device("cpu"))) == {"generator.cpu"}


def test_a_lock_file_is_deleted_while_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once released it may be the lock of another process, whose name would then guard nothing."""
    there: list[bool] = []
    release = FileLock.release

    def releasing(lock: FileLock, force: bool = False) -> None:
        there.append(Path(lock.lock_file).exists())
        release(lock, force)

    monkeypatch.setattr(FileLock, "release", releasing)
    with locked(tmp_path / "folder", "training"):
        pass
    assert there[0] is False
    assert not (tmp_path / "folder").exists()


# ------------------------------------------------------------------ overwriting


def test_the_old_run_goes_with_the_first_checkpoint_of_the_new_one(tiny: dict[str, Any], own_run: Path) -> None:
    aside, found = own_run.with_name("run.replaced"), []
    changes = tiny | {"training.seed": 7, "training.steps": 4}
    look = [At(1, lambda: found.append(aside.exists())), AtCheckpoint(lambda _: found.append(aside.exists()))]
    train(own_run, changes, *look, overwrite=True)
    assert found[0] is True
    assert found[-1] is False
    assert not aside.exists()


def test_a_kill_before_the_first_checkpoint_loses_no_run(
    tiny: dict[str, Any], trained: Path, own_run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answer = transduce.load(trained, device="cpu")("abcde")
    aside = tmp_path / "killed.replaced"  # as a kill leaves them
    new = tmp_path / "killed"
    shutil.copytree(own_run, aside)
    (aside / SET_ASIDE).touch()
    shutil.copytree(own_run, new)
    shutil.rmtree(new / "checkpoints")
    assert transduce.load(new, device="cpu")("abcde") == answer
    assert "has no checkpoint yet: this is the run that it replaces" in caplog.text
    train(new, {"training.steps": 1}, resume=True)  # goes on with the new one
    assert Run.open(new).settings["training"]["steps"] == 1
    assert not aside.exists()


def test_another_training_puts_back_the_run_that_lost_nothing_yet(
    tiny: dict[str, Any], own_run: Path, tmp_path: Path
) -> None:
    new, aside = tmp_path / "killed", tmp_path / "killed.replaced"
    shutil.copytree(own_run, aside)
    (aside / SET_ASIDE).touch()
    shutil.copytree(own_run, new)
    shutil.rmtree(new / "checkpoints")
    with pytest.raises(FileExistsError, match="already holds a run"):
        train(new, tiny)
    assert (new / "checkpoints" / "best").exists()
    assert not (new / SET_ASIDE).exists()


def test_a_run_that_somebody_called_replaced_stays(tiny: dict[str, Any], own_run: Path) -> None:
    stranger = own_run.with_name("run.replaced")
    shutil.copytree(own_run, stranger)
    train(own_run, tiny | {"training.steps": 1, "training.seed": 3}, resume=True)
    assert (stranger / "checkpoints" / "best").exists()
    with pytest.raises(ValueError, match=r"run\.replaced is where .* would wait, and something else is there"):
        train(own_run, tiny | {"training.steps": 1}, overwrite=True)
    shutil.rmtree(own_run)
    with pytest.raises(FileNotFoundError, match="is no run directory"):
        Run.open(own_run)
    train(own_run, tiny | {"training.steps": 1})
    assert (stranger / "checkpoints" / "best").exists()


def test_a_new_run_that_fails_before_its_first_checkpoint_leaves_the_old_one(
    tiny: dict[str, Any], own_run: Path
) -> None:
    with pytest.raises(KilledError):
        train(own_run, tiny | {"training.checkpoint_every": 8}, At(1, kill), overwrite=True)
    assert find_weights(own_run, "best").exists()
    assert not own_run.with_name("run.replaced").exists()


# ------------------------------------------------------------------- provenance


def test_versions_and_commands_are_kept(own_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["transduce", "train", "reverse", "--resume"])
    train(own_run, {"training.steps": 9}, resume=True)
    first, second = (json.loads(line) for line in (own_run / "history.jsonl").read_text().splitlines())
    assert (first["step"], second["step"]) == (0, 8)
    assert second["command"] == ["transduce", "train", "reverse", "--resume"]
    assert second["torch"] == torch.__version__
    assert second["transduce"] == transduce.__version__
    assert {"python", "platform", "directory", "time", "device", "threads"} < second.keys()
    assert foreign_files(own_run) == []


@pytest.fixture
def relative(tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run on files that it names relative to the directory ``home``, in which it was trained."""
    home = tmp_path / "home"
    home.mkdir()
    for split in ("train", "valid", "test"):
        (home / f"{split}.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in ("ab", "cde", "fg", "hi")))
    monkeypatch.chdir(home)
    own = {key: value for key, value in tiny.items() if key not in ("data.origin", "data.cache")}
    files = {f"data.{split}.path": f"{split}.tsv" for split in ("train", "valid", "test")}
    train(Path("run"), own | files | {"training.steps": 2})
    return home


def test_a_run_that_was_moved_finds_its_data_where_it_was_trained(
    relative: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    moved = tmp_path / "moved"
    shutil.move(relative / "run", moved)
    monkeypatch.chdir("/")
    assert call("evaluate", moved, "--device=cpu")[0] == 0
    train(moved, {"training.steps": 3}, resume=True)


def test_a_run_keeps_empty_sources_if_it_learned_from_them(trained: Path) -> None:
    run = Run.open(trained)
    for empty in ("skip", "keep"):
        data = run.settings["data"] | {"lines": {"empty": empty}}
        assert replace(run, settings=run.settings | {"data": data}).transducer().keeps_empty == (empty == "keep")


def test_a_run_that_was_copied_without_its_data_says_what_is_missing(
    relative: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    copied = tmp_path / "copied"
    shutil.move(relative / "run", copied)
    (relative / "test.tsv").unlink()
    monkeypatch.chdir("/")
    assert call("predict", copied, "--device=cpu", stdin=b"ab\n")[0] == 0
    status, _, told = call("evaluate", copied, "--device=cpu")
    assert status == 2
    assert f"{copied} has its test split in test.tsv (relative to {relative}, where it was trained)" in told
    assert "--pairs" in told


def test_a_resume_without_its_cache_learns_nothing(
    own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Tokenizers.load(own_run / "tokenizers").fingerprints

    def learn(*_: Any) -> None:
        pytest.fail("a vocabulary was learned, which the run cannot use")

    monkeypatch.setattr(Characters, "learn", learn)
    train(own_run, {"training.steps": 9, "data.cache": str(tmp_path / "empty")}, resume=True)
    assert Tokenizers.load(own_run / "tokenizers").fingerprints == before
    assert len(list((tmp_path / "empty" / "prepared").iterdir())) == 1


# -------------------------------------------------------------- damage, strangers


def changed(run: Path, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Changes the largest tensor of the best weights, in a run of before the checksums."""
    path = run / "checkpoints" / "best" / "model.safetensors"
    (path.parent / "checksums.sha256").unlink(missing_ok=True)
    tensors = load_file(path)
    name = max(tensors, key=lambda name: tensors[name].numel())
    save_file({**tensors, name: change(tensors[name]).contiguous()}, path)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64, torch.uint8])
def test_weights_of_another_kind_are_refused(dtype: torch.dtype, own_run: Path, call: Call) -> None:
    changed(own_run, lambda tensor: tensor.to(dtype))
    status, _, told = call("predict", own_run, "--device=cpu", stdin=b"ab\n")
    assert status == 2
    assert f"has numbers of type {dtype}, the model expects torch.float32" in told


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_refused(value: float, own_run: Path) -> None:
    changed(own_run, lambda tensor: tensor.index_fill(0, torch.tensor([0]), value))
    with pytest.raises(UserError, match="numbers that are not finite"):
        transduce.load(own_run, device="cpu")


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors"])
def test_flipped_bits_are_found(file: str, own_run: Path) -> None:
    path = own_run / "checkpoints" / "last" / file
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"{file} is damaged: its checksum differs"):
        train(own_run, {"training.steps": 9}, resume=True)


def test_the_checksums_are_of_all_files(trained: Path) -> None:
    for folder in (trained / "checkpoints").iterdir():
        if folder.name == "recent":
            continue
        named = {line.split("  ")[1] for line in (folder / "checksums.sha256").read_text().splitlines()}
        assert named == {path.name for path in folder.iterdir()} - {"checksums.sha256"}


@pytest.mark.parametrize(
    ("content", "told"),
    [("", "data: .*config.toml has no such table"), ("data = 'here'\n", "data: .* has no such table")],
)
def test_a_damaged_config_is_told_in_a_line(content: str, told: str, own_run: Path, call: Call) -> None:
    (own_run / "config.toml").write_text(content)
    for command in (["train", "reverse", "--out", own_run, "--resume"], ["evaluate", own_run], ["predict", own_run]):
        status, _, error = call(*command, "--device=cpu", stdin=b"ab\n")
        assert status == 2
        assert re.search(told, error), error


def test_a_strangers_run_makes_no_folders_elsewhere(own_run: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen" / "by" / "them"
    settings = config.read(own_run / "config.toml")
    settings["data"]["cache"] = str(chosen)
    (own_run / "config.toml").write_text(config.write(settings))
    assert len(Run.open(own_run).examples("test")) == 100
    assert not (tmp_path / "chosen").exists()
    assert (own_run.parent / ".cache" / "origins").is_dir()


def test_a_run_directory_may_be_the_current_one(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    train(Path(), tiny | {"training.steps": 1})
    assert Run.open(".").settings["training"]["steps"] == 1
    train(Path(), tiny | {"training.steps": 2}, overwrite=True)
    assert Run.open(tmp_path / "here").settings["training"]["steps"] == 2


def test_no_run_and_no_split_are_told(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is no run directory"):
        Run.open(tmp_path)
    with pytest.raises(DataError, match="split 'other': train, valid, test were expected"):
        Run.open(trained).examples("other")
    with pytest.raises(UserError, match="is no whole safetensors file"):
        load_checkpoint(nn.Linear(1, 1), trained / "config.toml")


def test_weights_that_do_not_fit_leave_the_model_unchanged() -> None:
    model = nn.Linear(2, 2)
    before = {name: tensor.clone() for name, tensor in weights(model).items()}
    with pytest.raises(UserError, match=r"bias is \(3,\), the model expects \(2,\)"):
        set_weights(model, {"weight": torch.ones(2, 2), "bias": torch.ones(3)}, "a file")
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights(model).items())


def test_checkpoints_without_checksums_load(own_run: Path) -> None:
    for path in own_run.glob("checkpoints/*/checksums.sha256"):
        path.unlink()
    train(own_run, {"training.steps": 9}, resume=True)
