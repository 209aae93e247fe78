"""Cold and deep fusion: a decoder that uses a language model, by its formulas and with hand-made weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from families import FACTS, JOINT, attending, copying, fused, recurrent, transformer
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.core.types import EOS, Batch, Padded
from transduce.objectives.cross_entropy import CrossEntropy

SOURCE = Padded.of([[4, 5, 6, EOS], [7, EOS]])
TARGET = Padded.of([[4, 9, EOS], [8, 10, EOS]])


def model_of(fusion: str, **options: Any) -> Any:
    torch.manual_seed(2)
    table = fused(transformer(), recurrent("plain", bridge="zero")["decoder"], fusion=fusion, **options)
    return config.build(table, Model, FACTS, "model").double().eval()


def logits_of(model: Any) -> Tensor:
    output, _ = model.extend(TARGET.values, model.start(SOURCE))
    found: Tensor = model.readout(output).detach()
    return found


def parts_of(model: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The inner decoder's features, the language model's features, and its log-probabilities."""
    memory, decoder = model.encoder(SOURCE), model.decoder
    features, _ = decoder.decoder.extend(TARGET.values, decoder.decoder.start(memory))
    alone = config.build({"type": "language-model", "decoder": LANGUAGE}, Model, FACTS, "model").double().eval()
    alone.decoder.load_state_dict(decoder.language.state_dict())
    known, _ = alone.extend(TARGET.values, alone.start(SOURCE))
    return features, known, alone.readout(known).log_softmax(-1)


LANGUAGE = recurrent("plain", bridge="zero")["decoder"]


def test_cold_fusion_is_its_formula() -> None:
    model = model_of("cold", hidden=3)
    features, _, log_p_V = parts_of(model)
    weights = dict(model.decoder.named_parameters())
    shifted = log_p_V - log_p_V.amax(-1, keepdim=True)
    h = (shifted @ weights["read.weight"].T + weights["read.bias"]).clamp(min=0)
    gate = torch.cat([features, h], -1) @ weights["gate.weight"].T + weights["gate.bias"]
    mixed = torch.cat([features, h / (1 + (-gate).exp())], -1) @ weights["mix.weight"].T + weights["mix.bias"]
    expected = model.decoder.decoder.readout(mixed.clamp(min=0))
    torch.testing.assert_close(logits_of(model), expected)


def test_deep_fusion_is_its_formula_and_starts_as_the_decoder_was() -> None:
    model = model_of("deep")
    features, known, _ = parts_of(model)
    torch.testing.assert_close(logits_of(model), model.decoder.decoder.readout(features))
    weights = dict(model.decoder.named_parameters())
    with torch.no_grad():
        weights["mix.weight"].copy_(torch.arange(weights["mix.weight"].numel()).view_as(weights["mix.weight"]) / 50)
    gate = torch.sigmoid(known @ weights["gate.weight"].T + weights["gate.bias"])
    assert gate.shape[-1] == 1
    expected = model.decoder.decoder.readout(features + (gate * known) @ weights["mix.weight"].T)
    torch.testing.assert_close(logits_of(model), expected)


@pytest.mark.parametrize("fusion", ["cold", "deep"])
def test_the_language_model_is_never_trained(fusion: str) -> None:
    model = model_of(fusion).train()
    assert model.decoder.decoder.training
    assert not any(module.training for module in model.decoder.language.modules())
    loss, _ = CrossEntropy()(model, Batch(SOURCE, TARGET, (0, 1)))
    loss.total.backward()
    trained = {name.split(".")[0] for name, p in model.decoder.named_parameters() if p.grad is not None}
    assert trained == {"decoder", "gate", "mix"} | ({"read"} if fusion == "cold" else set())


def test_a_pointer_has_no_features_to_fuse() -> None:
    inner = copying(recurrent(attending("luong", "dot")), {"type": "multi-head", "heads": 2})
    model: Any = config.build(fused(inner, LANGUAGE), Model, JOINT, "model")
    with pytest.raises(UserError, match=r"model\.decoder\.decoder: its output is PointerOutput"):
        model.extend(TARGET.values, model.start(SOURCE))
