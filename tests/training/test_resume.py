"""The law *resume*: n updates are k updates, a kill, and the rest of them, to the last bit."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from torch import nn

from selection import mostly_slow
from transduce import api
from transduce.core import config
from transduce.core.config import ConfigError
from transduce.core.errors import UserError
from transduce.core.files import current_folder, replace_folder
from transduce.models.weights import load_tensors, save_tensors
from transduce.runs.layout import CHECKSUMS, OPTIMIZER
from transduce.runs.optimizer_state import kept_statistics
from transduce.runs.training_state import State, load_training, resume_point, save_training
from transduce.training.callbacks import Callback, Finished, Started, Update, Validated
from transduce.training.optimization import Adam, AdamW, Sgd

BYTES = [
    "last/model.safetensors",
    "last/optimizer.safetensors",
    "best/model.safetensors",
    "average/model.safetensors",
]


class KilledError(Exception):
    """As sudden as a kill to the loop, but the test lives on."""


class At(Callback):
    """Does something at the first report from ``step`` on."""

    def __init__(self, step: int, what: Any) -> None:
        self.step, self.what, self.finished = step, what, ""

    def on_update(self, update: Update) -> None:
        if update.step >= self.step:
            self.what()

    def on_finish(self, finished: Finished) -> None:
        self.finished = finished.reason


class Report(Callback):
    """Keeps what a run says at its start."""

    def on_start(self, started: Started) -> None:
        self.started = started


def train(run: Path, settings: Any, *callbacks: Callback, resume: bool = False) -> None:
    api.train("reverse", run, settings, resume=resume, callbacks=callbacks, device="cpu", progress=False)


def kill() -> NoReturn:
    raise KilledError


def events(run: Path) -> Counter[tuple[str, str, int]]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return Counter((record["event"], record.get("what", ""), record["step"]) for record in records)


def same_bytes(run: Path, other: Path) -> None:
    for name in BYTES:
        assert (run / "checkpoints" / name).read_bytes() == (other / "checkpoints" / name).read_bytes(), name


@pytest.mark.parametrize("step", mostly_slow([1, 2, 3, 6, 7], fast=[3, 7]))
def test_a_run_killed_at_any_update_ends_in_the_same_bytes(
    step: int, tiny: dict[str, Any], trained: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with pytest.raises(KilledError):
        train(run, tiny, At(step, kill))
    train(run, (), resume=True)
    same_bytes(run, trained)
    assert set(events(run).values()) == {1}


def test_training_is_not_the_same_whatever_its_seed(tiny: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    train(tmp_path / "run", tiny | {"training.seed": 2})
    mine, other = (run / "checkpoints" / BYTES[0] for run in (tmp_path / "run", trained))
    assert mine.read_bytes() != other.read_bytes()


@pytest.mark.slow
def test_kills_at_random_moments(tiny: dict[str, Any], tmp_path: Path) -> None:
    longer = tiny | {"training.steps": 40}
    train(tmp_path / "whole", longer)
    run, draw, killed = tmp_path / "run", random.Random(1), 0
    sets = [f"--set={key}={toml(value)}" for key, value in longer.items()]
    command = [sys.executable, "-m", "transduce", "train", "reverse", "--out", str(run), "--resume"]
    for _ in range(2):
        process = subprocess.Popen(
            [*command, "--threads=1", "--device=cpu", *sets], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for_progress(run, saved(run) + draw.randint(2, 12), process)
        time.sleep(draw.uniform(0, 0.05))
        process.kill()
        killed += process.wait() == -signal.SIGKILL
    assert killed, "every process was done before it could be killed"
    train(run, (), resume=True)
    same_bytes(run, tmp_path / "whole")
    assert set(events(run).values()) == {1}


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


def saved(run: Path) -> int:
    """The update that the last checkpoint is of; 0 while there is none, or it is being replaced."""
    try:
        return int(json.loads((run / "checkpoints" / "last" / "state.json").read_text())["step"])
    except FileNotFoundError:
        return 0


def wait_for_progress(run: Path, step: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(6000):
        if process.poll() is not None or saved(run) >= step:
            return
        time.sleep(0.01)
    pytest.fail(f"no update {step} within a minute")


@pytest.mark.parametrize(
    ("number", "error", "status"),
    [(signal.SIGTERM, SystemExit, 143), (signal.SIGINT, KeyboardInterrupt, None)],
    ids=["SIGTERM", "SIGINT"],
)
def test_signals_save_and_exit(
    number: signal.Signals,
    error: type[BaseException],
    status: int | None,
    tiny: dict[str, Any],
    trained: Path,
    tmp_path: Path,
) -> None:
    before = signal.getsignal(number)
    run, sender = tmp_path / "run", At(3, lambda: os.kill(os.getpid(), number))
    with pytest.raises(error) as caught:
        train(run, tiny, sender)
    assert status is None or getattr(caught.value, "code", None) == status
    assert sender.finished == number.name
    assert signal.getsignal(number) == before
    assert saved(run) == 3  # where it stood, not where a checkpoint was due
    train(run, (), resume=True)
    same_bytes(run, trained)


class AtValidation(Callback):
    """Sends a signal to itself at the last validation."""

    def on_validation(self, validated: Validated) -> None:
        if validated.step == 8 and validated.what == "valid":
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_at_the_last_validation_saves_too(tiny: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(SystemExit):
        train(run, tiny, AtValidation())
    same_bytes(run, trained)


def test_resuming_a_finished_run_changes_nothing(trained: Path, own_run: Path) -> None:
    written = (own_run / "tokenizers" / "source.json").stat().st_mtime_ns
    train(own_run, (), resume=True)
    assert (own_run / "tokenizers" / "source.json").stat().st_mtime_ns == written, "lost, were the disk full"
    same_bytes(own_run, trained)
    assert events(own_run) == events(trained)


def test_a_finished_run_can_be_trained_on(trained: Path, own_run: Path) -> None:
    train(own_run, {"training.steps": 10}, resume=True)
    assert saved(own_run) == 10
    steps = [step for event, _, step in events(own_run) if event == "update"]
    assert max(steps) == 10


def test_another_measure_chooses_the_best_anew(own_run: Path) -> None:
    """Exact match, of which more is better, against the loss: the numbers of the two do not compare."""
    report = Report()
    train(own_run, {"training.steps": 20, "training.validation.metrics": []}, report, resume=True)
    assert any(
        line.startswith("loss chooses the best checkpoint from here on, where exact did")
        for line in report.started.report
    )
    records = [json.loads(line) for line in (own_run / "metrics.jsonl").read_text().splitlines()]
    after = [each for each in records if each["event"] == "validation" and each["step"] > 8]
    assert after[0]["best"]
    best = json.loads((own_run / "checkpoints" / "best" / "state.json").read_text())
    assert best["loss"] == pytest.approx(min(each["loss"] for each in after), rel=1e-4)


def test_changed_settings_are_told_and_others_are_not(own_run: Path) -> None:
    report = Report()
    train(own_run, {"training.steps": 9, "training.clip": 0.5}, report, resume=True)
    told = [line for line in report.started.report if line.startswith("changed")]
    assert told == [
        "changed since the checkpoint: training.clip = 0.5 (was 1.0)",
        "changed since the checkpoint: training.steps = 9 (was 8)",
    ]


def test_a_run_keeps_its_vocabularies(own_run: Path) -> None:
    before = (own_run / "config.toml").read_bytes()
    with pytest.raises(ValueError, match=r"data\.units\.source\.type = 'words' \(was .*: a run keeps its vocabularies"):
        train(own_run, {"data.units": {"source": "words", "target": "words"}}, resume=True)
    assert (own_run / "config.toml").read_bytes() == before


def test_a_key_of_a_newer_version_is_no_other_vocabulary(own_run: Path) -> None:
    """The checkpoint is older than the key ``lowercase`` and lacks it. The run can still be resumed."""
    kept = own_run / "checkpoints" / "last" / "config.toml"
    lines = kept.read_text().splitlines(keepends=True)
    older = [line for line in lines if not line.startswith("lowercase")]
    assert len(older) < len(lines)
    kept.write_text("".join(older))
    report = Report()
    train(own_run, {"training.steps": 9}, report, resume=True)
    assert any("data.units.joint.lowercase" in line for line in report.started.report if line.startswith("changed"))


def test_settings_that_do_not_fit_the_checkpoint_leave_the_run_as_it_was(own_run: Path) -> None:
    before = (own_run / "config.toml").read_bytes()
    with pytest.raises(ValueError, match=r"model\.safetensors.*expects"):
        train(own_run, {"model.decoder.embedding_width": 10}, resume=True)
    assert (own_run / "config.toml").read_bytes() == before


def test_a_damaged_checkpoint_is_named(own_run: Path) -> None:
    path = own_run / "checkpoints" / "last" / "optimizer.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"optimizer\.safetensors is no whole safetensors file"):
        train(own_run, {"training.steps": 9}, resume=True)


def test_a_damaged_state_is_named(own_run: Path) -> None:
    path = own_run / "checkpoints" / "last" / "state.json"
    for content in (b"\xff\xfe{}", b'{"format": 1'):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"state\.json.*the file is damaged") as told:
            train(own_run, {"training.steps": 9}, resume=True)
        assert len(str(told.value)) < len(str(path)) + 150


def test_resuming_what_has_no_checkpoint_begins(tiny: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    train(tmp_path / "run", tiny, resume=True)
    same_bytes(tmp_path / "run", trained)


# ----------------------------------------------------------------- checkpoints


def network() -> nn.Module:
    """Matrices and vectors in turn, so that optimisers that sort them number them differently."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))


def stepped(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """One step; each parameter's first moment, by name."""
    model(torch.ones(1, 3)).square().sum().backward()
    optimizer.step()
    return {name: optimizer.state[parameter]["exp_avg"].clone() for name, parameter in model.named_parameters()}


def test_each_parameter_keeps_its_moments_under_another_optimizer(tmp_path: Path) -> None:
    model, other = network(), network()
    optimizer, another = Adam()(model.parameters()), AdamW()(other.parameters())
    moments = stepped(model, optimizer)
    save_training(tmp_path / "last", model, optimizer, State(), "")
    load_training(tmp_path / "last", other, another, kept_statistics(AdamW(), other))
    for name, parameter in other.named_parameters():
        assert torch.equal(another.state[parameter]["exp_avg"], moments[name])


def test_moments_of_other_shapes_are_refused(tmp_path: Path) -> None:
    model, other = network(), network()
    optimizer = Adam()(model.parameters())
    stepped(model, optimizer)
    save_training(tmp_path / "last", model, optimizer, State(), "")
    changed(tmp_path / "last", {"statistics.0.weight.exp_avg": torch.zeros(3)})
    with pytest.raises(ValueError, match=r"optimizer\.safetensors: statistics\.0\.weight\.exp_avg \(3,\) fits no"):
        load_training(tmp_path / "last", other, Adam()(other.parameters()), kept_statistics(Adam(), other))


def changed(folder: Path, changes: Mapping[str, torch.Tensor | None]) -> None:
    """Changes tensors of the optimiser's file, or removes them (None). The checksums go, as by a user's hand."""
    path = folder / OPTIMIZER
    tensors: dict[str, Any] = load_tensors(path) | changes
    save_tensors({name: tensor for name, tensor in tensors.items() if tensor is not None}, path)
    (folder / CHECKSUMS).unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"statistics.1.bias.exp_avg": None},
            r"optimizer\.safetensors has no exp_avg of 1\.bias: it is of another opt",
        ),
        ({"statistics.1.bias.exp_avg": torch.full((3,), torch.nan)}, "1.bias.exp_avg has numbers that are not finite"),
        ({"generator.cpu": None}, "the state of the random generators is missing or damaged"),
        ({"generator.cpu": torch.zeros(3)}, "the state of the random generators is missing or damaged"),
    ],
)
def test_damaged_statistics_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    model, other = network(), network()
    optimizer = Adam()(model.parameters())
    stepped(model, optimizer)
    save_training(tmp_path / "last", model, optimizer, State(), "")
    changed(tmp_path / "last", changes)
    with pytest.raises(UserError, match=message):
        load_training(tmp_path / "last", other, Adam()(other.parameters()), kept_statistics(Adam(), other))


def test_statistics_of_another_optimizer_are_refused_unless_they_are_enough(tmp_path: Path) -> None:
    model, other = network(), network()
    optimizer = Sgd(momentum=0.9)(model.parameters())
    model(torch.ones(1, 3)).square().sum().backward()
    optimizer.step()
    save_training(tmp_path / "last", model, optimizer, State(), "")
    with pytest.raises(UserError, match=r"has no exp_avg, exp_avg_sq, step of \d\.\w+: it is of another"):
        load_training(tmp_path / "last", other, Adam()(other.parameters()), kept_statistics(Adam(), other))
    load_training(tmp_path / "last", other, Sgd()(other.parameters()), kept_statistics(Sgd(), other))


def test_only_what_is_saved_is_claimed(tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full from the second best checkpoint on."""
    from transduce.training import keeper

    saves, ended, save = list[Path](), list[Finished](), keeper.save_weights_alone

    def full(folder: Path, *rest: Any) -> None:
        if folder.name == "best" and saves:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        saves.append(folder)
        save(folder, *rest)

    class End(Callback):
        def on_finish(self, finished: Finished) -> None:
            ended.append(finished)

    monkeypatch.setattr(keeper, "save_weights_alone", full)
    settings = tiny | {"training.steps": 200, "training.checkpoint_every": 5, "training.optimizer.rate": 0.01}
    with pytest.raises(OSError, match="best"):
        api.train("reverse", tmp_path / "run", settings, device="cpu", callbacks=[End()], progress=False)
    assert (ended[0].reason, ended[0].best_step) == ("OSError", 3)
    assert ended[0].step > ended[0].last_step
    assert ended[0].last_step % 5 == 0


class Counts(torch.optim.SGD):
    """An optimiser that keeps what ``kept`` says of each parameter."""

    def __init__(self, parameters: Any, kept: Any) -> None:
        super().__init__(parameters, 0.1)
        self.kept = kept

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["count"] = self.kept
        return super().step(closure)


@pytest.mark.parametrize("kept", [3, 0.5, "text", torch.zeros(7)])
def test_what_an_optimizer_may_keep_is_said_before_training(kept: Any) -> None:
    with pytest.raises(ConfigError, match=r"training\.optimizer: Counts keeps 'count' .*a checkpoint keeps tensors of"):
        kept_statistics(lambda parameters: Counts(parameters, kept), network())
    fine = kept_statistics(lambda parameters: Counts(parameters, torch.tensor(1.0)), network())
    assert fine == {(nn.Parameter, 1): {"count"}, (nn.Parameter, 2): {"count"}}


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        save_tensors({"a": torch.zeros(1)}, tmp_path / "missing" / "a.safetensors")


def leave(folder: Path, name: str, content: str) -> None:
    path = folder.with_name(folder.name + name)
    path.mkdir(parents=True)
    (path / "file").write_text(content)


@pytest.mark.parametrize(
    ("leftovers", "expected"),
    [
        ({"": "newer", ".old": "older"}, "newer"),  # before the old one was deleted
        ({".old": "older"}, "older"),  # between the two renames
        ({}, None),
    ],
)
def test_what_a_kill_leaves_is_put_in_order(leftovers: dict[str, str], expected: str | None, tmp_path: Path) -> None:
    last = tmp_path / "last"
    for name, content in leftovers.items():
        leave(last, name, content)
    if expected:  # whoever reads needs no repair
        assert (current_folder(last) / "file").read_text() == expected
    assert resume_point(tmp_path) == (last if expected else None)
    if expected:
        assert (last / "file").read_text() == expected
    assert [path.name for path in tmp_path.iterdir()] == (["last"] if expected else [])


def test_killed_while_filling_the_old_one_stays(tmp_path: Path) -> None:
    def fill(new: Path) -> None:
        write(new, "newer")
        kill()

    last = tmp_path / "last"
    replace_folder(last, lambda new: write(new, "older"))
    with pytest.raises(KilledError):
        replace_folder(last, fill)
    assert resume_point(tmp_path) == last
    assert (last / "file").read_text() == "older"


def test_killed_between_the_renames_the_old_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def only_aside(path: Path, target: Path) -> Path:
        return rename(path, target) if target.name == "last.old" else kill()

    last = tmp_path / "last"
    replace_folder(last, lambda new: write(new, "older"))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", only_aside)
        with pytest.raises(KilledError):
            replace_folder(last, lambda new: write(new, "newer"))
    assert not last.exists()
    assert (current_folder(last) / "file").read_text() == "older"
    assert resume_point(tmp_path) == last
    assert (last / "file").read_text() == "older"


def write(folder: Path, content: str) -> None:
    (folder / "file").write_text(content)


# ------------------------------------------------------------- changed data


PAIRS = [(text, text[::-1]) for text in ("ab", "cde", "fg", "h", "ijk", "lm", "nop", "q", "rst", "uv")] * 4


def own_data(folder: Path, tiny: dict[str, Any], name: str = "train.tsv") -> dict[str, Any]:
    """Settings of a run on files of its own."""
    for file, pairs in ((name, PAIRS), ("valid.tsv", PAIRS[:9])):
        (folder / file).write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    files = {"data.train.path": str(folder / name), "data.valid.path": str(folder / "valid.tsv")}
    settings = {key: value for key, value in tiny.items() if key != "data.origin"}
    return settings | files | {"data.cache": str(folder / "cache"), "training.validation.every": 2}


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda folder: append(folder / "train.tsv", "xy\tyx\n"), "train: train.tsv has 41 lines, and had 40: 1 were"),
        (lambda folder: append(folder / "valid.tsv", "xy\tyx\n"), "valid: valid.tsv has 10 lines, and had 9: 1 were"),
        (
            lambda folder: (folder / "train.tsv").write_text((folder / "train.tsv").read_text().replace("cde", "cdd")),
            "train: train.tsv has 40 lines, and had 40: the content is another",
        ),
        (
            lambda folder: (folder / "train.tsv").write_text("b\tb\n" * 50),
            "train: train.tsv has 50 lines, and had 40: the content is another",
        ),
    ],
)
def test_changed_data_are_told_and_go_on_only_on_request(
    change: Any, told: str, tiny: dict[str, Any], tmp_path: Path
) -> None:
    run, settings = tmp_path / "run", own_data(tmp_path, tiny)
    train(run, settings | {"training.steps": 3})
    kept = (tmp_path / "train.tsv").read_text()
    change(tmp_path)
    with pytest.raises(UserError, match=f"{told}.*Restore them.*--resume --new-data.*--init"):
        train(run, ["training.steps=6"], resume=True)
    assert config.flatten(config.read(run / "config.toml"))["training.steps"] == 3
    report = Report()
    api.train("reverse", run, ["training.steps=6"], resume="new-data", callbacks=[report], progress=False)
    text = "\n".join(report.started.report)
    assert f"the data have changed since the checkpoint: {told}" in text
    assert ("begins: the order of the examples is another" in text) == ("train:" in told)
    history = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    assert [told in line.get("data", "") for line in history] == [False, True]
    train(run, ["training.steps=7"], resume=True)  # these are its data now
    if "train:" in told:
        (tmp_path / "train.tsv").write_text(kept)
        with pytest.raises(UserError, match=r"train\.tsv has 40 lines"):
            train(run, ["training.steps=8"], resume=True)


def test_new_data_need_a_run_that_goes_on(call: Any) -> None:
    assert call("train", "reverse", "--new-data") == (
        2,
        "",
        "transduce: --new-data goes on with changed data: give --resume with it, or leave it out\n",
    )


def test_the_same_data_elsewhere_or_written_again_are_the_same(tiny: dict[str, Any], tmp_path: Path) -> None:
    run, settings = tmp_path / "run", own_data(tmp_path, tiny)
    train(run, settings | {"training.steps": 2})
    (tmp_path / "other").mkdir()
    (tmp_path / "train.tsv").rename(tmp_path / "other" / "train.tsv")
    report = Report()
    train(run, {"training.steps": 4, "data.train.path": str(tmp_path / "other" / "train.tsv")}, report, resume=True)
    assert "the data have changed" not in "\n".join(report.started.report)


def test_a_checkpoint_without_fingerprints_goes_on_as_before(tiny: dict[str, Any], tmp_path: Path) -> None:
    run, settings = tmp_path / "run", own_data(tmp_path, tiny)
    train(run, settings | {"training.steps": 2})
    for name in ("fingerprints.json", "checksums.sha256"):
        (run / "checkpoints" / "last" / name).unlink()
    append(tmp_path / "train.tsv", "xy\tyx\n")
    train(run, ["training.steps=4"], resume=True)
    assert (run / "checkpoints" / "last" / "fingerprints.json").exists()


def test_other_batches_begin_an_epoch(tiny: dict[str, Any], tmp_path: Path) -> None:
    """A place in an epoch means nothing if the batches are others, and there may be fewer of them."""
    run, report = tmp_path / "run", Report()
    train(run, tiny | {"training.steps": 5})
    train(run, {"training.steps": 8, "training.batching.tokens": 4000}, report, resume=True)
    assert "begins: the order of the examples is another" in "\n".join(report.started.report)
