"""Muon against its algorithm, against torch's, and through a checkpoint."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from transduce.core.errors import UserError
from transduce.layers.modules.embedding import TableParameter, TokenEmbedding
from transduce.runs.optimizer_state import kept_statistics
from transduce.runs.training_state import State, load_training, save_training
from transduce.training.optimization import Adam
from transduce.wings.optimisers.muon import Muon, divided

WHOLE = Muon(rate=0.1, block=1000, every=1)


def stepped(options: Muon, *gradients: Tensor) -> list[Tensor]:
    """The steps of a matrix with these gradients."""
    matrix = nn.Parameter(torch.zeros_like(gradients[0]))
    optimizer, steps = options([matrix]), []
    for gradient in gradients:
        before, matrix.grad = matrix.detach().clone(), gradient
        optimizer.step()
        steps.append(matrix.detach() - before)
    return steps


def gradients(*shape: int) -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(shape, dtype=torch.float64) for _ in range(3)]


def paper(steps: list[Tensor]) -> list[Tensor]:
    """Jordan et al. 2024: Nesterov's momentum 0.95, and five rounds of Newton and Schulz on the whole matrix."""
    momentum, made = torch.zeros_like(steps[0]), []
    for gradient in steps:
        momentum = 0.95 * momentum + 0.05 * gradient
        x = 0.05 * gradient + 0.95 * momentum
        x = x / x.norm()
        for _ in range(5):
            square = x @ x.T
            x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
        made.append(x)
    return made


@pytest.mark.parametrize("shape", [(6, 9), (5, 11), (1, 7)])
def test_in_whole_matrices_it_is_the_papers_algorithm(shape: tuple[int, int]) -> None:
    for got, expected in zip(stepped(WHOLE, *gradients(*shape)), paper(gradients(*shape)), strict=True):
        numbers = math.sqrt(expected.numel())
        assert_close(got / got.norm(), -expected / expected.norm(), atol=1e-3, rtol=0)
        assert got.norm().item() / numbers == pytest.approx(0.2 * 0.1)  # 0.2 times the rate


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch 2.9 and later have Muon")
def test_in_whole_matrices_it_goes_torchs_way() -> None:
    matrix = nn.Parameter(torch.zeros(6, 9))
    torchs = torch.optim.Muon([matrix], 0.1, weight_decay=0.0, momentum=0.95)
    for gradient, got in zip(gradients(6, 9), stepped(WHOLE, *gradients(6, 9)), strict=True):
        before, matrix.grad = matrix.detach().clone(), gradient.float()
        torchs.step()
        step = (matrix.detach() - before).double()
        cosine = (step * got).sum() / step.norm() / got.norm()
        assert cosine > 0.995  # torch's is computed in bfloat16


def test_each_block_of_rows_is_treated_alone() -> None:
    whole = gradients(10, 8)
    got = stepped(Muon(rate=0.1, block=5, every=1), *whole)
    top, bottom = ([each[rows] for each in whole] for rows in (slice(5), slice(5, None)))
    expected = [torch.cat(pair) for pair in zip(stepped(WHOLE, *top), stepped(WHOLE, *bottom), strict=True)]
    assert_close(got, expected)


@pytest.mark.parametrize(("shape", "blocks"), [((7, 9), (2, 4, 9)), ((9, 3), (3, 3, 3)), ((4, 9), (1, 4, 9))])
def test_blocks_have_no_more_rows_than_columns(shape: tuple[int, int], blocks: tuple[int, int, int]) -> None:
    matrix = torch.arange(math.prod(shape), dtype=torch.float32).view(shape)
    found = divided(matrix, 4)
    assert found.shape == blocks
    assert_close(found.flatten(0, 1)[: shape[0]], matrix)


def test_roots_are_kept_for_some_updates() -> None:
    every = gradients(4, 6)
    fresh, kept = stepped(WHOLE, *every), stepped(dataclasses.replace(WHOLE, every=2), *every)
    assert_close(kept[0], fresh[0])
    assert (kept[1] - fresh[1]).norm() > 0.01 * fresh[1].norm()
    assert_close(kept[2], fresh[2])


def test_a_resumed_run_may_have_blocks_of_another_size() -> None:
    matrix = nn.Parameter(torch.zeros(8, 8))
    before, after = (Muon(rate=0.1, block=block, every=9)([matrix]) for block in (4, 8))
    matrix.grad = torch.randn(8, 8)
    before.step()
    after.load_state_dict({**after.state_dict(), "state": before.state_dict()["state"]})
    after.step()
    assert after.state[matrix]["roots"].shape == (8, 8)
    assert matrix.isfinite().all()


def test_tables_and_biases_have_adam_and_all_else_does_not() -> None:
    torch.manual_seed(1)
    parts = [TokenEmbedding(4, 3, scaled=False), nn.Linear(3, 3), nn.Conv1d(3, 2, 2)]
    parameters = [each for part in parts for each in part.parameters()]
    start = [each.detach().clone() for each in parameters]
    ours = Muon(rate=0.1)(parameters)
    for each in parameters:
        each.grad = torch.randn_like(each)
    ours.step()
    theirs = [nn.Parameter(each.clone()) for each in start]
    for each, own in zip(theirs, parameters, strict=True):
        each.grad = own.grad
    Adam(rate=0.1)(theirs).step()
    alike = [torch.allclose(own, other) for own, other in zip(parameters, theirs, strict=True)]
    assert alike == [each.ndim == 1 or isinstance(each, TableParameter) for each in parameters]


@pytest.mark.parametrize("field", dataclasses.fields(Muon), ids=lambda field: field.name)
def test_constants_outside_their_range_are_refused(field: dataclasses.Field[float]) -> None:
    with pytest.raises(UserError, match=f"^{field.name} = -1: .* was expected$"):
        Muon(**{field.name: -1})


def test_a_checkpoint_has_all_that_the_next_steps_need(tmp_path: Path) -> None:
    def begun() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(1)
        model = nn.Sequential(TokenEmbedding(5, 4, scaled=True), nn.Linear(4, 9), nn.Linear(9, 2))
        return model, Muon(rate=0.1, block=4, every=3)(model.parameters())

    def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
        for step in steps:
            model(torch.tensor([step, 4 - step])).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    whole, halves = begun(), begun()
    train(*whole, range(4))
    train(*halves, range(2))
    save_training(tmp_path / "last", *halves, State(), "")
    other, optimizer = begun()
    other.load_state_dict(halves[0].state_dict())
    load_training(tmp_path / "last", other, optimizer, kept_statistics(Muon(), other))
    train(other, optimizer, range(2, 4))
    for got, expected in zip(other.parameters(), whole[0].parameters(), strict=True):
        assert torch.equal(got, expected)
