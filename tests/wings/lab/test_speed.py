"""The speed of a run: counts of operations, timings of prediction and training, and the command."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from transduce import api, load
from transduce.core import config
from transduce.core.errors import UserError
from transduce.layers.modules.linear import linear
from transduce.runs.run import Run
from transduce.wings.lab.speed import limit
from transduce.wings.lab.speed.prediction import Latency, Throughput, measure_latency, measure_throughput
from transduce.wings.lab.speed.products import ProductCounter
from transduce.wings.lab.speed.report import SpeedReport
from transduce.wings.lab.speed.training import MOST_SHAPES, TrainingSpeed, count_operations, measure_training
from transduce.wings.records.machine import Machine

Call = Callable[..., tuple[int, str, str]]


def counted(work: Callable[[], Any]) -> int:
    with ProductCounter() as counting:
        work()
    return int(counting.get_total_flops())


def test_each_kernel_of_a_linear_layer_counts_the_same() -> None:
    x_NI, weight_OI = torch.randn(32, 16), torch.randn(24, 16)  # 30 rows would get rows of zeros
    with torch.no_grad():
        assert counted(lambda: linear(x_NI, weight_OI)) == 2 * 32 * 16 * 24
        onednn = torch.ops.mkldnn._linear_pointwise
        assert counted(lambda: onednn(x_NI, weight_OI, None, "none", [], "")) == 2 * 32 * 16 * 24


@pytest.mark.parametrize("backward", [False, True])
def test_a_fused_lstm_counts_its_products(backward: bool) -> None:
    lstm, x_BTD = torch.nn.LSTM(8, 12, 2, bidirectional=True, batch_first=True), torch.randn(3, 5, 8)
    forward = 2 * 3 * 5 * sum(p.numel() for p in lstm.parameters() if p.dim() == 2)
    work = (lambda: lstm(x_BTD)[0].sum().backward()) if backward else (lambda: lstm(x_BTD))
    assert counted(work) == forward * (3 if backward else 1)


def test_fused_attention_counts_its_products() -> None:
    query, key, value = (torch.randn(2, 4, length, 16, requires_grad=True) for length in (5, 7, 7))
    attend = torch.nn.functional.scaled_dot_product_attention
    forward = 2 * 2 * 4 * 5 * 7 * 32
    assert counted(lambda: attend(query, key, value)) == forward
    assert counted(lambda: attend(query, key, value).sum().backward()) == forward + 2 * 2 * 4 * 5 * 7 * 80


def test_gradients_of_parameters_alone_are_counted() -> None:
    """As the loss computes them, chunk by chunk. The module is called twice: its weight is a leaf in its own hooks."""
    layer, x_NI = torch.nn.Linear(8, 6, bias=False), torch.randn(4, 8)

    def work() -> None:
        torch.autograd.grad(layer(layer.weight).sum() + layer(x_NI).sum(), [layer.weight])

    assert counted(work) >= 2 * 2 * 4 * 8 * 6


def test_predictions_are_timed_in_rounds(trained: Path) -> None:
    found = measure_throughput(load(trained), ["abc", "de"], rounds=2)
    assert (found.sentences, len(found.seconds)) == (2, 2)
    assert found.tokens == sum(len(each[0].ids) for each in load(trained).predict(["abc", "de"]))
    assert found.operations


def test_the_median_round_decides() -> None:
    found = Throughput(10, 30, (1.0, 2.0, 9.0), 8_000_000_000)
    assert (found.sentences_per_second, found.tokens_per_second, found.gflops) == (5, 15, 4)


def test_latency_is_of_single_requests(trained: Path) -> None:
    assert len(measure_latency(load(trained), ["abc", "de"], requests=3).milliseconds) == 3
    assert Latency(tuple(range(101))).percentile(95) == 95


def test_training_leaves_the_run_as_it_is(trained: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    found = measure_training(Run.open(trained), seconds=0.2, device="cpu")
    assert found.updates > 0
    assert found.tokens_per_second > 0
    assert found.precision == "float32"
    weights = sum(p.numel() for p in load(trained).model.parameters())
    assert 2 * weights < found.operations < 12 * weights  # forward and backward, of source and target tokens
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


def test_a_validation_is_no_operation_of_training(trained: Path, tmp_path: Path) -> None:
    """A validation of many examples does not make the updates of a training larger."""
    settings = config.read(trained / "config.toml")
    found = []
    for examples in (1, 400):
        changed = {"training.steps": 2, "training.validation.examples": examples, "training.validation.times": 1}
        run = tmp_path / f"run-{examples}"
        found.append(count_operations(config.change(settings, changed), run, "cpu"))
    assert found[0] == found[1]
    assert found[0].per_token > 0
    assert len(found[0].shapes) == MOST_SHAPES


def test_the_limit_is_the_fastest_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is the best kernel and shape, not one of them, and a processor without bfloat16 has a limit too."""
    times = itertools.count()
    monkeypatch.setattr(limit, "_shortest", lambda work, clock, seconds: 1 / (1 + next(times)))
    kernels = 4 if hasattr(torch.ops.mkldnn, "_linear_pointwise") else 2
    most = kernels * (len(limit.SHAPES) + 1)  # the last kernel is the fastest one here
    assert limit.fastest_products("float32", [(3, 5, 7)]) == pytest.approx(
        max(2 * math.prod(shape) * kernels * (n + 1) for n, shape in enumerate((*limit.SHAPES, (3, 5, 7)))) / 1e9
    )
    assert next(times) == most
    monkeypatch.undo()
    monkeypatch.setattr(limit, "SHAPES", ((8, 8, 8),))
    monkeypatch.setattr(limit, "_has_bfloat16", lambda: False)
    assert limit.fastest_products("bfloat16", seconds=0) > 0
    assert len(list(limit._products((8, 8, 8), torch.bfloat16))) == 2


def test_no_share_of_the_limit_is_above_one(tmp_path: Path) -> None:
    """Also if the machine was busy while the limit was measured."""
    machine = Machine("a processor", 2, 1, ("avx2",), 10, 20)
    fast = TrainingSpeed(1000, 10, "bfloat16", 154e6)
    report = SpeedReport("run", machine, "float32", None, None, fast, 1, {"float32": 60, "bfloat16": 100})
    assert "154.0 GFLOP/s in products: 100 % of the machine's 154" in "\n".join(report.lines())
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
        from stopwatch import share_of_limit  # type: ignore[import-not-found]
    assert share_of_limit([50, 60, 154], [100, 100, 100]) == 0.6
    assert share_of_limit([154, 154, 40], [100, 100, 100]) == 1


def test_a_block_with_few_updates_is_measured_from_its_start() -> None:
    """Training in bfloat16 without instructions for it makes two updates in a block, and the table goes on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
        from stopwatch import Stopwatch
    stopwatch = Stopwatch(lambda: 0.0)
    stopwatch.marks = [(0, 100.0), (2, 150.0)]
    assert stopwatch.block(iter([30, 70, 90])).tokens_per_second == 2
    stopwatch.marks = [(0, 100.0), (10, 150.0), (12, 160.0)]  # the first ten build kernels
    assert stopwatch.block(iter([100] * 12)).tokens_per_second == 20


def test_what_cannot_be_measured_is_refused(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there are no sources"):
        measure_latency(load(trained), [])
    ngrams = {"data.origin": {"type": "reverse", "pairs": 50}, "model": {"type": "joint-ngram"}, "training.epochs": 1}
    api.train("g2p-joint", tmp_path / "run", ngrams, device="cpu", progress=False)
    with pytest.raises(UserError, match="joint-ngram is counted and makes no updates: leave out --part train"):
        measure_training(Run.open(tmp_path / "run"), 1)


@pytest.mark.usefixtures("quick_products")
def test_the_command(call: Call, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "fastest_products", lambda precision, shapes: 9.0)
    few = ("--sentences", 4, "--rounds", 1, "--requests", 2, "--split", "valid")
    status, out, err = call("benchmark", trained, *few)
    assert not status, err
    assert "9 GFLOP/s in float32" in out
    assert "sentences/s" in out
    assert "99 % within" in out
    status, out, err = call(
        "benchmark", trained, *few, "--part", "predict", "--json", "--record", tmp_path / "speed.json"
    )
    assert not status, err
    found = json.loads(out)
    assert len(found["predict"]["seconds"]) == 1
    assert "latency_ms" not in found
    assert json.loads((tmp_path / "speed.json").read_text())["tables"][0]["heading"] == f"Speed of {trained.name}"
    assert call("benchmark", trained, "--part", "fly")[::2] == (
        2,
        "transduce: --part 'fly': expected predict, latency, train\n",
    )
