"""Converts a model for our own engine: tables of the kinds of models and of their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from transduce.core.config import TableView
from transduce.wings.engines.native.conversion import convolution, models, multikernel, recurrent, signals, transformer
from transduce.wings.engines.native.conversion.models import ENGINE
from transduce.wings.engines.native.conversion.weights import Notes, Weights
from transduce.wings.engines.transformers import UnsupportedError, check_value


@dataclass(frozen=True)
class Part:
    """A type of encoder or decoder. ``check`` gets the table ``model``, "encoder" or "decoder", and the engine's name;
    it raises UserError for the first setting that the engine does not have. ``add`` adds the part's tensors and
    returns the notes that describe it.
    """

    check: Callable[[TableView, str, str], None]
    add: Callable[[Weights, Any, TableView], Notes]


ENCODERS = {
    "convs2s": Part(convolution.check_convolution, convolution.add_encoder),
    "multi-kernel": Part(multikernel.check_multi_kernel, multikernel.add_multi_kernel),
    "perceptron": Part(signals.check_perceptron, signals.add_perceptron),
    "recurrent": Part(recurrent.check_encoder, recurrent.add_encoder),
    "transformer": Part(transformer.check_transformer, transformer.add_encoder),
}
DECODERS = {
    "convs2s": Part(convolution.check_convolution, convolution.add_decoder),
    "edits": Part(recurrent.check_cells, recurrent.add_edits),
    "recurrent": Part(recurrent.check_decoder, recurrent.add_decoder),
    "transformer": Part(transformer.check_transformer, transformer.add_decoder),
}
INSTANT_DECODERS = {"transformer": Part(transformer.check_transformer, transformer.add_instant_decoder)}
BOTH = {"encoder": ENCODERS, "decoder": DECODERS}


@dataclass(frozen=True)
class Kind:
    """A type of model: the types of its ``parts`` by the part's name, what else to check, and ``add`` for its other
    tensors and notes. ``members`` are the first of the models that a mixture mixes, of the types ``mixed``.
    """

    parts: Mapping[str, Mapping[str, Part]] = field(default_factory=dict)
    check: Callable[[TableView], None] = lambda settings: None
    add: Callable[[Weights, Any, TableView], Notes] = lambda weights, model, settings: {}
    members: Callable[[TableView], models.Members] = lambda settings: ()
    mixed: tuple[str, ...] = models.BY_TOKENS


MODELS = {
    "encoder-decoder": Kind(BOTH),
    "language-model": Kind({"decoder": DECODERS}),
    "ctc": Kind({"encoder": ENCODERS}, add=models.add_ctc),
    "joint-ctc": Kind(BOTH, add=models.add_joint_ctc),
    "instant": Kind({"encoder": ENCODERS, "decoder": INSTANT_DECODERS}, add=models.add_instant),
    "tagger": Kind({"encoder": ENCODERS}, add=models.add_labels),
    "classifier": Kind({"encoder": ENCODERS}, models.check_classifier, models.add_classifier),
    "crf": Kind({"encoder": ENCODERS}, add=models.add_chain),
    "chain-fusion": Kind(members=models.each_model, mixed=("crf",), add=models.add_weights),
    "ensemble": Kind(members=models.each_model),
    "fusion": Kind(members=models.each_model, add=models.add_fusion),
    "joint-ngram": Kind(add=models.add_ngrams),
    "labels-with-counts": Kind(
        check=models.check_label_counts,
        members=models.the_trained,
        mixed=("classifier", "parallel-ensemble", "tagger"),
        add=models.add_label_counts,
    ),
    **{name: Kind(add=add) for name, add in models.LINEAR.items()},
    "parallel-ensemble": Kind(members=models.each_model, mixed=("classifier", "tagger")),
    "seeds": Kind(members=models.each_seed),
    "with-counts": Kind(check=models.check_counted, members=models.the_trained, add=models.add_counts),
}


def check(settings: TableView) -> None:
    """Raises UserError for the first setting of the table ``model`` that the engine does not have."""
    check_value("type", settings["type"], tuple(MODELS), ENGINE)
    kind = MODELS[settings["type"]]
    check_value("kept_heads", settings.get("kept_heads"), (None,), ENGINE)
    for side, parts in kind.parts.items():
        of = settings[side]["type"]
        check_value(f"{side}.type", of, tuple(parts), ENGINE)
        parts[of].check(settings, side, ENGINE)
    for key, table in kind.members(settings):
        try:
            check_value("type", table["type"], kind.mixed, ENGINE)
            check(table)
        except UnsupportedError as error:
            raise error.inside(key) from None
    kind.check(settings)


def convert(model: nn.Module, settings: TableView, precision: str = "float32") -> tuple[dict[str, Tensor], Notes]:
    """The tensors of a model for the engine, by name, and the notes that describe it.

    ``settings`` is the table ``model`` of the run, with all defaults. With ``precision`` int8, matrices are 8-bit
    integers with a scale for each output; embeddings, norms and counts do not change. Raises UserError for a model
    that the engine does not have.
    """
    check(settings)
    weights = Weights(precision == "int8")
    with torch.no_grad():
        notes = _described(weights, model, settings)
    return weights.tensors, notes


def _described(weights: Weights, model: nn.Module, settings: TableView) -> Notes:
    """Adds the tensors of a model. Returns its notes."""
    kind = MODELS[settings["type"]]
    notes: Notes = {"model": settings["type"]}
    for side, parts in kind.parts.items():
        table = settings[side]
        part = parts[table["type"]]
        notes[side] = {"type": table["type"]} | part.add(weights, getattr(model, side), table)
    if members := kind.members(settings):
        notes["members"] = [
            _member(weights, model.get_submodule(f"models.{n}"), n, table) for n, (_, table) in enumerate(members)
        ]
    return notes | kind.add(weights, model, settings)


def _member(weights: Weights, model: nn.Module, number: int, settings: TableView) -> Notes:
    """Adds the tensors of a model of a mixture, below its number. Returns its notes."""
    own = Weights(weights.integers)
    notes = _described(own, model, settings)
    weights.include(str(number), own)
    return notes
