"""Writes a model for our own engine: tables of the kinds of models and of their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from transduce.compute.library import library
from transduce.engines.native.opening import WEIGHTS
from transduce.export.native import convolution, models, recurrent, transformer
from transduce.export.native.models import ENGINE
from transduce.export.native.weights import Weights
from transduce.export.transformers import check_value


@dataclass(frozen=True)
class Part:
    """A type of encoder or decoder. ``check`` gets the table ``model``, "encoder" or "decoder", and the engine's name;
    it raises UserError for the first setting that the engine does not have. ``write`` adds the part's tensors and
    returns the notes that describe it.
    """

    check: Callable[[Mapping[str, Any], str, str], None]
    write: Callable[[Weights, Any, Mapping[str, Any]], dict[str, Any]]


ENCODERS = {
    "convs2s": Part(convolution.check_convolution, convolution.write_encoder),
    "recurrent": Part(recurrent.check_encoder, recurrent.write_encoder),
    "transformer": Part(transformer.check_transformer, transformer.write_encoder),
}
DECODERS = {
    "convs2s": Part(convolution.check_convolution, convolution.write_decoder),
    "recurrent": Part(recurrent.check_decoder, recurrent.write_decoder),
    "transformer": Part(transformer.check_transformer, transformer.write_decoder),
}


PARTS = {"encoder": ENCODERS, "decoder": DECODERS}


@dataclass(frozen=True)
class Kind:
    """A type of model: its ``parts``, what else to check, and ``write`` for its other tensors and notes. ``part`` finds
    the part with a name of ``parts`` in a model.
    """

    parts: tuple[str, ...]
    check: Callable[[Mapping[str, Any]], None] = lambda settings: None
    write: Callable[[Weights, Any, Mapping[str, Any]], dict[str, Any]] = lambda weights, model, settings: {}
    part: Callable[[Any, str], Any] = getattr


MODELS = {
    "encoder-decoder": Kind(("encoder", "decoder")),
    "language-model": Kind(("decoder",), models.check_language_model),
    "ctc": Kind(("encoder",), write=models.write_ctc),
    "joint-ctc": Kind(("encoder", "decoder"), write=models.write_joint_ctc, part=models.joint_part),
    "tagger": Kind(("encoder",), write=models.write_labels),
    "classifier": Kind(("encoder",), models.check_classifier, models.write_labels),
}


def check(settings: Mapping[str, Any]) -> Kind:
    """The kind of the table ``model``. Raises UserError for the first setting that the engine does not have."""
    check_value("type", settings["type"], tuple(MODELS), ENGINE)
    kind = MODELS[settings["type"]]
    check_value("kept_heads", settings.get("kept_heads"), (None,), ENGINE)
    for side in kind.parts:
        of = settings[side]["type"]
        check_value(f"{side}.type", of, tuple(PARTS[side]), ENGINE)
        PARTS[side][of].check(settings, side, ENGINE)
    kind.check(settings)
    return kind


def write_native(model: Any, settings: Mapping[str, Any], folder: Path, precision: str = "float32") -> dict[str, Any]:
    """Writes weights.safetensors into ``folder``. Returns the notes for export.json.

    ``settings`` is the table ``model`` of the run, with all defaults. With ``precision`` int8, matrices are 8-bit
    integers with a scale for each output; embeddings and norms stay float32. Raises UserError for a model that the
    engine does not have, and MissingPackageError if the engine was not built.
    """
    library()
    kind = check(settings)
    weights = Weights(precision == "int8")
    notes: dict[str, Any] = {"model": settings["type"]}
    with torch.no_grad():
        for side in kind.parts:
            table = settings[side]
            part = PARTS[side][table["type"]]
            notes[side] = {"type": table["type"]} | part.write(weights, kind.part(model, side), table)
        notes |= kind.write(weights, model, settings)
    save_file(weights.tensors, folder / WEIGHTS)
    return notes
