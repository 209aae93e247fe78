"""Converts an encoder of several kernels for our own engine, from its parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from transduce.core.config import TableView
from transduce.layers.encoders.multikernel import MultiKernelEncoder
from transduce.wings.engines.native.conversion.convolution import add_convolution
from transduce.wings.engines.native.conversion.weights import Notes, Weights
from transduce.wings.engines.transformers import check_value, kind


def check_multi_kernel(settings: TableView, side: str, engine: str) -> None:
    check_value(f"{side}.embedding", kind(settings[side].get("embedding", "tokens")), ("tokens",), engine)


def add_multi_kernel(weights: Weights, encoder: MultiKernelEncoder, settings: TableView) -> Notes:
    for number, layer in enumerate(encoder.layers):
        weights.norm(f"encoder.{number}.norm", layer.get_submodule("norm"))
        weights.product(f"encoder.{number}.merge", layer.get_submodule("merge"))
        convolutions: Iterable[Any] = layer.get_submodule("convolutions").children()
        for place, convolution in enumerate(convolutions):
            add_convolution(weights, f"encoder.{number}.{place}", convolution)
    weights.norm("encoder.norm", encoder.norm)
    sizes: Notes = {"layers": len(encoder.layers), "kernels": list(settings["kernels"])}
    table: Any = encoder.embedding  # of tokens, as ``check_multi_kernel`` wants it
    return weights.embedding("encoder", table) | sizes
