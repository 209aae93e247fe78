"""A memory whose values are not its states: attention compares with the ones and reads the others. In float64."""

from __future__ import annotations

import torch
from torch import nn
from torch.testing import assert_close

from transduce.core.types import Memory, Padded
from transduce.layers.modules.attention.energies import General, mask_bias
from transduce.layers.modules.attention.heads import CrossAttention
from transduce.layers.modules.attention.one_head import GlobalAttention

LENGTHS, WIDTH, HEADS = torch.tensor([4, 2]), 6, 2


def randn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


QUERY, STATES, VALUES = randn(2, 3, WIDTH, seed=0), randn(2, 4, 5, seed=1), randn(2, 4, 5, seed=2)
SPLIT = Memory(Padded(STATES, LENGTHS), (), None, VALUES)


def test_values_are_the_states_unless_given() -> None:
    assert Memory(Padded(STATES, LENGTHS), (), None).read_BSD is STATES
    assert SPLIT.read_BSD is VALUES


def test_global_attention_compares_states_and_reads_values() -> None:
    attend = GlobalAttention(WIDTH, 5, General).double()
    context, _, _ = attend(QUERY, attend.start(SPLIT))
    energy = attend.energy(QUERY, attend.energy.keys(STATES)).masked_fill(~SPLIT.states.mask[:, None], -torch.inf)
    assert_close(context, torch.softmax(energy, -1) @ VALUES)


def test_cross_attention_compares_states_and_reads_values() -> None:
    attend = CrossAttention(WIDTH, 5, HEADS).double()
    nn.init.uniform_(attend.project.bias)
    oracle = nn.MultiheadAttention(WIDTH, HEADS, kdim=5, vdim=5, batch_first=True).double()
    oracle.q_proj_weight.data = attend.query.weight.data
    oracle.k_proj_weight.data, oracle.v_proj_weight.data = attend.project.weight.data.chunk(2)
    oracle.in_proj_bias.data = torch.cat([attend.query.bias, attend.project.bias]).data
    oracle.out_proj.load_state_dict(attend.out.state_dict())
    expected, _ = oracle(QUERY, STATES, VALUES, key_padding_mask=~SPLIT.states.mask)
    bias_B11S = mask_bias(SPLIT.states.mask, torch.float64)[:, None, None]
    assert_close(attend(QUERY, attend.start(SPLIT), bias_B11S), expected)
