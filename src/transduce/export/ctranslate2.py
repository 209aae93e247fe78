"""Writes a Transformer as a CTranslate2 model, from its settings and parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from transduce.errors import MissingPackageError, UserError
from transduce.types import BOS, EOS, SPECIALS, UNK

MOST_POSITIONS = 4096  # rows of the table of sinusoids
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "swish": "SWISH"}


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
    _check(settings)
    makers = (transformer_spec.TransformerEncoderSpec, transformer_spec.TransformerDecoderSpec)
    encoder, decoder = (
        make(
            len(stack.layers),
            table["heads"],
            pre_norm=_kind(table["norm"]) == "pre",
            activation=common_spec.Activation[ACTIVATIONS[_activation(table)]],
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
    spec.config.layer_norm_epsilon = _epsilon(settings["encoder"])
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


def _activation(stack: dict[str, Any]) -> str:
    feedforward = stack["feedforward"]
    return "relu" if isinstance(feedforward, int) else str(feedforward.get("activation", "relu"))


def _kind(table: Any) -> Any:
    return table["type"] if isinstance(table, dict) else table


def _check(settings: dict[str, Any]) -> None:
    """Raises UserError for the first of the listed settings whose value CTranslate2 cannot run."""
    found: list[tuple[str, Any, tuple[Any, ...]]] = [("type", settings["type"], ("encoder-decoder",))]
    for side in ("encoder", "decoder"):
        if settings["type"] != "encoder-decoder":
            break
        stack = settings[side]
        found.append((f"{side}.type", stack["type"], ("transformer",)))
        if stack["type"] != "transformer":
            break
        feedforward = stack["feedforward"]
        found += [
            (f"{side}.embedding", _kind(stack.get("embedding", "tokens")), ("tokens",)),
            (f"{side}.positions", _kind(stack["positions"]), ("sinusoidal", "learned", "none")),
            (f"{side}.norm", _kind(stack["norm"]), ("pre", "post")),
            (f"{side}.norm.kind", _inner(stack["norm"], "kind", "layer"), ("layer",)),
            (f"{side}.feedforward", 0 if isinstance(feedforward, int) else _kind(feedforward), (0, "plain")),
            (f"{side}.feedforward.activation", _activation(stack), tuple(ACTIVATIONS)),
            (f"{side}.mixer", _kind(stack.get("mixer", "attention")), ("attention",)),
            (f"{side}.mixer.relative", _kind(_inner(stack.get("mixer"), "relative", "none")), ("none",)),
        ]
        if side == "decoder":
            found.append(("decoder.norm.eps", _epsilon(stack), (_epsilon(settings["encoder"]),)))
    for key, value, allowed in found:
        if value not in allowed:
            expected = " or ".join(map(repr, allowed))
            raise UserError(
                f"model.{key} = {value!r}: CTranslate2 runs {expected} here; export with --to onnx, or predict with "
                "--engine torch"
            )


def _epsilon(stack: dict[str, Any]) -> float:
    """The number that a stack's norms add to the variance. CTranslate2 has one for the whole model."""
    return float(_inner(stack["norm"], "eps", 1e-5))


def _inner(table: Any, key: str, default: Any) -> Any:
    return table.get(key, default) if isinstance(table, dict) else default
