"""Attention that remembers its earlier weights, and many heads, against loops over the papers' equations in float64."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transduce.core import tree
from transduce.core.types import Memory, Padded
from transduce.layers.modules.attention.coverage import CoverageAttention, LocationAttention
from transduce.layers.modules.attention.energies import Additive, Dot, General, ScaledDot
from transduce.layers.modules.attention.many_heads import MultiHeadAttention

ROWS, STEPS, POSITIONS, WIDTH, MEMORY = 3, 4, 6, 4, 6
LENGTHS = torch.tensor([6, 2, 5])
Array = np.ndarray


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def memory(values: torch.Tensor | None = None) -> Memory:
    return Memory(Padded(randn(ROWS, POSITIONS, MEMORY, seed=1), LENGTHS), (), None, values)


def spread(module: nn.Module) -> Any:
    """Random weights, large enough that the memory of earlier weights matters."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(-1, 1)
    return module.double().eval()


def numbers(tensor: torch.Tensor) -> Array:
    return tensor.detach().numpy()


def softmax(energies: list[float]) -> Array:
    exponentials = np.exp(np.array(energies) - max(energies))
    return exponentials / exponentials.sum()


KINDS: dict[str, Any] = {
    "location": partial(LocationAttention, energy=Additive, filters=3, kernel=5),
    "location, wider than the source": partial(LocationAttention, energy=Additive, filters=2, kernel=15),
    "location, general": partial(LocationAttention, energy=General, kernel=3),
    "coverage": partial(CoverageAttention, energy=Additive),
    "coverage, scaled dot": partial(CoverageAttention, energy=partial(ScaledDot, width=5)),
    "multi-head": partial(MultiHeadAttention, heads=2),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    return spread(KINDS[request.param](query_width=WIDTH, memory_width=MEMORY))


# -------------------------------------------------------------- step by step


def energy_of(energy: Any, query: Array, key: Array) -> float:
    """The energy of a query and a key. ``key`` is U m + b plus the features."""
    if type(energy) is Additive:
        return float(numbers(energy.score) @ np.tanh(numbers(energy.query.weight) @ query + key))
    if type(energy) is ScaledDot:
        return float(numbers(energy.query.weight) @ query @ key / np.sqrt(len(key)))
    return float(query @ key)


def key_of(energy: Any, state: Array) -> Array:
    bias = numbers(energy.key.bias) if energy.key.bias is not None else 0.0
    return numbers(energy.key.weight) @ state + bias


def location_feature(attend: Any, last: Array, s: int) -> Array:
    """U f at position s, with f = F * a (Eq. 8)."""
    filters = numbers(attend.filter.weight)[:, 0]
    reach = filters.shape[1] // 2
    window = [last[p] if 0 <= p < len(last) else 0.0 for p in range(s - reach, s + reach + 1)]
    return numbers(attend.feature.weight) @ (filters @ np.array(window))


@pytest.mark.parametrize("name", [name for name in KINDS if name != "multi-head"])
def test_what_is_remembered_enters_the_key(name: str) -> None:
    attend = spread(KINDS[name](query_width=WIDTH, memory_width=MEMORY))
    query, states = randn(ROWS, STEPS, WIDTH), memory().states.values
    context, weights, _ = attend(query, attend.start(memory()))
    for row, length in enumerate(LENGTHS.tolist()):
        last, covered = np.zeros(length), np.zeros(length)
        for t in range(STEPS):
            energies = []
            for s in range(length):
                if "location" in name:
                    feature = location_feature(attend, last, s)
                else:
                    feature = numbers(attend.feature.weight)[:, 0] * covered[s]
                key = key_of(attend.energy, states[row, s].numpy()) + feature
                energies.append(energy_of(attend.energy, query[row, t].numpy(), key))
            last = softmax(energies)
            covered = covered + last
            np.testing.assert_allclose(numbers(weights[row, t, :length]), last, atol=1e-12)
            np.testing.assert_allclose(numbers(context[row, t]), last @ states[row, :length].numpy(), atol=1e-12)


def test_many_heads_are_their_formula() -> None:
    attend = spread(MultiHeadAttention(WIDTH, MEMORY, heads=2))
    query, states, read = randn(ROWS, STEPS, WIDTH), memory().states.values, randn(ROWS, POSITIONS, MEMORY, seed=5)
    context, weights, _ = attend(query, attend.start(memory(read)))

    def linear(layer: Any, x: torch.Tensor) -> Array:
        return x.numpy() @ numbers(layer.weight).T + numbers(layer.bias)

    q, k, v = linear(attend.query, query), linear(attend.key, states), linear(attend.value, read)
    for row, length in enumerate(LENGTHS.tolist()):
        for t in range(STEPS):
            parts, shares = [], []
            for head in (slice(0, 2), slice(2, 4)):
                share = softmax([float(q[row, t, head] @ k[row, s, head] / np.sqrt(2)) for s in range(length)])
                shares.append(share)
                parts.append(share @ v[row, :length, head])
            expected = linear(attend.out, torch.from_numpy(np.concatenate(parts)))
            np.testing.assert_allclose(numbers(context[row, t]), expected, atol=1e-12)
            np.testing.assert_allclose(numbers(weights[row, t, :length]), np.mean(shares, 0), atol=1e-12)


# -------------------------------------------------------------- all of them


def test_weights_are_a_distribution_over_real_positions(kind: Any) -> None:
    context, weights, _ = kind(randn(ROWS, STEPS, WIDTH), kind.start(memory()))
    assert context.shape == (ROWS, STEPS, kind.width)
    assert_close(weights.sum(-1), torch.ones(ROWS, STEPS, dtype=torch.float64))
    assert (weights.masked_select(~memory().states.mask[:, None]) == 0).all()
    assert (weights.masked_select(memory().states.mask[:, None]) > 0).all()


def test_every_hypothesis_has_its_own_past(kind: Any) -> None:
    """Two rows share one source and have different queries. The result is as if each row had its own source."""
    query, rows = randn(2 * ROWS, STEPS, WIDTH), torch.arange(ROWS).repeat_interleave(2)
    state = tree.repeat(kind.start(memory()), 2)
    shared: list[int] = []
    tree.map(lambda leaf: leaf, state, lambda leaf: shared.append(len(leaf)) or leaf)
    assert set(shared) == {ROWS}  # no key was copied
    apart = kind.start(Memory(tree.select(memory().states, rows), (), None))
    for got, expected in zip(kind(query, state)[:2], kind(query, apart)[:2], strict=True):
        assert_close(got, expected)


def test_the_past_learns(kind: Any) -> None:
    """The loss of the last step reaches the query of the step before only through the memory."""
    query = randn(ROWS, STEPS, WIDTH).requires_grad_()
    context, _, _ = kind(query, kind.start(memory()))
    context[:, -1].square().sum().backward()
    remembers = type(kind) is not MultiHeadAttention
    assert bool((query.grad[:, -2] != 0).any()) is remembers
    assert (query.grad[:, -1] != 0).any()


def test_under_autocast_weights_stay_wide(kind: Any) -> None:
    narrow = kind.float()
    wide = Memory(Padded(randn(ROWS, POSITIONS, MEMORY).float(), LENGTHS), (), None)
    with torch.autocast("cpu", torch.bfloat16):
        _, weights, _ = narrow(randn(ROWS, STEPS, WIDTH).float(), narrow.start(wide))
    assert weights.dtype == torch.float32


def test_dropout_thins_what_many_heads_read_and_not_what_they_return() -> None:
    attend = spread(MultiHeadAttention(WIDTH, MEMORY, heads=2, dropout=0.5))
    query = randn(ROWS, STEPS, WIDTH)
    still, weights, _ = attend(query, attend.start(memory()))
    moved, same, _ = attend.train()(query, attend.start(memory()))
    assert (still != moved).any()
    assert_close(weights, same)


@pytest.mark.parametrize("energy", [Dot, General, Additive, partial(Additive, width=5), partial(ScaledDot, width=3)])
def test_an_energy_tells_the_width_of_its_keys(energy: Any) -> None:
    built = energy(query_width=WIDTH, memory_width=WIDTH)
    assert built.keys(torch.zeros(1, 2, WIDTH)).shape == (1, 2, built.key_width)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="kernel = 4: a window with a middle has an odd width; take 5"):
        LocationAttention(WIDTH, MEMORY, Additive, kernel=4)
    with pytest.raises(ValueError, match="width = 4 does not divide into heads = 3"):
        MultiHeadAttention(WIDTH, MEMORY, heads=3)
