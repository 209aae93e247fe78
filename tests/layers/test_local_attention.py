"""Restricted attention against full attention with a mask, and how far a layer reads."""

from __future__ import annotations

import pytest
import torch

from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.layers.modules.mixers.attention import SelfAttention
from transduce.layers.modules.mixers.local import LocalSelfAttention


@pytest.mark.parametrize("reach", [1, 3, 20])
@torch.no_grad()
def test_it_is_full_attention_with_a_band(reach: int) -> None:
    torch.manual_seed(1)
    local, full = LocalSelfAttention(8, 2, 0.0, reach).double(), SelfAttention(8, 2, 0.0).double()
    for mine, other in zip(local.parameters(), full.parameters(), strict=True):
        mine.copy_(other)
    x = Padded(torch.randn(2, 11, 8, dtype=torch.double), torch.tensor([11, 6]))
    weigh, place_S = full.heads.weigh, torch.arange(11)
    band_SS = (place_S - place_S[:, None]).abs() <= reach
    full.heads.weigh = lambda query, key, bias: weigh(query, key, bias.masked_fill(~band_SS, float("-inf")))
    full.heads.weights.register_forward_hook(lambda *_: None)  # the slow path, which calls weigh
    found, expected = local(x), full(x)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[1, :6], expected[1, :6])
    assert found.isfinite().all()


def test_a_reach_of_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="reach = 0: a position reads at least 1"):
        LocalSelfAttention(8, 2, 0.0, 0)
