"""The parts of a run directory one by one: names, limits, ranks, checksums and their errors. Nothing is trained."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from torch import nn

from transduce.core.errors import UserError
from transduce.models.weights import save_tensors
from transduce.runs import checkpoints, code, packed
from transduce.runs.ancestry import Distillation, Init, Parent, Part, check_parents, parents
from transduce.runs.checkpoints import Rank, best_rank, has_checkpoint, read_tensors, saved_step
from transduce.runs.code import Code
from transduce.runs.from_model import check_empty
from transduce.runs.history import append_history, directories, read_history
from transduce.runs.hub import Address
from transduce.runs.layout import LOCK, SET_ASIDE, find_weights, foreign_files, members, no_run, seeds
from transduce.runs.loading import _engine_for, check_exported, check_on_cpu, exported, load
from transduce.runs.lock import wait_until_free
from transduce.runs.manifest import Manifest, find_export
from transduce.runs.manifest import foreign_files as foreign_files_of_an_export
from transduce.runs.offline import is_foreign, strings
from transduce.runs.optimizer_state import _fits
from transduce.runs.own_pairs import OwnPairs
from transduce.runs.recent_weights import average_recent, forget_recent, keep_recent, recent_steps
from transduce.runs.run import Run, _candidates
from transduce.runs.training_state import State, read_fingerprints, read_state

NAN, INF = math.nan, math.inf


# ------------------------------------------------------------ where a run comes from


def test_the_settings_of_parents_have_limits() -> None:
    with pytest.raises(UserError, match=r"init\.parts\.into is empty"):
        Part(Path("run"), "")
    assert (Part(Path("run"), "decoder").taken, Part(Path("run"), "decoder", "language").taken) == (
        "decoder",
        "language",
    )
    for share in (0.0, 0.5, 0.99):
        assert Init(Path("run"), keep_old=share).keep_old == share
    for share in (-0.1, 1.0, 1.5, NAN):
        with pytest.raises(UserError, match=r"init\.keep_old = .*: from 0 to below 1 was expected"):
            Init(Path("run"), keep_old=share)
    part = Part(Path("run"), "encoder", vocabulary="own")
    with pytest.raises(UserError, match=r"init\.keep_old = 0\.5"):
        Init(parts=(part,), keep_old=0.5)
    with pytest.raises(UserError, match=r"both init.run and init.parts are set: a run for the whole model"):
        Init(Path("run"), parts=(part,))
    for nothing in (None, ()):
        with pytest.raises(UserError, match=r"neither init.run nor init.parts is set"):
            Init(parts=nothing)
    assert Init(Path("run")).keeps_vocabulary
    assert not Init(Path("run"), vocabulary="own").keeps_vocabulary
    assert not Init(parts=(part,)).keeps_vocabulary
    assert Init(parts=(part, Part(Path("run"), "decoder"))).keeps_vocabulary
    assert (Distillation(Path("t")).share, Distillation(Path("t")).room) == (0.5, 1.0)
    assert Distillation(Path("t"), share=1, room=0).room == 0
    for share in (0.0, -0.5, 1.01, NAN):
        with pytest.raises(UserError, match=r"share = .*: more than 0 and at most 1 was expected"):
            Distillation(Path("t"), share=share)
    for room in (-0.1, NAN):
        with pytest.raises(UserError, match=r"room = .*: 0 GiB"):
            Distillation(Path("t"), room=room)


def test_parents_are_those_that_settings_name(tmp_path: Path) -> None:
    assert parents(None, None) == []
    part = Part(Path("b"), "encoder", checkpoint="last")
    assert parents(Init(parts=(part,)), None) == [Parent("init.parts.run", Path("b"), "last")]
    taught = parents(Init(Path("a+b"), "average"), Distillation(Path("c"), "last"))
    assert [(each.key, each.run.name, each.checkpoint) for each in taught] == [
        ("init.run", "a", "average"),
        ("init.run", "b", "average"),
        ("distillation.teacher", "c", "last"),
    ]
    weights = tmp_path / "run" / "checkpoints" / "best" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    for file in (weights, tmp_path / "run" / "config.toml"):
        file.touch()
    needed = [Parent("init.run", tmp_path / "run", "best")]
    check_parents(needed, [tmp_path / "other"])
    with pytest.raises(UserError, match=r"init.run is .*/run, which overwrite would delete"):
        check_parents(needed, [tmp_path / "other", tmp_path / "x" / ".." / "run"])
    with pytest.raises(FileNotFoundError, match=r"has no checkpoint 'last'.*; it has: best"):
        check_parents([Parent("init.run", tmp_path / "run", "last")], [])


# ------------------------------------------------------------ names in a run directory


def test_systems_and_members_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert seeds(Path("a")) == [Path("a")]
    assert seeds(Path("a,b")) == [Path("a"), Path("b")]
    assert members("a+b") == [Path("a"), Path("b")]
    for wrong in ("a,", "a,a", ",a"):
        with pytest.raises(UserError, match="different ones were expected before and after each comma"):
            seeds(Path(wrong))
    with pytest.raises(UserError, match="a run directory was expected before and after each"):
        members("a+")
    for name in ("a,b", "a+b"):
        (tmp_path / name).mkdir()
    assert seeds(Path("a,b")) == [Path("a,b")]
    assert members("a+b") == [Path("a+b")]


def test_foreign_files_are_those_of_no_run(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in (
        "config.toml",
        "metrics.jsonl.new",
        "tokenizers.old",
        ".last-0123abcd",
        "thesis.tex",
        "data/train.jsonl",
    ):
        (tmp_path / name).touch()
    assert foreign_files(tmp_path) == [".last-0123abcd", "thesis.tex"]
    for name in ("data/mine.tsv", "data/.valid.jsonl-01234567"):
        (tmp_path / name).touch()
    assert foreign_files(tmp_path) == [".last-0123abcd", "data/mine.tsv", "thesis.tex"]


def test_what_is_no_run_is_told(tmp_path: Path) -> None:
    assert "train one with" in str(no_run(tmp_path))
    assert "is the file of an engine" in str(no_run(tmp_path / "a.engine"))
    with pytest.raises(FileNotFoundError, match="is no run directory"):
        find_weights(tmp_path, "best")
    (tmp_path / "config.toml").touch()
    with pytest.raises(FileNotFoundError, match=r"has no checkpoint 'best'.*it has: none yet"):
        find_weights(tmp_path, "best")
    check_empty(tmp_path / "new")
    (tmp_path / "empty").mkdir()
    check_empty(tmp_path / "empty")
    for full in (tmp_path, tmp_path / "config.toml"):
        with pytest.raises(UserError, match="exists and is not empty"):
            check_empty(full)


def test_a_run_in_a_pack_is_foreign(tmp_path: Path) -> None:
    folder = tmp_path / "pack" / "language-models" / "lm"
    folder.mkdir(parents=True)
    assert not is_foreign(folder)
    (tmp_path / "pack" / "pack.json").touch()
    assert all(map(is_foreign, (folder, folder.parent, tmp_path / "pack")))
    assert not is_foreign(folder / "checkpoints")
    assert strings({"a": [1, {"b": "x"}], "c": None}) == ["1", "x", "None"]


def test_an_earlier_run_is_opened_until_the_new_one_has_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, earlier = tmp_path / "run", tmp_path / "run.replaced"
    for folder in (new, earlier):
        folder.mkdir()
        (folder / "config.toml").write_text("[data]\n[model]\n")
    (earlier / SET_ASIDE).touch()
    checkpoints.save_weights_alone(earlier / "checkpoints" / "best", nn.Linear(1, 1), {"step": 1}, {})
    assert Run.open(new).path == earlier
    checkpoints.save_weights_alone(new / "checkpoints" / "best", nn.Linear(1, 1), {"step": 1}, {})
    assert Run.open(new).path == new
    monkeypatch.chdir("/")
    with pytest.raises(FileNotFoundError, match="is no run directory"):
        Run.open("/")


def test_pairs_that_a_run_keeps_are_found_by_their_name(tmp_path: Path) -> None:
    own = tmp_path / "data" / "train.jsonl"
    assert list(_candidates(Path("/old/run/data/train.jsonl"), tmp_path, "train")) == [own]
    for other in ("/old/run/data/valid.jsonl", "/old/run/train.jsonl"):
        assert list(_candidates(Path(other), tmp_path, "train")) == []


def test_a_wait_ends_when_a_run_is_free_or_the_time_is_over(tmp_path: Path) -> None:
    wait_until_free(tmp_path / "none", 0)
    with FileLock(tmp_path / LOCK):
        wait_until_free(tmp_path, 0)
    wait_until_free(tmp_path, 0)
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


# ------------------------------------------------------------ checkpoints


def test_ranks_are_compared() -> None:
    first = Rank("loss", 2.0, 3.0)
    assert first.better_than(None)
    assert not first.better_than(first)
    assert Rank("loss", 2.0, 2.9).better_than(first)
    assert not Rank("loss", 2.0, 3.1).better_than(first)
    assert Rank("loss", 1.9, 9.0).better_than(first)
    assert not Rank("loss", 2.1, 0.0).better_than(first)
    assert Rank("bleu", 9.0, 9.0).better_than(first)
    for value, loss in ((NAN, 1.0), (1.0, INF)):
        assert Rank("bleu", value, loss).better_than(None)
    assert not Rank("bleu", NAN, INF).better_than(None)


def test_a_checkpoint_has_checksums_a_state_and_texts(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "best"
    assert not has_checkpoint(tmp_path)
    assert saved_step(folder) == 0
    assert best_rank(tmp_path / "checkpoints") is None
    model = nn.Linear(2, 1)
    checkpoints.save_weights_alone(folder, model, {"step": 7, "rank": None}, {"note.txt": "ü"})
    assert sorted(path.name for path in folder.iterdir()) == [
        "checksums.sha256", "model.safetensors", "note.txt", "state.json",
    ]  # fmt: skip
    assert (folder / "note.txt").read_bytes() == "ü".encode()
    assert (saved_step(folder), best_rank(tmp_path / "checkpoints")) == (7, None)
    assert has_checkpoint(tmp_path)
    lines = (folder / "checksums.sha256").read_text().splitlines()
    assert [len(line.split("  ")[0]) for line in lines] == [64] * 3
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    assert read_tensors(folder / "other.safetensors").keys() == {"weight", "bias"}  # it is not listed
    save_tensors({"weight": torch.zeros(1)}, folder / "model.safetensors")
    with pytest.raises(UserError, match=r"model\.safetensors is damaged: its checksum differs"):
        read_tensors(folder / "model.safetensors")
    (folder / "state.json").write_text('{"rank": {"measure": "loss", "value": 1, "loss": 2}}')
    assert best_rank(tmp_path / "checkpoints") == Rank("loss", 1, 2)
    (folder / "state.json").write_text("damaged")
    assert saved_step(folder) == 0


def test_recent_weights_are_averaged_and_forgotten(tmp_path: Path) -> None:
    assert recent_steps((1, 2, 3), 4, 3) == (2, 3, 4)
    assert recent_steps((1, 2), 1, 5) == (2, 1)
    model = nn.Linear(1, 2)
    model.counts = nn.Parameter(torch.zeros((), dtype=torch.long), requires_grad=False)
    for step, value in ((1, 1.0), (2, 2.0), (3, 6.0)):
        with torch.no_grad():
            model.weight.fill_(value)
            model.counts.fill_(step)
        keep_recent(tmp_path, model, step)
    mean = average_recent(tmp_path, (1, 2, 3))
    assert mean["weight"].tolist() == [[3.0], [3.0]]
    assert mean["weight"].dtype == torch.float64
    assert mean["counts"].item() == 1
    forget_recent(tmp_path, (2, 3))
    assert sorted(path.name for path in (tmp_path / "recent").iterdir()) == ["2.safetensors", "3.safetensors"]


def test_a_state_without_training_is_at_the_beginning(tmp_path: Path) -> None:
    state = State()
    assert (state.step, state.tokens, state.part, state.events, state.stale) == (0, 0, 1.0, 0, 0)
    assert (state.place.epoch, state.best, state.start, state.curve, state.recent) == (0, None, None, (), ())
    assert (state.seconds, state.validating, state.reserve, state.best_step, state.validated_step) == (0, 0, 0, 0, 0)
    assert read_fingerprints(tmp_path) is None
    (tmp_path / "state.json").write_text('{"format": 2}')
    with pytest.raises(UserError, match="has format 2, and this version of transduce goes on with 1"):
        read_state(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", '"text"', '{"best": 7}', '{"format": 1, "best": 7}'])
def test_a_damaged_state_is_told(content: str, tmp_path: Path) -> None:
    for name, read in (("state.json", read_state), ("fingerprints.json", read_fingerprints)):
        (tmp_path / name).write_text(content)
        with pytest.raises(UserError, match=f"{name} is .*damaged"):
            read(tmp_path)


# ------------------------------------------------------------ history, code, pairs


def test_a_history_is_read_without_lines_that_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_history(tmp_path) == []
    for number, folder in enumerate(("a", "b", "a")):
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        append_history(tmp_path, number, "cpu", "other data" if number else None)
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write('[1]\n{"step": 4, "direc')
    found = read_history(tmp_path)
    assert [each["step"] for each in found] == [0, 1, 2]
    assert [each.get("data") for each in found] == [None, "other data", "other data"]
    assert found[0]["command"] == sys.argv
    assert directories(tmp_path) == [tmp_path / "a", tmp_path / "b"]


def test_code_is_clean_if_nothing_differs() -> None:
    assert Code().clean is None
    assert Code("0123").clean is True
    assert Code("0123", ("a.py",)).clean is False


def test_the_code_of_a_checkout_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> None:
        own = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a"]
        subprocess.run([*own, *arguments], check=True, capture_output=True)

    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setattr(code, "SOURCE", package)
    assert Code.find() == Code()
    git("init")
    git("commit", "--allow-empty", "--message=others")
    (package / "a.py").write_text("1")
    assert Code.find() == Code(), "the package is in the checkout of another project"
    git("add", ".")
    git("commit", "--message=own")
    found = Code.find()
    assert found.clean
    assert len(found.commit or "") == 10
    for name in ("a.py", "b.py"):
        (package / name).write_text("2")
    assert Code.find() == Code(found.commit, ("package/a.py", "package/b.py"))


def test_pairs_are_held_out(tmp_path: Path) -> None:
    pairs = [(f"s{number}", f"t{number}") for number in range(1, 6)]
    found = OwnPairs.split(pairs, 2)
    assert [json.loads(line)["source"] for line in found.lines["train"]] == ["s1", "s3", "s5"]
    assert [json.loads(line) for line in found.lines["valid"]] == [
        {"source": "s2", "target": "t2"},
        {"source": "s4", "target": "t4"},
    ]
    assert not found.targets_only
    for held_out in (None, 6):
        assert OwnPairs.split(pairs, held_out).lines.keys() == {"train"}
    assert [len(lines) for lines in OwnPairs.split(pairs, 5).lines.values()] == [4, 1]
    alone = OwnPairs.split([("", "ü"), ("", "b")], None)
    assert (alone.targets_only, alone.lines["train"]) == (True, ['{"target": "ü"}', '{"target": "b"}'])
    assert alone.settings(tmp_path) == {
        "columns": {"target": "target"},
        "train": {"path": str(tmp_path / "data" / "train.jsonl")},
    }
    alone.write(tmp_path)
    assert (tmp_path / "data" / "train.jsonl").read_text(encoding="utf-8") == '{"target": "ü"}\n{"target": "b"}\n'
    with pytest.raises(UserError, match="pairs is empty"):
        OwnPairs.split([], None)
    wrong: Any
    for wrong in (("a",), ("a", 1), "ab", ("a", "b", "c"), {"a", "b"}):
        with pytest.raises(UserError, match=r"pair 2 = .*: two texts were expected, \(source, target\)"):
            OwnPairs.split([("a", "b"), wrong], None)


# ------------------------------------------------------------ packed runs and exports


def test_the_limits_of_a_packed_run() -> None:
    least = dict.fromkeys(packed.NEEDED, 1)
    packed.check_names(least, "it")
    most = {"README.md": 4, "config.toml": 1, "checkpoints/best/checksums.sha256": 1, "pack.json": 512}
    packed.check_names(least | {name: size * 2**20 for name, size in most.items()}, "it")
    packed.check_names(least | {"checkpoints/best/model.safetensors": 2**36}, "it")
    for name, size in most.items():
        with pytest.raises(UserError, match=f"it: {name} has [0-9,]+ bytes, more than a packed run may have"):
            packed.check_names(least | {name: size * 2**20 + 1}, "it")
    with pytest.raises(UserError, match="more than a packed run may have"):
        packed.check_names(least | {"checkpoints/best/model.safetensors": 2**36 + 1}, "it")
    many = least | {f"language-models/{number}/config.toml": 1 for number in range(195)}
    packed.check_names(many, "it")
    with pytest.raises(UserError, match="it has 201 files, and a packed run has at most 200"):
        packed.check_names(many | {"README.md": 1}, "it")
    for name in packed.NEEDED:
        with pytest.raises(UserError, match=f"it is no packed run: it has no {name}; make one"):
            packed.check_names({each: 1 for each in least if each != name}, "it")


def test_packed_files_are_unpacked_into_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert packed.cache() == tmp_path / "caches" / "transduce"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert packed.cache() == tmp_path / ".cache" / "transduce"


def test_an_address_of_the_hub_has_a_revision_or_none() -> None:
    assert Address.of("hf:a/b") == Address("a/b")
    assert Address.of("hf:a/b@main") == Address("a/b", "main")
    assert [str(Address.of(text)) for text in ("hf:a/b", "hf:a/b@v1")] == ["hf:a/b", "hf:a/b@v1"]


def test_an_export_has_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"is no export: it has no export\.json"):
        Manifest.read(tmp_path)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "weights").write_text("1")
    Manifest("native", "float32", "abc", "best").write(tmp_path)
    found = Manifest.read(tmp_path)
    assert list(found.files) == ["inner/weights"]
    assert foreign_files_of_an_export(tmp_path) == []
    (tmp_path / "mine").touch()
    assert foreign_files_of_an_export(tmp_path) == ["mine"]
    (tmp_path / "inner" / "weights").write_text("2")
    assert Manifest.read(tmp_path, checked=False) == found
    with pytest.raises(UserError, match="weights is damaged: its checksum is not that of"):
        Manifest.read(tmp_path)
    (tmp_path / "inner" / "weights").unlink()
    with pytest.raises(UserError, match="is incomplete: inner/weights is missing"):
        Manifest.read(tmp_path)
    record = json.loads((tmp_path / "export.json").read_text())
    for change, told in (
        ({"format": 2}, "has format 2, and this version reads 1"),
        ({"engine": "torch"}, "is damaged \\(engine 'torch'\\)"),
        ({"files": []}, "is damaged"),
        ({"other": 1}, "is damaged"),
    ):
        (tmp_path / "export.json").write_text(json.dumps(record | change))
        with pytest.raises(UserError, match=told):
            Manifest.read(tmp_path, checked=False)


def test_the_export_that_an_engine_runs(tmp_path: Path) -> None:
    run, export = tmp_path / "run", tmp_path / "run" / "exports" / "onnx"
    with pytest.raises(UserError, match="engine 'abc': torch, native, onnx, ctranslate2 were expected"):
        find_export(run, "abc")
    for engine in (None, "torch", "native"):
        assert find_export(run, engine) is None
    with pytest.raises(UserError, match="has no export for onnx: make it with"):
        find_export(run, "onnx")
    export.mkdir(parents=True)
    Manifest("onnx", "float32", "abc", "best").write(export)
    assert find_export(run, "onnx") == export
    assert find_export(run, "onnx", "int8") is None
    assert find_export(export, None) == find_export(export, "onnx") == export
    with pytest.raises(UserError, match="is an export for onnx: leave --engine native out"):
        find_export(export, "native")
    Manifest("marian", "float32", "abc", "best").write(export)
    with pytest.raises(UserError, match="is an export for Hugging Face's transformers"):
        find_export(export, None)
    (export / "export.json").write_text("{}")
    with pytest.raises(UserError, match=r"export\.json is damaged"):
        find_export(export, None)


def test_a_run_is_loaded_for_the_device_that_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="device 'abacus': expected cpu, cuda"):
        load(tmp_path, device="abacus")


def test_an_export_of_another_checkpoint_is_refused(tmp_path: Path) -> None:
    Manifest("onnx", "float32", "abc", "best").write(tmp_path)
    with pytest.raises(UserError, match="was made of the checkpoint best, not last: export it"):
        exported(tmp_path / "run", tmp_path, "last")


def test_an_optimizer_keeps_numbers_and_factors_of_a_parameter() -> None:
    parameter = torch.zeros(2, 3, 2)  # as a matrix, 2 rows of 6 columns
    for shape in ((2, 3, 2), (), (2, 6), (1, 6), (2, 1)):
        assert _fits(torch.zeros(shape), parameter)
    for shape in ((3, 6), (2, 7), (2,), (1, 1, 1)):
        assert not _fits(torch.zeros(shape), parameter)
    assert not _fits(torch.zeros(2, 1), parameter, factors=False)
    assert not _fits(torch.zeros(1, 1), torch.zeros(7)), "only a matrix has factors"


def test_the_engine_of_a_precision() -> None:
    for engine in (None, "torch", "native", "onnx"):
        assert _engine_for("float32", engine) == engine
    assert _engine_for("bfloat16", None) is None
    assert _engine_for("int8", None) == _engine_for("int8", "native") == "native"
    for precision in ("bfloat16", "float16"):
        with pytest.raises(UserError, match=f"precision '{precision}': the native engine has float32 and int8"):
            _engine_for(precision, "native")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="precision 'int8': this is set when a run is exported"):
        _engine_for("int8", "onnx")
    with pytest.raises(UserError, match="precision 'int8' is for the native engine, and not for 'torch'"):
        _engine_for("int8", "torch")
    check_exported("float32")
    with pytest.raises(UserError, match="precision 'bfloat16': this is set when a run is exported"):
        check_exported("bfloat16")
    for device in ("auto", "cpu"):
        check_on_cpu(device, "an export")
    with pytest.raises(UserError, match="device 'cuda': an export runs on the cpu"):
        check_on_cpu("cuda", "an export")
