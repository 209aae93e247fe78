"""Converts the encoder or the decoder of ConvS2S for our own engine, from its settings and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transduce.wings.engines.native.conversion.weights import Weights
from transduce.wings.engines.transformers import check_value, kind

POSITIONS = ("sinusoidal", "learned", "none")


def check_convolution(settings: Mapping[str, Any], side: str, engine: str) -> None:
    check_value(f"{side}.positions", kind(settings[side]["positions"]), POSITIONS, engine)


def add_encoder(weights: Weights, encoder: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    return _add_stack(weights, "encoder", encoder, settings)


def add_decoder(weights: Weights, decoder: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    weights.matrix("readout", decoder.projection.weight, decoder.projection.bias)
    return _add_stack(weights, "decoder", decoder, settings)


def _add_stack(weights: Weights, side: str, stack: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the tensors of a stack. Returns the notes that describe it."""
    for name in ("widen", "narrow"):
        _add_convolution(weights, f"{side}.{name}", getattr(stack, name))
    for number, layer in enumerate(stack.layers):
        reads = hasattr(layer, "query")
        parts = {"query": layer.query, "out": layer.out} if reads else {}
        parts["convolution"] = (layer.gated if hasattr(layer, "gated") else layer).convolution
        for name, part in parts.items():
            _add_convolution(weights, f"{side}.{number}.{name}", part)
    sizes = {"layers": len(stack.layers), "width": settings["width"], "kernel": settings["kernel"]}
    return weights.embedding(side, stack.embedding, stack.positions) | sizes


def _add_convolution(weights: Weights, name: str, convolution: Any) -> None:
    """Adds a convolution as a matrix [outputs, kernel * inputs] that reads a window [kernel, inputs]."""
    weight_OIK = convolution.weight * convolution.scale()[:, None, None]
    weights.matrix(name, weight_OIK.transpose(1, 2).flatten(1), convolution.bias)
