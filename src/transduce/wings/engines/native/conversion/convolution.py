"""Converts the encoder or the decoder of ConvS2S for our own engine, from its settings and parameters."""

from __future__ import annotations

from transduce.core.config import TableView
from transduce.layers.decoders.convs2s import ConvS2SDecoder
from transduce.layers.encoders.convs2s import ConvS2SEncoder
from transduce.layers.modules.convolution import Convolution
from transduce.wings.engines.native.conversion.weights import Notes, Weights
from transduce.wings.engines.transformers import check_value, kind

POSITIONS = ("sinusoidal", "learned", "none")


def check_convolution(settings: TableView, side: str, engine: str) -> None:
    check_value(f"{side}.positions", kind(settings[side]["positions"]), POSITIONS, engine)


def add_encoder(weights: Weights, encoder: ConvS2SEncoder, settings: TableView) -> Notes:
    return _add_stack(weights, "encoder", encoder, settings)


def add_decoder(weights: Weights, decoder: ConvS2SDecoder, settings: TableView) -> Notes:
    weights.product("readout", decoder.projection)
    return _add_stack(weights, "decoder", decoder, settings)


def _add_stack(weights: Weights, side: str, stack: ConvS2SEncoder | ConvS2SDecoder, settings: TableView) -> Notes:
    """Adds the tensors of a stack. Returns the notes that describe it."""
    for name in ("widen", "narrow"):
        add_convolution(weights, f"{side}.{name}", getattr(stack, name))
    for number, layer in enumerate(stack.layers):
        for name, part in layer.named_modules():
            if isinstance(part, Convolution):
                add_convolution(weights, f"{side}.{number}.{name.removeprefix('gated.')}", part)
    sizes: Notes = {"layers": len(stack.layers), "width": settings["width"], "kernel": settings["kernel"]}
    return weights.embedding(side, stack.embedding, stack.positions) | sizes


def add_convolution(weights: Weights, name: str, convolution: Convolution) -> None:
    """Adds a convolution as a matrix [outputs, kernel * inputs] that reads a window [kernel, inputs]."""
    weight_OIK = convolution.weight * convolution.scale()[:, None, None]
    weights.matrix(name, weight_OIK.transpose(1, 2).flatten(1), convolution.bias)
