"""Converts a Transformer's encoder or decoders for our own engine, from its settings and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from transduce.wings.engines.native.conversion.weights import MOST_POSITIONS, Weights
from transduce.wings.engines.transformers import ACTIVATIONS, activation, check_value, inner, kind

POSITIONS, NORMS = ("sinusoidal", "learned", "none"), ("pre", "post")
KERNELS = ("lightweight", "dynamic")


def check_transformer(settings: Mapping[str, Any], side: str, engine: str) -> None:
    stack = settings[side]
    feedforward = stack["feedforward"]
    found: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "embedding": (kind(stack.get("embedding", "tokens")), ("tokens",)),
        "positions": (kind(stack.get("positions", "none")), POSITIONS),
        "norm": (kind(stack["norm"]), NORMS),
        "norm.kind": (inner(stack["norm"], "kind", "layer"), ("layer", "rms")),
        "feedforward": (0 if isinstance(feedforward, int) else kind(feedforward), (0, "plain", "gated")),
        "feedforward.activation": (activation(stack), ACTIVATIONS),
    }
    for key, (value, allowed) in found.items():
        check_value(f"{side}.{key}", value, allowed, engine)
    mixers = stack.get("mixer", "attention")
    for mixer in mixers if isinstance(mixers, list) else [mixers]:
        check_value(f"{side}.mixer", kind(mixer), ("attention", *KERNELS), engine)
        check_value(f"{side}.mixer.relative", kind(inner(mixer, "relative", "none")), tuple(RELATIVE), engine)


def add_encoder(weights: Weights, encoder: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    embedding = weights.embedding("encoder", encoder.embedding, encoder.positions)
    return _add_stack(weights, "encoder", encoder, settings) | embedding


def add_decoder(weights: Weights, decoder: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    _add_reading(weights, decoder)
    embedding = weights.embedding("decoder", decoder.embedding, decoder.positions)
    return _add_stack(weights, "decoder", decoder, settings) | embedding


def add_instant_decoder(weights: Weights, decoder: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Its embedding has a vector for each place from the end, and as positions the vectors of places from the start."""
    place_T = torch.arange(decoder.max_length)
    from_start_TD, from_end_TD = decoder.ends(decoder.positions(place_T)).chunk(2, -1)
    weights.floats("decoder.embedding", from_end_TD)
    weights.floats("decoder.positions", from_start_TD)
    _add_reading(weights, decoder)
    embedding = {"embedding": "decoder.embedding", "embedding_scale": 1.0, "positions": "decoder.positions"}
    return _add_stack(weights, "decoder", decoder, settings) | embedding


def _add_reading(weights: Weights, decoder: Any) -> None:
    """Adds the keys and values of the memory, if the layers read it, and the readout."""
    projections = [layer.memory.project for layer in decoder.layers if hasattr(layer, "memory")]
    if projections:
        weight, bias = (torch.cat([getattr(each, part) for each in projections]) for part in ("weight", "bias"))
        weights.matrix("memory", weight, bias)
    weights.matrix("readout", decoder.projection.weight, decoder.projection.bias)


def _add_stack(weights: Weights, side: str, stack: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the tensors of a stack without its embedding. Returns the notes that describe it."""
    mixers = settings.get("mixer", "attention")
    mixers = mixers if isinstance(mixers, list) else [mixers] * len(stack.layers)
    for number, layer in enumerate(stack.layers):
        _add_layer(weights, f"{side}.{number}", layer)
    pairs = zip(stack.layers, mixers, strict=True)
    described = [
        _add_mixer(weights, f"{side}.{number}", layer.mixer, kind(mixer), kind(inner(mixer, "relative", "none")))
        for number, (layer, mixer) in enumerate(pairs)
    ]
    pre_norm = kind(settings["norm"]) == "pre"
    if pre_norm:
        weights.norm(f"{side}.norm", stack.norm)
    limited = any(kind(inner(mixer, "relative", "none")) in ("rotary", "alibi", "t5") for mixer in mixers)
    return {
        "layers": len(stack.layers),
        "heads": settings["heads"],
        "pre_norm": int(pre_norm),
        "gated": int(kind(settings["feedforward"]) == "gated"),
        "activation": activation(settings),
        "eps": stack.layers[0].mixer_residual.norm.eps,
        "mixers": described,
        **({"most_positions": MOST_POSITIONS} if limited else {}),
    }


def _add_layer(weights: Weights, name: str, layer: Any) -> None:
    """Adds the tensors of a layer outside its mixer."""
    parts = {"widen": layer.feedforward.widen, "narrow": layer.feedforward.narrow}
    norms = {"mixer_norm": layer.mixer_residual.norm, "feedforward_norm": layer.feedforward_residual.norm}
    if hasattr(layer, "memory"):
        parts |= {"query": layer.memory.query, "read_out": layer.memory.out}
        norms["memory_norm"] = layer.memory_residual.norm
    for each, part in parts.items():
        weights.matrix(f"{name}.{each}", part.weight, part.bias)
    for each, norm in norms.items():
        weights.norm(f"{name}.{each}", norm)


def _add_mixer(weights: Weights, name: str, mixer: Any, of: str, relative: str) -> dict[str, int]:
    """Adds the tensors of self-attention or of a convolution in its place. Returns the notes that describe it."""
    if of not in KERNELS:
        weights.matrix(f"{name}.project", mixer.project.weight, mixer.project.bias)
        weights.matrix(f"{name}.out", mixer.out.weight, mixer.out.bias)
        return RELATIVE[relative](weights, name, mixer)
    weights.matrix(f"{name}.project", mixer.enter.weight, mixer.enter.bias)
    weights.matrix(f"{name}.out", mixer.leave.weight, mixer.leave.bias)
    if of == "dynamic":
        weights.matrix(f"{name}.predict", mixer.kernels.predict.weight, mixer.kernels.predict.bias)
    else:
        weights.floats(f"{name}.weights", mixer.kernels(torch.empty(1, 1, 0))[0, :, 0])
    return {"kernel": mixer.kernel}


def _add_nothing(weights: Weights, name: str, mixer: Any) -> dict[str, int]:
    return {}


def _add_turns(weights: Weights, name: str, mixer: Any) -> dict[str, int]:
    """The cosines and sines of rotary positions: what a query of ones and zeros becomes."""
    half = mixer.features // 2
    ones_11PD = torch.cat([torch.ones(1, 1, MOST_POSITIONS, half), torch.zeros(1, 1, MOST_POSITIONS, half)], -1)
    turned, _ = mixer.relative.turn(ones_11PD, ones_11PD, torch.arange(MOST_POSITIONS)[None])
    weights.floats(f"{name}.turns", turned[0, 0])
    return {}


def _add_bias(weights: Weights, name: str, mixer: Any) -> dict[str, int]:
    """The numbers that T5 and ALiBi add to energies, of each head and distance: those of the last query's place."""
    far = MOST_POSITIONS - 1
    ahead = 0 if mixer.causal else far
    query: Tensor = torch.zeros(1, mixer.count, 1, mixer.features)
    bias_B1TS = torch.zeros(1, 1, 1, far + 1 + ahead)
    found_BHTS = mixer.relative.bias(bias_B1TS, query, torch.tensor([[far]]))
    weights.floats(f"{name}.bias", found_BHTS.expand(1, mixer.count, 1, -1)[0, :, 0])
    return {"far": far, "ahead": ahead}


def _add_shaw(weights: Weights, name: str, mixer: Any) -> dict[str, int]:
    weights.floats(f"{name}.keys", mixer.relative.key)
    weights.floats(f"{name}.values", mixer.relative.value)
    return {"far": mixer.relative.distance, "ahead": mixer.relative.ahead}


RELATIVE: dict[str, Callable[[Weights, str, Any], dict[str, int]]] = {
    "none": _add_nothing,
    "rotary": _add_turns,
    "t5": _add_bias,
    "alibi": _add_bias,
    "shaw": _add_shaw,
}
