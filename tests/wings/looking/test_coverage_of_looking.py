"""What the wing looking adds to test_coverage.py."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from families import FAMILIES, build
from transduce.answers.transducer import Transducer
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Characters
from transduce.search.greedy import Greedy
from transduce.wings.looking.inspection.attention import attention


@pytest.mark.parametrize(
    ("family", "found"),
    [
        ("bahdanau, location", ["decoder.wiring.attention"]),
        ("luong, coverage, fed", ["decoder.wiring.attention"]),
        ("luong, multi-head", ["decoder.wiring.attention.heads"]),
        ("pointer over recurrent", ["decoder.decoder.wiring.attention", "decoder.attention"]),
    ],
)
def test_the_inspector_sees_the_weights_returned(family: str, found: list[str]) -> None:
    """A tap sees the same weights as the caller of the attention, in the same order, step by step or at once."""
    letters = Characters()
    transducer = Transducer(
        build(FAMILIES[family]), Greedy(7), Tokenizers(letters.learn(["abcde"]), letters.learn(["tuvwxyz"]))
    )
    asked: dict[str, list[torch.Tensor]] = {name: [] for name in found}
    for name, seen in asked.items():
        owner = transducer.model.get_submodule(name.removesuffix(".heads"))
        owner.register_forward_hook(lambda _m, _i, out, seen=seen: seen.append(out[1]))
    shown = attention(transducer, "abcde", "vwx").weights
    assert list(shown) == found
    for name, weights_TS in shown.items():
        assert_close(weights_TS, torch.cat(asked[name], 1)[0, : len(weights_TS)].float())
