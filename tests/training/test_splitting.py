"""Batches that do not fit into memory are divided, and a dry run finds how many tokens fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from selection import mostly_slow
from transduce import api
from transduce.core.errors import StoppedError, out_of_memory
from transduce.core.types import Batch, Chunk, Padded
from transduce.models.weights import load_tensors
from transduce.objectives.base import Trainable
from transduce.training.callbacks import Callback, Notice
from transduce.training.request import TrainingRequest
from transduce.training.splitting import Splitting, padded_tokens

SETTINGS = {
    "data.origin": {"type": "reverse", "pairs": 60, "longest": 6},
    "model.encoder.width": 6,
    "model.decoder.width": 12,
    "training.steps": 8,
    "training.accumulate": 2,
    "training.batching.tokens": 80,
    "training.precision": "float32",
    "training.validation.times": 0,
    "training.validation.metrics": [],
}


class Notices(Callback):
    def __init__(self) -> None:
        self.told: list[str] = []

    def on_notice(self, notice: Notice) -> None:
        self.told.append(notice.text)


def trained(run: Path, **changes: Any) -> tuple[dict[str, torch.Tensor], list[str]]:
    notices = Notices()
    settings = SETTINGS | changes | {"data.cache": str(run.parent / "cache")}
    api.train_run(TrainingRequest("reverse", run, settings), callbacks=[notices], device="cpu", progress=False)
    return load_tensors(run / "checkpoints" / "last" / "model.safetensors"), notices.told


def small_memory(monkeypatch: pytest.MonkeyPatch, most: int, late: bool = False) -> list[int]:
    """No batch of more than ``most`` padded tokens fits: the loss fails, or ``late`` the gradient, after some of it was
    added. Returns a list of the sizes that are tried.
    """
    forward, tried = Trainable.forward, list[int]()

    class Full(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(context: Any, *gradients: torch.Tensor) -> Any:
            raise torch.OutOfMemoryError("full")

    def limited(trainable: Trainable, batch: Batch, *rest: Any) -> Any:
        if trainable.training:
            tried.append(padded_tokens(batch))
        if not trainable.training or tried[-1] <= most:
            return forward(trainable, batch, *rest)
        if not late:
            raise torch.OutOfMemoryError("full")
        loss, carry = forward(trainable, batch, *rest)
        for parameter in trainable.parameters():  # as if the gradient had come this far
            parameter.grad = torch.ones_like(parameter)
        return replace(loss, total=Full.apply(loss.total)), carry  # type: ignore[no-untyped-call]

    monkeypatch.setattr(Trainable, "forward", limited)
    return tried


@pytest.mark.parametrize("late", mostly_slow([False, True], fast=[True]))
def test_a_batch_that_does_not_fit_is_divided_and_learns_the_same(
    late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, nothing = trained(tmp_path / "whole")
    tried = small_memory(monkeypatch, 25, late)
    divided, told = trained(tmp_path / "divided")
    assert max((whole[name] - divided[name]).abs().max() for name in whole) < 1e-5
    assert nothing == []
    assert told
    assert "does not fit into memory" in told[0]
    assert sum(size > 25 for size in tried) == len(told) < 5  # later batches are divided from the start
    assert len(tried) > 2 * 2 * SETTINGS["training.steps"]  # type: ignore[operator]


def test_what_cannot_be_divided_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_memory(monkeypatch, 3)
    with pytest.raises(StoppedError, match=r"a single pair of \d tokens does not fit"):
        trained(tmp_path / "run")
    batch = Batch(Padded.of([[1]] * 2), Padded.of([[4, 5]] * 2), torch.arange(2), Chunk(torch.ones(2, 1), True, False))
    with pytest.raises(StoppedError, match=r"a chunk of the text of 4 tokens.*training\.streams\.rows"):
        Splitting().too_large(batch, MemoryError())


def test_other_errors_are_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert out_of_memory(RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried"))
    assert out_of_memory(MemoryError())
    assert not out_of_memory(RuntimeError("shapes differ"))

    def broken(*_: Any) -> Any:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(Trainable, "forward", broken)
    with pytest.raises(RuntimeError, match="shapes differ"):
        trained(tmp_path / "run")


# --------------------------------------------------------------------- dry run


def rehearse(tmp_path: Path, **changes: Any) -> list[str]:
    settings = SETTINGS | changes | {"data.cache": str(tmp_path / "cache")}
    return api.dry_run(TrainingRequest("reverse", tmp_path / "run", settings), device="cpu")
