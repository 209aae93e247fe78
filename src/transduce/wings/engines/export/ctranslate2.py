"""Writes a Transformer as a CTranslate2 model, from its settings and parameters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from transduce.core.config import Table, TableView
from transduce.core.errors import MissingPackageError
from transduce.core.types import BOS, EOS, SPECIALS, UNK
from transduce.layers.decoders.stacked import TransformerDecoder
from transduce.layers.encoders.stacked import TransformerEncoder
from transduce.wings.engines.transformers import activation, check_transformer, epsilon, kind

if TYPE_CHECKING:
    from ctranslate2.specs.common_spec import EmbeddingsSpec, LayerNormSpec, LinearSpec
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec

MOST_POSITIONS = 4096  # rows of the table of sinusoids


def write_ctranslate2(model: nn.Module, settings: TableView, folder: Path, precision: str = "float32") -> Table:
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
    ours = [getattr(model, side) for side in ("encoder", "decoder")]
    encoder, decoder = (
        make(
            len(stack.layers),
            table["heads"],
            pre_norm=kind(table["norm"]) == "pre",
            activation=common_spec.Activation[activation(table).upper()],
        )
        for make, stack, table in zip(makers, ours, (settings["encoder"], settings["decoder"]), strict=True)
    )
    spec = transformer_spec.TransformerSpec(encoder, decoder)
    with torch.no_grad():
        _stack(encoder, ours[0], encoder.embeddings[0])
        _stack(decoder, ours[1], decoder.embeddings)
        _linear(decoder.projection, ours[1].projection)
    for side, stack in zip(("source", "target"), ours, strict=True):
        register = getattr(spec, f"register_{side}_vocabulary")
        register([*SPECIALS, *(str(number) for number in range(len(SPECIALS), len(stack.embedding.weight)))])
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = SPECIALS[BOS], SPECIALS[EOS], SPECIALS[UNK]
    spec.config.decoder_start_token = SPECIALS[BOS]
    spec.config.layer_norm_epsilon = epsilon(settings["encoder"])
    spec.validate()
    spec.optimize(quantization=None if precision == "float32" else precision)
    spec.save(str(folder))
    return {"model": "transformer"}


def _stack(
    spec: TransformerEncoderSpec | TransformerDecoderSpec,
    stack: TransformerEncoder | TransformerDecoder,
    embeddings: EmbeddingsSpec,
) -> None:
    """Copies the embeddings, the table of positions, the layers and, if the specification has one, the last norm of
    ``stack``, an encoder or a decoder, into its specification.
    """
    embeddings.weight = stack.get_parameter("embedding.weight").float().numpy().copy()
    most = getattr(stack.positions, "weight", torch.empty(MOST_POSITIONS, 0)).shape[0]
    places = stack.positions(torch.arange(most)[None])
    table = torch.zeros(most, stack.width) if isinstance(places, float) else places[0]
    spec.position_encodings.encodings = table.float().contiguous().numpy().copy()
    if hasattr(spec, "layer_norm"):
        _norms(spec.layer_norm, stack.norm)
    for theirs, ours in zip(spec.layer, stack.layers, strict=True):
        attention = theirs.self_attention
        _norms(attention.layer_norm, ours.get_submodule("mixer_residual.norm"))
        _linear(attention.linear[0], ours.get_submodule("mixer.project"))
        _linear(attention.linear[1], ours.get_submodule("mixer.out"))
        if hasattr(theirs, "attention"):
            _norms(theirs.attention.layer_norm, ours.get_submodule("memory_residual.norm"))
            for place, part in enumerate(("query", "project", "out")):
                _linear(theirs.attention.linear[place], ours.get_submodule(f"memory.{part}"))
        _norms(theirs.ffn.layer_norm, ours.get_submodule("feedforward_residual.norm"))
        _linear(theirs.ffn.linear_0, ours.get_submodule("feedforward.widen"))
        _linear(theirs.ffn.linear_1, ours.get_submodule("feedforward.narrow"))


def _linear(spec: LinearSpec, layer: nn.Module) -> None:
    spec.weight, spec.bias = (layer.get_parameter(name).float().numpy().copy() for name in ("weight", "bias"))


def _norms(spec: LayerNormSpec, norm: nn.Module) -> None:
    spec.gamma, spec.beta = (norm.get_parameter(name).float().numpy().copy() for name in ("weight", "bias"))
