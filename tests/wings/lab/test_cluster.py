"""A folder of shards on a cluster: the same bytes as ``predict``, also after a worker was killed."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from transduce import api
from transduce.cli.app import main
from transduce.compute.cluster import _call
from transduce.core.errors import StoppedError, UserError
from transduce.core.types import Example, Prediction
from transduce.training.request import TrainingRequest
from transduce.wings.lab import shards_on_cluster
from transduce.wings.lab.evaluated_shards import measured_together
from transduce.wings.lab.shards_on_cluster import ShardJob, answer_on, run_command, without_option

TINY = {
    "data.origin": {"type": "reverse", "pairs": 60, "longest": 6},
    "model.encoder.width": 6,
    "model.decoder.width": 12,
    "training.steps": 3,
    "training.validation.metrics": [],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster") / "run"
    return api.train_run(TrainingRequest("reverse", folder, TINY), device="cpu", progress=False)


def shards(folder: Path, count: int, lines: int = 5) -> Path:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number:02d}.txt").write_text("".join(f"{number + line:b}abc\n" for line in range(lines)))
    return folder


def outputs(folder: Path, names: str = "*.txt") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob(names))}


def call(monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["transduce", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code, arguments


class Future:
    def __init__(self, result: Any) -> None:
        self._result, self.cancelled = result, False

    def result(self) -> Any:
        return self._result()

    def cancel(self) -> None:
        self.cancelled = True


class Fake:
    """Stands for ``distributed.Client``. It pickles a job, and runs it here when the result is requested."""

    def __init__(self, threads: int = 1) -> None:
        self.threads, self.keys, self.futures = threads, list[str](), list[Future]()

    def nthreads(self) -> Mapping[str, int]:
        return {"tcp://worker": self.threads}

    def submit(self, function: Any, *, key: str, pure: bool, retries: int) -> Future:
        assert not pure
        assert retries > 0
        self.keys.append(key)
        self.futures.append(Future(pickle.loads(pickle.dumps(function))))
        return self.futures[-1]


def test_a_cluster_writes_the_bytes_of_predict_and_goes_on(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake()

    @contextmanager
    def connected(address: str) -> Iterator[Fake]:
        assert address == "tcp://there:1"
        yield fake

    def run_here(arguments: Sequence[str], folder: str) -> None:  # a process would take seconds
        assert folder == str(tmp_path)
        call(monkeypatch, *arguments)

    monkeypatch.setattr(shards_on_cluster, "connected", connected)
    monkeypatch.setattr(shards_on_cluster, "run_command", run_here)
    monkeypatch.chdir(tmp_path)
    shards(tmp_path / "in", 3)
    common = ("predict", run, "in", "--threads", 1, "--device", "cpu", "--format", "tsv")
    call(monkeypatch, *common, "--out", "alone")
    call(monkeypatch, *common, "--cluster", "tcp://there:1", "--out", "together")
    assert outputs(tmp_path / "alone") == outputs(tmp_path / "together")
    assert len(fake.keys) == len(set(fake.keys)) == 3
    (tmp_path / "together" / "01.txt").unlink()
    call(monkeypatch, *common, "--out", "together", "--cluster=tcp://there:1")
    assert len(fake.keys) == 4  # only the missing shard
    assert outputs(tmp_path / "alone") == outputs(tmp_path / "together")
    assert all(future.cancelled for future in fake.futures)


def pairs(folder: Path, count: int) -> Path:
    """A folder of shards with pairs, and next to it one file with all pairs."""
    folder.mkdir()
    rows = [f"{number:b}abc\t{number:b}cba\n" for number in range(4 * count)]
    folder.with_suffix(".tsv").write_text("".join(rows))
    for number in range(count):
        (folder / f"{number}.tsv").write_text("".join(rows[4 * number : 4 * number + 4]))
    return folder


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The printed JSON without its seconds."""
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {key: value for key, value in found.items() if key != "seconds"}


def test_shards_are_evaluated_like_one_file_also_on_a_cluster(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Fake()

    @contextmanager
    def connected(address: str) -> Iterator[Fake]:
        yield fake

    monkeypatch.setattr(shards_on_cluster, "connected", connected)
    monkeypatch.setattr(shards_on_cluster, "run_command", lambda arguments, _: call(monkeypatch, *arguments))
    folder = pairs(tmp_path / "in", 3)
    measures = [word for name in ("cer", "perplexity", "macro_f1") for word in ("--metric", name)]
    common = ("evaluate", run, "--threads", 1, "--device", "cpu", "--resamples", 20, *measures, "--errors")
    call(monkeypatch, *common, "--json", "--pairs", tmp_path / "in.tsv")
    whole = told(capsys)
    call(monkeypatch, *common, "--json", "--pairs", folder, "--out", tmp_path / "alone")
    assert told(capsys) == whole
    out = tmp_path / "together"
    call(monkeypatch, *common, "--json", "--pairs", folder, "--out", out, "--cluster", "tcp://there:1")
    assert told(capsys) == whole
    assert len(fake.keys) == 3
    (out / "1.tsv").unlink()
    (out / "2.tsv").write_text("")  # a damaged output
    (out / "1.tsv").write_bytes((tmp_path / "alone" / "1.tsv").read_bytes())
    monkeypatch.setattr(sys, "argv", ["transduce", *map(str, common), "--pairs", str(folder), "--out", str(out)])
    with pytest.raises(SystemExit):
        main()
    assert "2.tsv has 0 predictions for 4 examples: remove it" in capsys.readouterr().err
    (out / "2.tsv").unlink()
    call(monkeypatch, *common, "--json", "--pairs", folder, "--out", out)
    assert told(capsys) == whole
    assert outputs(tmp_path / "alone", "*.tsv") == outputs(out, "*.tsv")


def test_outputs_of_shards_may_have_line_separators_of_unicode(tmp_path: Path) -> None:
    prediction = asdict(Prediction("one\u2028two\x85three")) | {"length": 3}
    (tmp_path / "0.tsv").write_text(json.dumps(prediction, ensure_ascii=False) + "\n", encoding="utf-8")
    example = Example("source", ("one\u2028two\x85three",))
    settings, tokenizer = {"data": {"group_references": True}}, SimpleNamespace(fingerprint="")
    transducer: Any = SimpleNamespace(settings=settings, target_tokenizer=tokenizer, normalize_target=None)
    system, examples = measured_together("run", transducer, [([example], tmp_path / "0.tsv")], [])
    assert [each.text for each in system.predictions] == list(example.references)
    assert examples == [example]


def test_a_source_may_not_be_in_two_shards_if_references_are_grouped(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = pairs(tmp_path / "in", 2)
    (folder / "2.tsv").write_text("0abc\tx\n")
    for wrong, line in (
        (("--pairs", folder, "--out", tmp_path / "out"), "the source '0abc' is in the shards 0.tsv and 2.tsv"),
        (("--pairs", folder), "go together"),
        (("--pairs", folder, "--out", tmp_path / "out", "--calibration"), "need all examples"),
    ):
        monkeypatch.setattr(sys, "argv", ["transduce", "evaluate", str(run), "--device", "cpu", *map(str, wrong)])
        with pytest.raises(SystemExit):
            main()
        assert line in capsys.readouterr().err


PARTS = {  # small parts, so that there are several jobs
    "transduce.data.encoding.LINES": 16,
    "transduce.wings.counted.ngram_counts.PART": 100,
    "transduce.wings.counted.hidden_markov.estimation.ROWS": 16,
    "transduce.wings.counted.models.hidden_markov.PART": 2,
    "transduce.wings.counted.phrases.counting.PART": 64,
}
TUNING = ("iterations=1", "nbest=5", "starts=0", "rounds=1")
COUNTED = {
    "ptb-ngram": ["data.units={target={type='symbols'}}", "model.order=3", "model.prune=0.0"],
    "tagging-hmm": ["training.validation.metrics=[]"],
    "phrase-based": ["data.units={joint='words'}", "model.longest=3", *(f"tuning.{each}" for each in TUNING)],
}


def text(recipe: str, folder: Path) -> list[str]:
    """Settings for a counted model of some small files, with a separate cache."""
    (folder / "texts").mkdir(parents=True)
    suffix = "txt" if recipe == "ptb-ngram" else "tsv"
    for number in range(3):
        lines = (f"{'ab' * (line % 5)} {line % 7 + number}" for line in range(40))
        both = lines if suffix == "txt" else (f"{line} c\t{line[::-1]} d" for line in lines if line[0] != " ")
        (folder / "texts" / f"{number}.{suffix}").write_text("".join(f"{line}\n" for line in both))
    last = {"data.train.path": folder / "texts" / f"*.{suffix}", "data.valid.path": folder / "texts" / f"0.{suffix}"}
    last |= {"data.test.path": folder / "texts" / f"0.{suffix}", "data.cache": folder / "cache"}
    return [*COUNTED[recipe], *(f"{key}='{value}'" for key, value in last.items())]


def files(folder: Path) -> dict[str, bytes]:
    found = [path for path in folder.rglob("*") if path.suffix in (".npy", ".json", ".safetensors")]
    return {path.name if path.parent.name != "train" else f"train/{path.name}": path.read_bytes() for path in found}


def counted(recipe: str, folder: Path, *more: str) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Counts a model. Returns the files of the prepared data and the files of the checkpoint."""
    settings = text(recipe, folder)
    run = api.train_run(TrainingRequest(recipe, folder / "run", [*settings, *more]), device="cpu", progress=False)
    return files(folder / "cache"), files(run / "checkpoints" / "best") | {"state.json": b"times"}


def test_a_worker_of_another_version_is_refused() -> None:
    with pytest.raises(UserError, match="a worker has transduce"):
        _call(pickle.dumps(dict), str, 1, "0.0.0")


def test_one_shard_alone(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    folder, out = shards(tmp_path / "in", 3), tmp_path / "out"
    call(monkeypatch, "predict", run, folder, "--out", out, "--shard", "02.txt", "--device", "cpu")
    assert [*outputs(out)] == ["02.txt"]
    for wrong, told in (
        (("--out", out, "--shard", "9.txt"), "has no such file"),
        (("--shard", "1.txt"), "a folder of"),
    ):
        monkeypatch.setattr(sys, "argv", ["transduce", "predict", str(run), str(folder), *map(str, wrong)])
        with pytest.raises(SystemExit):
            main()
        assert told in capsys.readouterr().err


def test_workers_that_would_give_other_bytes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--nthreads 1"):
        answer_on(Fake(threads=4), [], [], tmp_path)
    with pytest.raises(UserError, match="a worker has transduce"):
        ShardJob((), ".", "0.0.0")()
    assert without_option(["a", "--cluster", "x", "b", "--cluster=y"], "--cluster") == ["a", "b"]


def test_a_command_that_fails_on_a_worker_says_why(tmp_path: Path) -> None:
    with pytest.raises(StoppedError, match=r"(?s)transduce nothing failed on a worker.*No such command"):
        run_command(["nothing"], str(tmp_path))


def test_a_folder_that_is_not_shared_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShardJob, "__call__", lambda job: "somewhere else")
    with pytest.raises(StoppedError, match="share"):
        answer_on(Fake(), ["predict"], [tmp_path / "a.txt"], tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["predict", "evaluate"])
def test_a_killed_worker_changes_no_byte(verb: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    names, given = ("*.txt", ()) if verb == "predict" else ("*.tsv", ("--pairs",))
    folder = shards(tmp_path / "in", 6, lines=100) if verb == "predict" else pairs(tmp_path / "in", 6)
    common = (verb, run, *given, folder, "--threads", 1, "--device", "cpu")
    call(monkeypatch, *common, "--out", tmp_path / "alone")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as local:
        pids = [worker.pid for worker in local.workers.values()]
        done = tmp_path / "together"

        def kill() -> None:
            while len(outputs(done, names)) < 2:
                time.sleep(0.01)
            os.kill(pids[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        call(monkeypatch, *common, "--out", done, "--cluster", local.scheduler_address)
        killer.join()
    assert outputs(tmp_path / "alone", names) == outputs(done, names)
    assert len(outputs(done, names)) == 6


@pytest.mark.slow
@pytest.mark.parametrize("recipe", COUNTED)
def test_a_killed_worker_changes_no_count(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    alone = counted(recipe, tmp_path / "alone")
    for name, value in PARTS.items():
        monkeypatch.setattr(name, value)
    monkeypatch.setattr("transduce.data.encoding.LINES", 2)  # many jobs: the worker dies while some wait
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as local:
        pid = next(iter(local.workers.values())).pid

        def kill() -> None:
            while len(local.scheduler.tasks) < 5:
                time.sleep(0.001)
            os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        found = counted(recipe, tmp_path / "together", f"data.cluster='{local.scheduler_address}'")
        killer.join()
    assert found == alone
