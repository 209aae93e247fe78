"""R-Drop: its loss by definition, whole runs, and settings that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from test_resume import At, KilledError, kill, same_bytes
from torch import Tensor, nn
from torch.testing import assert_close

from families import FAMILIES, build, sources
from transduce import api
from transduce.core.schedules import Constant
from transduce.core.types import EOS, PAD, Batch, Padded
from transduce.objectives import readout
from transduce.objectives.consistency import RDrop, divergence
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.objectives.forcing import ScheduledSampling, WordDropout
from transduce.training.callbacks import Callback, Update

LUONG, TRANSFORMER = "luong, gru, scaled dot, fed", "transformer, pre-norm"
ROWS = [[5, 4, EOS], [6, EOS], [7, 8, 4, EOS]]
WORDS = torch.tensor([word for row in ROWS for word in row])


def batch() -> Batch:
    target = torch.tensor([row + [PAD] * (4 - len(row)) for row in ROWS])
    return Batch(sources([5, 2, 4]), Padded(target, torch.tensor([3, 2, 4])), torch.arange(3))


class Overheard(nn.Module):
    """A model that keeps its logits."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.heard = model, list[Tensor]()
        self.start, self.extend = model.start, model.extend

    def readout(self, output: Any) -> Tensor:
        logits: Tensor = self.model.readout(output)
        if len(logits) > 1:  # not the call that asks only for their number
            self.heard.append(logits)
        return logits


def in_training(name: str, dropout: float) -> Any:
    torch.manual_seed(5)
    model: Any = build(FAMILIES[name], seed=1).train()
    for part in model.modules():
        if hasattr(part, "p"):
            part.p = dropout
    return model


@pytest.mark.parametrize("name", [LUONG, TRANSFORMER])
@pytest.mark.parametrize("weight", [0.0, 3.0])
def test_it_is_its_definition(name: str, weight: float) -> None:
    model = Overheard(in_training(name, dropout=0.3))
    loss, carry = RDrop(0.1, weight=weight)(model, batch(), carry="carried")
    p, q = (logits.log_softmax(-1) for logits in model.heard)
    assert len(p) == len(q) == len(WORDS)
    assert not torch.allclose(p, q), "dropout was the same twice"
    nll, smoothed = (
        sum(nn.functional.cross_entropy(each, WORDS, reduction="sum", label_smoothing=by) for each in (p, q)) / 2
        for by in (0.0, 0.1)
    )
    apart = sum(nn.functional.kl_div(*each, reduction="sum", log_target=True) for each in ((p, q), (q, p))) / 2
    assert_close(loss.parts, {"nll": nll.detach(), "divergence": apart.detach()})
    assert_close(loss.total, smoothed + weight / 2 * apart)
    assert (loss.count, carry) == (len(WORDS), "carried")
    parameters = list(model.parameters())
    expected = torch.autograd.grad(smoothed + weight / 2 * apart, parameters, allow_unused=True, retain_graph=True)
    assert_close(torch.autograd.grad(loss.total, parameters, allow_unused=True), expected)


def test_read_out_by_parts_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = in_training(TRANSFORMER, dropout=0.0)
    whole, _ = RDrop(0.1)(model, batch())
    expected = torch.autograd.grad(whole.total, list(model.parameters()), allow_unused=True)
    monkeypatch.setattr(readout, "CHUNK", 30)
    parts, _ = RDrop(0.1)(model, batch())
    assert_close(parts.total, whole.total)
    assert_close(torch.autograd.grad(parts.total, list(model.parameters()), allow_unused=True), expected)


def test_disagreement_where_words_are_ruled_out() -> None:
    """A word that both passes rule out adds nothing to the divergence. If only one pass rules out a word, the
    divergence is infinite.
    """
    p = torch.tensor([[1.0, 2.0, -torch.inf]], requires_grad=True)
    q = torch.tensor([[2.0, 1.0, -torch.inf]])
    found = divergence(p, q)
    assert_close(found, divergence(p[:, :2], q[:, :2]))
    found.backward()
    assert p.grad is not None
    assert p.grad.isfinite().all()
    assert not divergence(p, torch.zeros(1, 3)).isfinite()


def test_disagreement_is_reckoned_in_single_precision() -> None:
    logits = torch.randn(2, 50, 7)
    with torch.autocast("cpu", torch.bfloat16):
        half = divergence(*logits.bfloat16())
    assert half.dtype == torch.float32
    assert_close(half, divergence(*logits.bfloat16().float()))


def test_its_gradient_is_made_in_place_and_only_once() -> None:
    p, q = torch.randn(2, 3, 5, requires_grad=True).unbind()
    apart = divergence(p, q)
    apart.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        apart.backward()


@pytest.mark.parametrize("forcing", [WordDropout(0.5), ScheduledSampling(Constant(0.5))])
def test_each_pass_may_read_other_words(forcing: Any) -> None:
    """Without dropout, the passes disagree only because they read different words."""
    loss, _ = RDrop(forcing=forcing)(in_training(LUONG, dropout=0.0), batch())
    assert loss.parts["divergence"] > 1e-6


def test_validation_is_plain_cross_entropy() -> None:
    model = build(FAMILIES[LUONG], seed=1)
    ours, _ = RDrop(0.1, WordDropout(0.5))(model, batch())
    plain, _ = CrossEntropy(0.1)(model, batch())
    assert_close((ours.total, ours.parts), (plain.total, plain.parts))


# ------------------------------------------------------------------ whole runs

R_DROP = {"objective": {"type": "r-drop", "weight": 3.0}}


def train(run: Path, settings: dict[str, Any], *callbacks: Callback, **options: Any) -> None:
    api.train("reverse", run, settings, callbacks=callbacks, device="cpu", progress=False, **options)


@pytest.mark.slow
def test_a_killed_run_goes_on(tiny: dict[str, Any], tmp_path: Path) -> None:
    train(tmp_path / "whole", tiny | R_DROP)
    with pytest.raises(KilledError):
        train(tmp_path / "killed", tiny | R_DROP, At(3, kill))
    train(tmp_path / "killed", {}, resume=True)
    same_bytes(tmp_path / "killed", tmp_path / "whole")


def test_the_disagreement_is_told(tiny: dict[str, Any], tmp_path: Path) -> None:
    """metrics.jsonl has the divergence per target token."""
    run = tmp_path / "run"
    train(run, tiny | R_DROP | {"objective.smoothing": 0.0})
    told = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    updates = [event for event in told if event["event"] == "update"]
    for update in updates:
        assert set(update["parts"]) == {"divergence"}
        assert update["loss"] == pytest.approx(update["nll"] + 1.5 * update["parts"]["divergence"], rel=1e-4)


class Divergence(Callback):
    def __init__(self) -> None:
        self.found: list[float] = []

    def on_update(self, update: Update) -> None:
        self.found.append(update.parts["divergence"])


@pytest.mark.slow
def test_a_model_learns_to_agree_with_itself(tiny: dict[str, Any], own_run: Path, tmp_path: Path) -> None:
    """Two runs have the same start and dropout and as many updates. The divergence of the run with R-Drop is less than
    half.
    """
    settings = tiny | {"training.steps": 60, "training.optimizer.rate": 3e-3, "training.validation.every": 1000}
    at_the_end = []
    for weight in (0.0, 20.0):
        divergence = Divergence()
        objective = {"objective": {"type": "r-drop", "weight": weight}}
        train(tmp_path / f"run-{weight}", settings | objective, divergence, init=own_run)
        at_the_end.append(sum(divergence.found[-10:]))
    assert at_the_end[1] < 0.5 * at_the_end[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective.weight": -1}, r"weight = -1\.0: the weight of the divergence was expected, 0 or more"),
        ({"objective.weight": float("nan")}, r"weight: nan is not a finite number"),
        ({"objective.smoothing": 1.0}, r"smoothing = 1\.0: a share"),
        ({"distillation.teacher": "elsewhere"}, r"the objective cross-entropy, not RDrop: leave out one"),
    ],
)
def test_mistakes_leave_no_run(settings: dict[str, Any], message: str, tiny: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        train(tmp_path / "run", tiny | {"objective.type": "r-drop"} | settings)
    assert not (tmp_path / "run" / "config.toml").exists()
