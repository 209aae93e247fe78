"""Writes a Transformer as a CTranslate2 model, from its settings and parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from transduce.core.errors import MissingPackageError
from transduce.core.types import BOS, EOS, SPECIALS, UNK
from transduce.wings.engines.transformers import activation, check_transformer, epsilon, kind

MOST_POSITIONS = 4096  # rows of the table of sinusoids


def write_ctranslate2(model: Any, settings: dict[str, Any], folder: Path, precision: str = "float32") -> dict[str, Any]:
    """Writes the files of a CTranslate2 model into ``folder``, among them model.bin and the vocabularies. Returns the
    notes for export.json.

    ``settings`` is the table ``model`` of the run, with all defaults. ``precision`` is float32 or int8. Raises
    UserError for a model that CTranslate2 does not have, and MissingPackageError if CTranslate2 is not installed.
    """
    try:
        from ctranslate2.specs import common_spec, transformer_spec
    except ImportError as error:
        raise MissingPackageError(
            "an export to ctranslate2 needs ctranslate2, which is not installed: pip install 'transduce[ctranslate2]'"
        ) from error
    check_transformer(settings, "CTranslate2", ("sinusoidal", "learned", "none"), ("pre", "post"))
    makers = (transformer_spec.TransformerEncoderSpec, transformer_spec.TransformerDecoderSpec)
    encoder, decoder = (
        make(
            len(stack.layers),
            table["heads"],
            pre_norm=kind(table["norm"]) == "pre",
            activation=common_spec.Activation[activation(table).upper()],
        )
        for make, stack, table in zip(
            makers, (model.encoder, model.decoder), (settings["encoder"], settings["decoder"]), strict=True
        )
    )
    spec = transformer_spec.TransformerSpec(encoder, decoder)
    with torch.no_grad():
        _stack(encoder, model.encoder, encoder.embeddings[0])
        _stack(decoder, model.decoder, decoder.embeddings)
        _linear(decoder.projection, model.decoder.projection)
    for side, table in (("source", model.encoder.embedding), ("target", model.decoder.embedding)):
        register = getattr(spec, f"register_{side}_vocabulary")
        register([*SPECIALS, *(str(number) for number in range(len(SPECIALS), len(table.weight)))])
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = SPECIALS[BOS], SPECIALS[EOS], SPECIALS[UNK]
    spec.config.decoder_start_token = SPECIALS[BOS]
    spec.config.layer_norm_epsilon = epsilon(settings["encoder"])
    spec.validate()
    spec.optimize(quantization=None if precision == "float32" else precision)
    spec.save(str(folder))
    return {"model": "transformer"}


def _stack(spec: Any, stack: Any, embeddings: Any) -> None:
    """Copies the embeddings, the table of positions, the layers and, if the specification has one, the last norm of
    ``stack``, an encoder or a decoder, into its specification.
    """
    embeddings.weight = stack.embedding.weight.float().numpy().copy()
    most = getattr(stack.positions, "weight", torch.empty(MOST_POSITIONS, 0)).shape[0]
    places = stack.positions(torch.arange(most)[None])
    table = torch.zeros(most, stack.width) if isinstance(places, float) else places[0]
    spec.position_encodings.encodings = table.float().contiguous().numpy().copy()
    if hasattr(spec, "layer_norm"):
        _norms(spec.layer_norm, stack.norm)
    for theirs, ours in zip(spec.layer, stack.layers, strict=True):
        attention = theirs.self_attention
        _norms(attention.layer_norm, ours.mixer_residual.norm)
        _linear(attention.linear[0], ours.mixer.project)
        _linear(attention.linear[1], ours.mixer.out)
        if hasattr(theirs, "attention"):
            _norms(theirs.attention.layer_norm, ours.memory_residual.norm)
            parts = (ours.memory.query, ours.memory.project, ours.memory.out)
            for place, part in enumerate(parts):
                _linear(theirs.attention.linear[place], part)
        _norms(theirs.ffn.layer_norm, ours.feedforward_residual.norm)
        _linear(theirs.ffn.linear_0, ours.feedforward.widen)
        _linear(theirs.ffn.linear_1, ours.feedforward.narrow)


def _linear(spec: Any, layer: Any) -> None:
    spec.weight, spec.bias = layer.weight.float().numpy().copy(), layer.bias.float().numpy().copy()


def _norms(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = norm.weight.float().numpy().copy(), norm.bias.float().numpy().copy()
