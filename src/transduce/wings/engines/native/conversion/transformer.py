"""Converts a Transformer's encoder or decoders for our own engine, from its settings and parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from transduce.core.config import TableView
from transduce.layers.decoders.instant import InstantTransformer
from transduce.layers.decoders.stacked import TransformerDecoder
from transduce.layers.encoders.stacked import TransformerEncoder
from transduce.layers.modules.attention.relative import Shaw
from transduce.layers.modules.embedding import TokenEmbedding
from transduce.layers.modules.mixers.attention import OwnRow
from transduce.wings.engines.native.conversion.weights import MOST_POSITIONS, Notes, Weights
from transduce.wings.engines.transformers import ACTIVATIONS, activation, check_value, inner, kind

Stack = TransformerEncoder | TransformerDecoder | InstantTransformer
POSITIONS, NORMS = ("sinusoidal", "learned", "none"), ("pre", "post")
KERNELS = ("lightweight", "dynamic")


def check_transformer(settings: TableView, side: str, engine: str) -> None:
    stack = settings[side]
    feedforward = stack["feedforward"]
    found: dict[str, tuple[object, tuple[object, ...]]] = {
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


def add_encoder(weights: Weights, encoder: TransformerEncoder, settings: TableView) -> Notes:
    embedding = weights.embedding("encoder", cast(TokenEmbedding, encoder.embedding), encoder.positions)
    return _add_stack(weights, "encoder", encoder, settings) | embedding


def add_decoder(weights: Weights, decoder: TransformerDecoder, settings: TableView) -> Notes:
    _add_reading(weights, decoder)
    embedding = weights.embedding("decoder", decoder.embedding, decoder.positions)
    return _add_stack(weights, "decoder", decoder, settings) | embedding


def add_instant_decoder(weights: Weights, decoder: InstantTransformer, settings: TableView) -> Notes:
    """Its embedding has a vector for each place from the end, and as positions the vectors of places from the start."""
    place_T = torch.arange(decoder.max_length)
    from_start_TD, from_end_TD = decoder.ends(decoder.positions(place_T)).chunk(2, -1)
    weights.floats("decoder.embedding", from_end_TD)
    weights.floats("decoder.positions", from_start_TD)
    _add_reading(weights, decoder)
    embedding = {"embedding": "decoder.embedding", "embedding_scale": 1.0, "positions": "decoder.positions"}
    return _add_stack(weights, "decoder", decoder, settings) | embedding


def _add_reading(weights: Weights, decoder: TransformerDecoder | InstantTransformer) -> None:
    """Adds the keys and values of the memory, if the layers read it, and the readout."""
    read = [layer.get_submodule("memory.project") for layer in decoder.layers if hasattr(layer, "memory")]
    if read:
        weight, bias = (torch.cat([each.get_parameter(part) for each in read]) for part in ("weight", "bias"))
        weights.matrix("memory", weight, bias)
    weights.product("readout", decoder.projection)


def _add_stack(weights: Weights, side: str, stack: Stack, settings: TableView) -> Notes:
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
        "eps": stack.layers[0].get_submodule("mixer_residual.norm").eps,
        "mixers": described,
        **({"most_positions": MOST_POSITIONS} if limited else {}),
    }


def _add_layer(weights: Weights, name: str, layer: nn.Module) -> None:
    """Adds the tensors of a layer outside its mixer."""
    parts = {"widen": "feedforward.widen", "narrow": "feedforward.narrow"}
    norms = {"mixer_norm": "mixer_residual.norm", "feedforward_norm": "feedforward_residual.norm"}
    if hasattr(layer, "memory"):
        parts |= {"query": "memory.query", "read_out": "memory.out"}
        norms["memory_norm"] = "memory_residual.norm"
    for each, part in parts.items():
        weights.product(f"{name}.{each}", layer.get_submodule(part))
    for each, norm in norms.items():
        weights.norm(f"{name}.{each}", layer.get_submodule(norm))


def _add_mixer(weights: Weights, name: str, mixer: Any, of: str, relative: str) -> dict[str, int]:
    """Adds the tensors of self-attention or of a convolution in its place. Returns the notes that describe it."""
    if of not in KERNELS:
        weights.product(f"{name}.project", mixer.project)
        weights.product(f"{name}.out", mixer.out)
        return RELATIVE[relative](weights, name, mixer)
    weights.product(f"{name}.project", mixer.enter)
    weights.product(f"{name}.out", mixer.leave)
    if of == "dynamic":
        weights.product(f"{name}.predict", mixer.kernels.predict)
    else:
        weights.floats(f"{name}.weights", mixer.kernels(torch.empty(1, 1, 0))[0, :, 0])
    return {"kernel": mixer.kernel}


def _add_nothing(weights: Weights, name: str, mixer: OwnRow) -> dict[str, int]:
    return {}


def _add_turns(weights: Weights, name: str, mixer: OwnRow) -> dict[str, int]:
    """The cosines and sines of rotary positions: what a query of ones and zeros becomes."""
    half = mixer.features // 2
    ones_11PD = torch.cat([torch.ones(1, 1, MOST_POSITIONS, half), torch.zeros(1, 1, MOST_POSITIONS, half)], -1)
    turned, _ = mixer.relative.turn(ones_11PD, ones_11PD, torch.arange(MOST_POSITIONS)[None])
    weights.floats(f"{name}.turns", turned[0, 0])
    return {}


def _add_bias(weights: Weights, name: str, mixer: OwnRow) -> dict[str, int]:
    """The numbers that T5 and ALiBi add to energies, of each head and distance: those of the last query's place."""
    far = MOST_POSITIONS - 1
    ahead = 0 if mixer.causal else far
    query: Tensor = torch.zeros(1, mixer.count, 1, mixer.features)
    bias_B1TS = torch.zeros(1, 1, 1, far + 1 + ahead)
    found_BHTS = mixer.relative.bias(bias_B1TS, query, torch.tensor([[far]]))
    weights.floats(f"{name}.bias", found_BHTS.expand(1, mixer.count, 1, -1)[0, :, 0])
    return {"far": far, "ahead": ahead}


def _add_shaw(weights: Weights, name: str, mixer: OwnRow) -> dict[str, int]:
    relative = cast(Shaw, mixer.relative)
    weights.floats(f"{name}.keys", relative.key)
    weights.floats(f"{name}.values", relative.value)
    return {"far": relative.distance, "ahead": relative.ahead}


RELATIVE: dict[str, Callable[[Weights, str, OwnRow], dict[str, int]]] = {
    "none": _add_nothing,
    "rotary": _add_turns,
    "t5": _add_bias,
    "alibi": _add_bias,
    "shaw": _add_shaw,
}
