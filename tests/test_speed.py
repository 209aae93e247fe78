"""The speed of a run: counts of operations, timings of prediction and training, and the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from transduce import api, load
from transduce.errors import UserError
from transduce.modules.linear import linear
from transduce.runs.run import Run
from transduce.speed.prediction import Latency, Throughput, measure_latency, measure_throughput
from transduce.speed.products import counter
from transduce.speed.training import measure_training

Call = Callable[..., tuple[int, str, str]]


def counted(work: Callable[[], Any]) -> int:
    with counter() as counting:
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
    found = measure_training(Run.open(trained), seconds=2, device="cpu")
    assert found.updates > 0
    assert found.tokens_per_second > 0
    assert found.precision == "float32"
    weights = sum(p.numel() for p in load(trained).model.parameters())
    assert 2 * weights < found.operations < 12 * weights  # forward and backward, of source and target tokens
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


def test_what_cannot_be_measured_is_refused(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there are no sources"):
        measure_latency(load(trained), [])
    ngrams = {"data.origin": {"type": "reverse", "pairs": 50}, "model": {"type": "joint-ngram"}, "training.epochs": 1}
    api.train("g2p-joint", tmp_path / "run", ngrams, device="cpu", progress=False)
    with pytest.raises(UserError, match="joint-ngram is counted and makes no updates: leave out --part train"):
        measure_training(Run.open(tmp_path / "run"), 1)


@pytest.mark.usefixtures("quick_products")
def test_the_command(call: Call, trained: Path, tmp_path: Path) -> None:
    few = ("--sentences", 4, "--rounds", 1, "--requests", 2, "--split", "valid")
    status, out, err = call("benchmark", trained, *few)
    assert not status, err
    assert "12 GFLOP/s in float32" in out
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
