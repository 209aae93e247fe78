"""Writes a Transformer's encoder or decoder for our own engine, from its settings and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from transduce.export.native.weights import Weights
from transduce.export.transformers import activation, check_stack, epsilon, kind

POSITIONS, NORMS = ("sinusoidal", "learned", "none"), ("pre", "post")


def check_transformer(settings: Mapping[str, Any], side: str, engine: str) -> None:
    check_stack(settings, side, engine, POSITIONS, NORMS)


def write_encoder(weights: Weights, encoder: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    return _write_stack(weights, "encoder", encoder, settings)


def write_decoder(weights: Weights, decoder: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    notes = _write_stack(weights, "decoder", decoder, settings)
    projections = [layer.memory.project for layer in decoder.layers]
    weight, bias = (torch.cat([getattr(each, part) for each in projections]) for part in ("weight", "bias"))
    weights.matrix("memory", weight, bias)
    weights.matrix("readout", decoder.projection.weight, decoder.projection.bias)
    return notes


def _write_stack(weights: Weights, side: str, stack: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the tensors of a stack. Returns the notes that describe it."""
    for number, layer in enumerate(stack.layers):
        _write_layer(weights, f"{side}.{number}", layer)
    pre_norm = kind(settings["norm"]) == "pre"
    if pre_norm:
        weights.norm(f"{side}.norm", stack.norm)
    return weights.embedding(side, stack.embedding, stack.positions) | {
        "layers": len(stack.layers),
        "heads": settings["heads"],
        "pre_norm": int(pre_norm),
        "activation": activation(settings),
        "eps": epsilon(settings),
    }


def _write_layer(weights: Weights, name: str, layer: Any) -> None:
    parts = {"project": layer.mixer.project, "out": layer.mixer.out}
    norms = {"mixer_norm": layer.mixer_residual.norm, "feedforward_norm": layer.feedforward_residual.norm}
    if hasattr(layer, "memory"):
        parts |= {"query": layer.memory.query, "read_out": layer.memory.out}
        norms["memory_norm"] = layer.memory_residual.norm
    parts |= {"widen": layer.feedforward.widen, "narrow": layer.feedforward.narrow}
    for each, part in parts.items():
        weights.matrix(f"{name}.{each}", part.weight, part.bias)
    for each, norm in norms.items():
        weights.norm(f"{name}.{each}", norm)
