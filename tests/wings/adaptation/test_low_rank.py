"""Low-rank adaptation: the updates are those of factors beside the weights, and the weights have them merged."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import transduce
from transduce import api
from transduce.core.errors import UserError
from transduce.runs.optimizer_state import optimizer_tensors
from transduce.training.callbacks import Callback, Update
from transduce.training.optimization import Adam, AdamW, Sgd
from transduce.wings.adaptation.low_rank import LowRank
from transduce.wings.optimisers.muon import Muon

ADAPTER = {"type": "low-rank", "rank": 2, "matrices": ["encoder.layers", "decoder.*"], "whole": ["*.projection.bias"]}


def weights(run: Path, checkpoint: str = "last", file: str = "model") -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / checkpoint / f"{file}.safetensors")


def train(run: Path, settings: Any, old: Path | None, *callbacks: Callback, resume: bool = False) -> None:
    api.train("reverse", run, settings, init=old, resume=resume, callbacks=callbacks, device="cpu", progress=False)


class Stop(Callback):
    def on_update(self, update: Update) -> None:
        if update.step >= 5:
            raise KeyError


@pytest.fixture(scope="module")
def adapted(tiny: dict[str, Any], trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("adapted") / "run"
    train(run, tiny | {"training.adapter": ADAPTER}, trained)
    return run


@pytest.mark.parametrize(
    "make",
    [Adam(0.01), AdamW(0.01), Sgd(0.002, momentum=0.9), Muon(0.05, every=3)],
    ids=lambda make: type(make).__name__,
)
def test_the_updates_are_those_of_factors_beside_the_weights(make: Any) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4)).double()
    x, y = torch.randn(9, 6).double(), torch.randn(9, 4).double()
    old = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer, _ = LowRank(rank=2, alpha=3.0, whole=("2.bias",))(model, make, None)
    matrices = [model[0].weight, model[2].weight]
    factors = [nn.Parameter(optimizer.state[each][kind].clone()) for each in matrices for kind in ("up", "down")]
    bias = nn.Parameter(old[3].clone())
    own = make([*factors, bias])
    for _ in range(20):
        (model(x) - y).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        first, last = (old[2 * n] + 1.5 * factors[2 * n] @ factors[2 * n + 1] for n in range(2))
        ((x @ first.T + old[1]).tanh() @ last.T + bias - y).square().sum().backward()
        own.step()
        own.zero_grad()
    for each, number in zip(matrices, range(2), strict=True):
        product = old[2 * number] + 1.5 * factors[2 * number] @ factors[2 * number + 1]
        torch.testing.assert_close(each.detach(), product.detach(), rtol=0, atol=1e-9)
        assert (each.detach() - old[2 * number]).abs().max() > 0.01
    torch.testing.assert_close(model[2].bias.detach(), bias.detach())
    assert torch.equal(model[0].bias, old[1])
    assert optimizer_tensors(model, optimizer)  # a checkpoint can keep the statistics of the factors


def test_a_run_has_merged_weights_and_all_others_keep_their_values(adapted: Path, trained: Path) -> None:
    old, new = weights(trained, "best"), weights(adapted)
    kept = weights(adapted, file="optimizer")
    assert {*old} == {*new}
    changed = 0
    for name, before in old.items():
        if (up := kept.get(f"statistics.{name}.up")) is not None:
            product = 8.0 * up @ kept[f"statistics.{name}.down"]
            torch.testing.assert_close(new[name], before + product, rtol=0, atol=1e-6)
            assert torch.linalg.matrix_rank(product) == min(2, *product.shape)
            changed += 1
        else:
            assert torch.equal(new[name], before) == (not name.endswith("projection.bias")), name
    assert changed > 3
    assert not any("encoder.embedding" in name for name in kept)
    sizes = [
        sum(value.numel() for key, value in each.items() if key.startswith("statistics."))
        for each in (kept, weights(trained, file="optimizer"))
    ]
    assert sizes[0] < sizes[1]
    assert transduce.load(adapted, device="cpu").predict(["abc"])


def test_a_run_that_is_killed_ends_in_the_same_bytes(
    adapted: Path, tiny: dict[str, Any], trained: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with pytest.raises(KeyError):
        train(run, tiny | {"training.adapter": ADAPTER}, trained, Stop())
    train(run, (), None, resume=True)
    for name in ("last/model", "last/optimizer", "best/model", "average/model"):
        file = f"checkpoints/{name}.safetensors"
        assert (run / file).read_bytes() == (adapted / file).read_bytes(), name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": 0}, r"training\.adapter\.rank = 0: at least 1"),
        ({"alpha": 0.0}, r"training\.adapter\.alpha = 0\.0: a finite number above 0"),
        (
            {"matrices": ["encoder.layer"]},
            r'training\.adapter\.matrices: "encoder\.layer" names no matrix.*encoder\.layers',
        ),
        ({"matrices": ["*.bias"]}, r'training\.adapter\.matrices: "\*\.bias" names no matrix'),
        ({"whole": ["*.bia"]}, r'training\.adapter\.whole: "\*\.bia" names no parameter'),
        ({"whole": ["*"]}, r"training\.adapter: no matrix is left to adapt"),
        ({"vocabulary": "own"}, r"training\.adapter: .*embedding.* starts at random values.*training\.adapter\.whole"),
        ({"init": None}, r"training\.adapter: it needs trained weights: start from a run"),
    ],
)
def test_what_cannot_be_adapted_is_refused(
    changes: dict[str, Any], message: str, tiny: dict[str, Any], trained: Path, tmp_path: Path
) -> None:
    own = {key: value for key, value in changes.items() if key not in ("init", "vocabulary")}
    more = {
        "data.origin.pairs": 119,
        "init.vocabulary": "own",
        "data.units.joint": "words",
    }
    settings = tiny | {"training.adapter": ADAPTER | own} | (more if "vocabulary" in changes else {})
    with pytest.raises(UserError, match=message):
        train(tmp_path / "run", settings, None if "init" in changes else trained)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training.adapter.rank": 3}, r"no factors .* of .*resume with training\.adapter as it was"),
        ({"training.adapter.matrices": ["decoder.*"]}, r"fits no parameter; was config\.toml changed"),
    ],
)
def test_other_factors_cannot_go_on(changes: Any, message: str, adapted: Path, tmp_path: Path) -> None:

    run = Path(shutil.copytree(adapted, tmp_path / "run"))
    with pytest.raises(UserError, match=message):
        train(run, changes | {"training.steps": 12}, None, resume=True)


def test_more_matrices_may_learn_later(adapted: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(adapted, tmp_path / "run"))
    train(run, {"training.adapter.matrices": ["*"], "training.steps": 10}, None, resume=True)
    name = "encoder.embedding.weight"
    assert not torch.equal(weights(run)[name], weights(adapted)[name])
    assert weights(run, file="optimizer")[f"statistics.{name}.up"].any()
