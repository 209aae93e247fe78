"""What the wing syntax adds to test_embedding.py."""

from __future__ import annotations

import pytest
import torch

from transduce.core.errors import UserError
from transduce.layers.modules.embedding import TokenEmbedding
from transduce.wings.syntax.factors import SummedFactors


@pytest.mark.parametrize("beyond", [9, 1000, -1])
def test_an_id_beyond_the_table_is_named(beyond: int) -> None:
    with pytest.raises(UserError, match=f"id {beyond} is outside an embedding of 9 vectors: ids from 0 to 8 were"):
        TokenEmbedding(9, 16, scaled=True)(torch.tensor([[3, beyond]]))
    with pytest.raises(UserError, match=f"id {beyond} is outside an embedding of 9 vectors"):
        SummedFactors(9, 16, scaled=True, source_factors=2)(torch.tensor([[[3, 5], [4, beyond]]]))
