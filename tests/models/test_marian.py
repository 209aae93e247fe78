"""The Transformer against Hugging Face's Marian, random weights copied from it: logits, padding included.

The fast test_importing.py compares the logits of float32 too, with the weights that the import copies.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from transduce.core import config
from transduce.core.protocols import Model
from transduce.core.types import BOS, EOS, PAD, Facts, Padded

VOCABULARY, WIDTH, HEADS, HIDDEN, LAYERS = 13, 8, 2, 12, 3
SOURCE = Padded(torch.tensor([[4, 5, 6, 7, 2], [8, 9, 2, 0, 0]]), torch.tensor([5, 3]))
TARGET = torch.tensor([[1, 4, 9, 5, 7, 12], [1, 6, 3, 3, 10, 2]])
# Marian's sinusoids are sines, then cosines; the paper's and ours take turns. Every feature axis follows.
FEATURES = torch.arange(WIDTH).view(2, WIDTH // 2).T.flatten()


def marian(activation: str) -> Any:
    from transformers import MarianConfig, MarianMTModel

    settings = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=HIDDEN,
        decoder_ffn_dim=HIDDEN,
        max_position_embeddings=32,
        scale_embedding=True,
        activation_function=activation,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=BOS,
        decoder_start_token_id=BOS,
    )
    theirs: Any = MarianMTModel(settings)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if "embed_positions" not in name:
                parameter.uniform_(-0.8, 0.8)
        theirs.final_logits_bias.uniform_(-0.8, 0.8)
    return theirs.eval()


def ours_of(theirs: Any, activation: str) -> Any:
    stack = {"type": "transformer", "positions": "sinusoidal", "width": WIDTH, "layers": LAYERS, "heads": HEADS}
    stack |= {"norm": "post", "feedforward": {"type": "plain", "hidden": HIDDEN, "activation": activation}}
    table = {"type": "encoder-decoder", "encoder": stack, "decoder": stack, "tie": "all"}
    ours: Any = config.build(table, Model, Facts(VOCABULARY, VOCABULARY), "model")
    with torch.no_grad():
        ours.decoder.projection.weight.copy_(theirs.model.shared.weight[:, FEATURES])
        ours.decoder.projection.bias.copy_(theirs.final_logits_bias[0])
        for mine, layer in zip(ours.encoder.layers, theirs.model.encoder.layers, strict=True):
            copy_layer(mine, layer)
        for mine, layer in zip(ours.decoder.layers, theirs.model.decoder.layers, strict=True):
            copy_layer(mine, layer)
            read = layer.encoder_attn
            enter(mine.memory.query, read.q_proj)
            enter(mine.memory.project, read.k_proj, read.v_proj)
            leave(mine.memory.out, read.out_proj)
            norm(mine.memory_residual.norm, layer.encoder_attn_layer_norm)
    return ours.eval()


def copy_layer(mine: Any, layer: Any) -> None:
    attention = layer.self_attn
    enter(mine.mixer.project, attention.q_proj, attention.k_proj, attention.v_proj)
    leave(mine.mixer.out, attention.out_proj)
    norm(mine.mixer_residual.norm, layer.self_attn_layer_norm)
    enter(mine.feedforward.widen, layer.fc1)
    leave(mine.feedforward.narrow, layer.fc2)
    norm(mine.feedforward_residual.norm, layer.final_layer_norm)


def enter(mine: Any, *parts: Any) -> None:
    mine.weight.copy_(torch.cat([part.weight for part in parts])[:, FEATURES])
    mine.bias.copy_(torch.cat([part.bias for part in parts]))


def leave(mine: Any, part: Any) -> None:
    mine.weight.copy_(part.weight[FEATURES])
    mine.bias.copy_(part.bias[FEATURES])


def norm(mine: Any, part: Any) -> None:
    mine.weight.copy_(part.weight[FEATURES])
    mine.bias.copy_(part.bias[FEATURES])


def widen(theirs: Any) -> Any:
    """Returns the model in float64. Marian computes its positions in float32, so this recomputes them in float64."""
    theirs = theirs.double()
    places, half = torch.arange(32, dtype=torch.float64), torch.arange(WIDTH // 2, dtype=torch.float64)
    angles = places[:, None] / 10000 ** (2 * half / WIDTH)
    for side in (theirs.model.encoder, theirs.model.decoder):
        assert_close(side.embed_positions.weight.data, torch.cat([angles.sin(), angles.cos()], 1), rtol=0, atol=1e-6)
        side.embed_positions.weight.data = torch.cat([angles.sin(), angles.cos()], 1)
    return theirs


def both(theirs: Any, ours: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    with torch.inference_mode():
        out = theirs(input_ids=SOURCE.values, attention_mask=SOURCE.mask.long(), decoder_input_ids=TARGET)
        memory = ours.encoder(SOURCE)
        output, _ = ours.decoder.extend(TARGET, ours.decoder.start(memory))
        return memory.states.values, out.encoder_last_hidden_state[..., FEATURES], ours.readout(output), out.logits


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "swish", "gelu"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-8), (torch.float32, 1e-4)])
def test_logits_are_marians(activation: str, dtype: torch.dtype, tolerance: float) -> None:
    theirs = marian(activation)
    ours = ours_of(theirs, activation).to(dtype)
    if dtype == torch.float64:
        theirs = widen(theirs)
    states, their_states, logits, their_logits = both(theirs, ours)
    assert their_logits.dtype == logits.dtype == dtype
    assert_close(states[SOURCE.mask], their_states[SOURCE.mask], rtol=0, atol=tolerance)
    assert_close(logits, their_logits, rtol=0, atol=tolerance)
