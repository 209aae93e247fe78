"""Attention in float64: energies against NumPy formulas, weights that taps see, causal masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from transduce.core import tree
from transduce.core.types import Memory, Padded
from transduce.layers.modules.attention.energies import Additive, Dot, General, ScaledDot, causal_bias, mask_bias
from transduce.layers.modules.attention.heads import CrossAttention
from transduce.layers.modules.attention.one_head import GlobalAttention
from transduce.layers.modules.mixers.attention import CausalSelfAttention, SelfAttention

ENERGIES = [Dot, General, Additive, ScaledDot]
ROWS, QUERIES, KEYS, WIDTH = 2, 3, 4, 6
LENGTHS = torch.tensor([4, 2])


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def memory(width: int = WIDTH) -> Memory:
    return Memory(Padded(randn(ROWS, KEYS, width, seed=1), LENGTHS), (), None)


def attention(energy: Any, memory_width: int = WIDTH) -> GlobalAttention:
    torch.manual_seed(0)
    return GlobalAttention(WIDTH, memory_width, energy).double()


# -------------------------------------------------------------------- energies


def matrix(parameter: torch.Tensor) -> np.ndarray:
    return parameter.detach().numpy()


def dot(energy: Any, q: np.ndarray, m: np.ndarray) -> float:
    return sum(q[i] * m[i] for i in range(len(q)))


def general(energy: Any, q: np.ndarray, m: np.ndarray) -> float:
    return q @ (matrix(energy.key.weight) @ m)


def additive(energy: Any, q: np.ndarray, m: np.ndarray) -> float:
    hidden = matrix(energy.query.weight) @ q + matrix(energy.key.weight) @ m + matrix(energy.key.bias)
    return matrix(energy.score) @ np.tanh(hidden)


def scaled_dot(energy: Any, q: np.ndarray, m: np.ndarray) -> float:
    query, key = matrix(energy.query.weight) @ q, matrix(energy.key.weight) @ m
    return (query @ key) / np.sqrt(len(query))


FORMULAS = {Dot: dot, General: general, Additive: additive, ScaledDot: scaled_dot}


@pytest.mark.parametrize(
    ("energy", "options"),
    [*((energy, {}) for energy in ENERGIES), (Additive, {"width": 5}), (ScaledDot, {"width": 5})],
)
def test_energies_are_their_formulas(energy: Any, options: dict[str, int]) -> None:
    torch.manual_seed(3)
    memory_width = WIDTH if energy is Dot else 3
    built = energy(WIDTH, memory_width, **options).double()
    query, states = randn(ROWS, QUERIES, WIDTH), randn(ROWS, KEYS, memory_width, seed=1)
    got = built(query, built.keys(states))
    for b, t, s in np.ndindex(ROWS, QUERIES, KEYS):
        expected = FORMULAS[energy](built, query[b, t].numpy(), states[b, s].numpy())
        assert got[b, t, s].item() == pytest.approx(expected, abs=1e-12)


def test_dot_refuses_unequal_widths() -> None:
    with pytest.raises(ValueError, match=r"query of 6 features with memory of 4.*'general'"):
        Dot(6, 4)


# -------------------------------------------------------------------- one head


@pytest.mark.parametrize("energy", ENERGIES, ids=lambda energy: energy.__name__)
def test_weights_are_a_distribution_over_real_positions(energy: Any) -> None:
    attend, seen = attention(energy), []
    attend.weights.register_forward_hook(lambda module, inputs, output: seen.append(output))
    context, returned, _ = attend(randn(ROWS, QUERIES, WIDTH), attend.start(memory()))
    (weights,) = seen
    assert_close(returned, weights)
    assert weights.shape == (ROWS, QUERIES, KEYS)
    assert_close(weights.sum(-1), torch.ones(ROWS, QUERIES, dtype=torch.float64))
    assert (weights[0] > 0).all()
    assert (weights[1, :, 2:] == 0).all()  # exactly 0, so that no padding leaks
    assert_close(context, torch.einsum("bts,bsd->btd", weights, memory().states.values))


def test_hypotheses_folded_into_queries_are_a_repeated_memory() -> None:
    attend, K = attention(Additive), 3
    query = randn(ROWS * K, QUERIES, WIDTH)
    folded, weights, state = attend(query, attend.start(memory()))
    assert state.value.key_BSK.shape[0] == ROWS  # nothing was copied
    repeated = tree.select(memory().states, torch.tensor([0, 0, 0, 1, 1, 1]))
    plain, repeated_weights, _ = attend(query, attend.start(Memory(repeated, (), None)))
    assert_close(folded, plain)
    assert_close(weights, repeated_weights)


def test_dropout_leaves_weights_out_of_what_is_read_in_training_alone() -> None:
    torch.manual_seed(1)
    attend = GlobalAttention(WIDTH, WIDTH, Additive, dropout=0.5).double()
    query, kept = randn(ROWS, QUERIES, WIDTH), memory()
    context, weights, _ = attend(query, attend.start(kept))
    assert not torch.equal(context, torch.einsum("bts,bsd->btd", weights, kept.states.values))
    assert_close(weights.sum(-1), torch.ones(ROWS, QUERIES, dtype=torch.float64))  # the returned weights are complete
    attend.eval()
    assert_close(attend(query, attend.start(kept))[0], torch.einsum("bts,bsd->btd", weights, kept.states.values))


def test_weights_are_never_narrower_than_float32() -> None:
    mask = torch.tensor([[True, False]])
    assert mask_bias(mask, torch.bfloat16).dtype == torch.float32
    assert mask_bias(mask, torch.float64).dtype == torch.float64
    assert mask_bias(mask, torch.float32).tolist() == [[0.0, float("-inf")]]


# ------------------------------------------------------------------ many heads


def softmax(energies: np.ndarray) -> np.ndarray:
    exponentials = np.exp(energies - energies.max())
    return exponentials / exponentials.sum()


def test_self_attention_is_its_formula_head_by_head() -> None:
    torch.manual_seed(0)
    heads, D = 2, WIDTH // 2
    attend = SelfAttention(WIDTH, heads, 0.0).double()
    x = randn(ROWS, KEYS, WIDTH)
    got = attend(Padded(x, LENGTHS))
    query, key, value = (x.numpy() @ part.T for part in np.split(matrix(attend.project.weight), 3))
    for b, length in enumerate(LENGTHS.tolist()):
        for t in range(KEYS):
            read = []
            for h in range(heads):
                part = slice(h * D, (h + 1) * D)
                weights = softmax(key[b, :length, part] @ query[b, t, part] / np.sqrt(D))
                read.append(weights @ value[b, :length, part])
            expected = matrix(attend.out.weight) @ np.concatenate(read)
            np.testing.assert_allclose(got[b, t].detach().numpy(), expected, atol=1e-12)


def test_cross_attention_folds_hypotheses_too() -> None:
    torch.manual_seed(0)
    attend, K = CrossAttention(WIDTH, 5, 3).double(), 2
    read = memory(5)
    bias = mask_bias(read.states.mask, torch.float64)[:, None, None]
    x, rows = randn(ROWS * K, QUERIES, WIDTH), torch.tensor([0, 0, 1, 1])
    folded = attend(x, attend.start(read), bias)
    assert_close(folded, attend(x, attend.start(tree.select(read, rows)), bias[rows]))


def test_taps_see_every_head_and_padding_gets_nothing() -> None:
    torch.manual_seed(0)
    attend, seen = CrossAttention(WIDTH, WIDTH, 2).double(), []
    attend.heads.weights.register_forward_hook(lambda module, inputs, output: seen.append(output))
    bias = mask_bias(memory().states.mask, torch.float64)[:, None, None]
    attend(randn(ROWS, QUERIES, WIDTH), attend.start(memory()), bias)
    (weights,) = seen
    assert weights.shape == (ROWS, 2, QUERIES, KEYS)
    assert_close(weights.sum(-1), torch.ones(ROWS, 2, QUERIES, dtype=torch.float64))
    assert (weights[1, :, :, 2:] == 0).all()


@pytest.mark.parametrize("attend", [SelfAttention, CausalSelfAttention, lambda w, h, p: CrossAttention(w, w, h, p)])
def test_a_width_that_heads_do_not_divide_is_refused(attend: Any) -> None:
    with pytest.raises(ValueError, match="width = 6 does not divide into heads = 4"):
        attend(6, 4, 0.0)


# -------------------------------------------------------------------- the past


def test_causal_bias_lets_a_query_read_up_to_its_place() -> None:
    bias = causal_bias(torch.tensor([[0, 1], [3, 4]]), 5, torch.float64)
    assert (bias == 0)[0, 0].tolist() == [[True] + [False] * 4, [True] * 2 + [False] * 3]
    assert (bias == 0)[1, 0].tolist() == [[True] * 4 + [False], [True] * 5]
    assert (bias[bias != 0] == float("-inf")).all()
