"""Checks and adds the tensors of each type of model outside its encoder and decoder, for our own engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transduce.core.types import BOS, EOS
from transduce.wings.ctc.decoder import BARRED
from transduce.wings.engines.native.conversion.weights import Weights
from transduce.wings.engines.transformers import check_value, kind

ENGINE = "the native engine"
BY_TOKENS = ("encoder-decoder", "ensemble", "fusion", "joint-ngram", "language-model", "seeds", "with-counts")
"""The models that write token by token. They can be mixed."""
Members = Sequence[tuple[str, Mapping[str, Any]]]  # of a mixture: the key and the table of each model to convert


def check_counted(settings: Mapping[str, Any]) -> None:
    check_value("counted.type", kind(settings["counted"]), ("joint-ngram",), ENGINE)


def check_classifier(settings: Mapping[str, Any]) -> None:
    check_value("pooling", kind(settings["pooling"]), ("last", "max", "mean"), ENGINE)


def add_labels(weights: Weights, model: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    weights.matrix("labels", model.projection.weight, model.projection.bias)
    return {}


def add_chain(weights: Weights, model: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    weights.floats("transition", model.transition)
    weights.floats("ends", model.ends)
    return add_labels(weights, model, settings)


def add_classifier(weights: Weights, model: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    return add_labels(weights, model, settings) | {"pooling": kind(settings["pooling"])}


def add_instant(weights: Weights, model: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The classifier of the length."""
    length = model.length
    weights.matrix("length", length.linear.weight, length.linear.bias)
    return {"length_width": length.positions.width}


def add_ctc(weights: Weights, model: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The readout of the frames. BOS and EOS get the logit ``BARRED`` by their biases."""
    frames = model.decoder
    if frames.split is not None:
        weights.matrix("frames.split", frames.split.weight, frames.split.bias)
    weight, bias = frames.projection.weight.clone(), frames.projection.bias.clone()
    weight[[BOS, EOS]], bias[[BOS, EOS]] = 0.0, BARRED
    weights.matrix("frames", weight, bias)
    return {"stretch": frames.stretch}


def the_trained(settings: Mapping[str, Any]) -> Members:
    return [("model", settings["model"])]


def each_seed(settings: Mapping[str, Any]) -> Members:
    return [("model", settings["model"])] * int(settings["members"])


def each_model(settings: Mapping[str, Any]) -> Members:
    return [(f"models[{number}]", table) for number, table in enumerate(settings["models"])]


def add_weights(weights: Weights, model: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {"weights": list(model.weights)}


def add_fusion(weights: Weights, model: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    return add_weights(weights, model, settings) | {"renormalise": model.renormalise}


def add_counts(weights: Weights, model: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The counted model beside a trained one, and its weight; nothing if it has no counts."""
    if len(model.used()) == 1:
        return {}
    weights.counts("counted", model.models[1])
    return {"counted": settings["counted"], "weight": settings["weight"]}


def add_ngrams(weights: Weights, model: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    weights.counts("counted", model)
    return {"counted": dict(settings)}
