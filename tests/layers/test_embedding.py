"""Embeddings, readouts, and one table for both."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from families import FACTS, transformer
from transduce.core import config
from transduce.core.protocols import Model
from transduce.core.types import Facts, Padded
from transduce.layers.modules.embedding import Readout, TokenEmbedding
from transduce.models.weights import weights

JOINT = Facts(source_vocabulary=9, target_vocabulary=9)


def build(tie: str, facts: Facts = JOINT) -> Any:
    return config.build(transformer(tie=tie), Model, facts, "model")


def test_an_embedding_is_a_row_of_its_table() -> None:
    ids = torch.tensor([[3, 0], [7, 3]])
    plain, scaled = TokenEmbedding(9, 16, scaled=False), TokenEmbedding(9, 16, scaled=True)
    assert_close(plain(ids), plain.weight[ids])
    assert_close(scaled(ids), scaled.weight[ids] * 4)


@pytest.mark.parametrize(
    "module", [TokenEmbedding(2000, 64, scaled=False), Readout(64, 2000)], ids=["embedding", "readout"]
)
def test_tables_are_drawn_from_a_normal_distribution(module: Any) -> None:
    """128,000 draws of N(0, 1/64): their mean and deviation lie within five standard errors of it."""
    draws = module.weight.detach()
    assert abs(draws.mean()) < 5 * 64**-0.5 / draws.numel() ** 0.5
    assert draws.std() == pytest.approx(64**-0.5, rel=5 * (2 * draws.numel()) ** -0.5)


def test_candidates_are_columns_in_the_order_asked() -> None:
    readout = Readout(5, 9).double()
    with torch.no_grad():
        readout.bias.uniform_()
    features, wanted = torch.randn(2, 3, 5, dtype=torch.float64), torch.tensor([8, 1, 1])
    whole = readout(features)
    assert_close(whole, features @ readout.weight.T + readout.bias)
    assert_close(readout(features, wanted), whole[..., wanted])


@pytest.mark.parametrize(("tie", "tables"), [("none", 3), ("target", 2), ("embeddings", 2), ("all", 1)])
def test_tied_tables_are_one_parameter(tie: str, tables: int) -> None:
    model = build(tie)
    encoder, decoder = model.encoder.embedding, model.decoder.embedding
    assert (model.decoder.projection.weight is decoder.weight) is (tie in ("target", "all"))
    assert (encoder.weight is decoder.weight) is (tie in ("embeddings", "all"))
    assert len({id(p) for p in model.parameters() if p.shape == (9, 8)}) == tables
    assert sum(tensor.shape == (9, 8) for tensor in weights(model).values()) == tables  # also saved once


def test_a_tied_table_learns_from_all_its_uses() -> None:
    source, tokens = Padded(torch.tensor([[4, 5, 2]]), torch.tensor([3])), torch.tensor([[1, 4]])
    gradients: dict[str, list[torch.Tensor]] = {}
    for tie in ("all", "none"):
        model = build(tie).double().eval()
        decoder = model.decoder
        if tie == "all":
            tied = model.state_dict()
        model.load_state_dict(tied)  # the tied table, under each of its names
        output, _ = model.extend(tokens, model.start(source))
        model.readout(output).logsumexp(-1).sum().backward()
        gradients[tie] = [
            table.weight.grad for table in (model.encoder.embedding, decoder.embedding, decoder.projection)
        ]
    assert_close(gradients["all"][0], torch.stack(gradients["none"]).sum(0))
    assert all(gradient.any() for gradient in gradients["none"])


def test_unequal_tables_are_not_tied() -> None:
    for tie in ("embeddings", "all"):
        with pytest.raises(ValueError, match=r"source embedding.*\(9, 8\) and \(11, 8\).*joint"):
            build(tie, FACTS)
    table = transformer(tie="all") | {"encoder": transformer()["encoder"] | {"width": 16}}
    with pytest.raises(ValueError, match=r"\(9, 16\) and \(9, 8\)"):
        config.build(table, Model, JOINT, "model")
