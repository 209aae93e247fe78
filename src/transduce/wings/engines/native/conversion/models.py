"""Checks and adds the tensors of each type of model outside its encoder and decoder, for our own engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from transduce.core.config import TableView
from transduce.core.types import BOS, EOS
from transduce.models.instant import Instant
from transduce.models.mixtures import Fusion, WithCounts
from transduce.wings.ctc.decoder import BARRED, CTCDecoder
from transduce.wings.ctc.models import CTC, JointCTC
from transduce.wings.engines.native.conversion.weights import Notes, Weights
from transduce.wings.engines.transformers import check_value, kind
from transduce.wings.labels.chain_fusion import ChainFusion
from transduce.wings.labels.classifier import Classifier
from transduce.wings.labels.linear import LinearClassifier
from transduce.wings.labels.linear_tagger import LinearTagger
from transduce.wings.labels.several import LabelsWithCounts
from transduce.wings.labels.tagger import ConditionalRandomField, Tagger

ENGINE = "the native engine"
BY_TOKENS = (
    "ctc",
    "encoder-decoder",
    "ensemble",
    "fusion",
    "joint-ctc",
    "joint-ngram",
    "language-model",
    "seeds",
    "with-counts",
)
"""The models that write token by token. They can be mixed."""
Members = Sequence[tuple[str, TableView]]  # of a mixture: the key and the table of each model to convert


def check_counted(settings: TableView) -> None:
    check_value("counted.type", kind(settings["counted"]), ("joint-ngram",), ENGINE)


def check_label_counts(settings: TableView) -> None:
    check_value("counted.type", kind(settings["counted"]), ("linear-classifier", "linear-tagger"), ENGINE)


def check_classifier(settings: TableView) -> None:
    check_value("pooling", kind(settings["pooling"]), ("last", "max", "mean"), ENGINE)


def add_labels(weights: Weights, model: Tagger | ConditionalRandomField | Classifier, settings: TableView) -> Notes:
    weights.product("labels", model.projection)
    return {}


def add_chain(weights: Weights, model: ConditionalRandomField, settings: TableView) -> Notes:
    weights.floats("transition", model.transition)
    weights.floats("ends", model.ends)
    return add_labels(weights, model, settings)


def add_classifier(weights: Weights, model: Classifier, settings: TableView) -> Notes:
    return add_labels(weights, model, settings) | {"pooling": kind(settings["pooling"])}


def add_instant(weights: Weights, model: Instant, settings: TableView) -> Notes:
    """The classifier of the length."""
    length = model.length
    weights.product("length", length.linear)
    return {"length_width": length.positions.width}


def add_ctc(weights: Weights, model: CTC, settings: TableView) -> Notes:
    return _add_frames(weights, model.decoder)


def add_joint_ctc(weights: Weights, model: JointCTC, settings: TableView) -> Notes:
    return _add_frames(weights, model.aligned) | {"weight": settings["weight"]}


def _add_frames(weights: Weights, frames: CTCDecoder) -> Notes:
    """The readout of the frames. BOS and EOS get the logit ``BARRED`` by their biases."""
    if frames.split is not None:
        weights.product("frames.split", frames.split)
    weight, bias = frames.projection.weight.clone(), frames.projection.bias.clone()
    weight[[BOS, EOS]], bias[[BOS, EOS]] = 0.0, BARRED
    weights.matrix("frames", weight, bias)
    return {"stretch": frames.stretch}


def the_trained(settings: TableView) -> Members:
    return [("model", settings["model"])]


def each_seed(settings: TableView) -> Members:
    return [("model", settings["model"])] * int(settings["members"])


def each_model(settings: TableView) -> Members:
    return [(f"models[{number}]", table) for number, table in enumerate(settings["models"])]


def add_weights(weights: Weights, model: ChainFusion | Fusion, settings: TableView) -> Notes:
    return {"weights": list(model.weights)}


def add_fusion(weights: Weights, model: Fusion, settings: TableView) -> Notes:
    return add_weights(weights, model, settings) | {"renormalise": model.renormalise}


def add_counts(weights: Weights, model: WithCounts, settings: TableView) -> Notes:
    """The counted model beside a trained one, and its weight; nothing if it has no counts."""
    if len(model.used()) == 1:
        return {}
    weights.counts("counted", model.get_submodule("models.1"))
    return {"counted": settings["counted"], "weight": settings["weight"]}


def add_linear_classifier(weights: Weights, model: LinearClassifier, settings: TableView) -> Notes:
    for name in ("rarity", "weight", "bias"):
        weights.floats(name, getattr(model, name))
    ranges: Notes = {"words": list(model.words), "pieces": list(model.pieces), "apart": model.apart}
    return _add_keys(weights, model) | ranges | {"unknown": model.unknown}


def add_linear_tagger(weights: Weights, model: LinearTagger, settings: TableView) -> Notes:
    weights.floats("weight", model.weight[:-1])
    weights.floats("bias", model.weight[-1])
    return _add_keys(weights, model)


def _add_keys(weights: Weights, model: LinearClassifier | LinearTagger) -> Notes:
    """The numbers of the features. Returns the notes about the source's ids."""
    weights.tensors["keys"] = model.keys.detach().clone()
    return {"alphabet": model.alphabet, "wholes": model.wholes}


LINEAR: dict[str, Callable[[Weights, Any, TableView], Notes]] = {
    "linear-classifier": add_linear_classifier,
    "linear-tagger": add_linear_tagger,
}


def add_label_counts(weights: Weights, model: LabelsWithCounts, settings: TableView) -> Notes:
    """The linear model beside a trained one, and its weight; nothing if it has no counts."""
    if len(model.used()) == 1:
        return {}
    own, table = Weights(weights.integers), settings["counted"]
    notes = LINEAR[kind(table)](own, model.get_submodule("models.1"), table)
    weights.include("counted", own)
    return {"counted": {"model": kind(table)} | notes, "weight": settings["weight"]}


def add_ngrams(weights: Weights, model: nn.Module, settings: TableView) -> Notes:
    weights.counts("counted", model)
    return {"counted": dict(settings)}
