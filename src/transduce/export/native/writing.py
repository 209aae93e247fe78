"""Writes a model for our own engine: tables of the kinds of models and of their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from transduce.engines.native.library import library
from transduce.engines.native.opening import WEIGHTS
from transduce.export.native import convolution, transformer
from transduce.export.native.weights import Weights
from transduce.export.transformers import check_value

ENGINE = "the native engine"


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
    "transformer": Part(transformer.check_transformer, transformer.write_encoder),
}
DECODERS = {
    "convs2s": Part(convolution.check_convolution, convolution.write_decoder),
    "transformer": Part(transformer.check_transformer, transformer.write_decoder),
}


def check_encoder_decoder(settings: Mapping[str, Any]) -> None:
    check_value("kept_heads", settings.get("kept_heads"), (None,), ENGINE)
    for side, known in (("encoder", ENCODERS), ("decoder", DECODERS)):
        check_value(f"{side}.type", settings[side]["type"], tuple(known), ENGINE)
        known[settings[side]["type"]].check(settings, side, ENGINE)


def write_encoder_decoder(weights: Weights, model: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    notes = {}
    for side, known in (("encoder", ENCODERS), ("decoder", DECODERS)):
        of = settings[side]["type"]
        notes[side] = {"type": of} | known[of].write(weights, getattr(model, side), settings[side])
    return notes


MODELS = {"encoder-decoder": (check_encoder_decoder, write_encoder_decoder)}


def write_native(model: Any, settings: Mapping[str, Any], folder: Path, precision: str = "float32") -> dict[str, Any]:
    """Writes weights.safetensors into ``folder``. Returns the notes for export.json.

    ``settings`` is the table ``model`` of the run, with all defaults. With ``precision`` int8, matrices are 8-bit
    integers with a scale for each output; embeddings and norms stay float32. Raises UserError for a model that the
    engine does not have, and MissingPackageError if the engine was not built.
    """
    library()
    check_value("type", settings["type"], tuple(MODELS), ENGINE)
    check, write = MODELS[settings["type"]]
    check(settings)
    weights = Weights(precision == "int8")
    with torch.no_grad():
        notes = write(weights, model, settings)
    save_file(weights.tensors, folder / WEIGHTS)
    return {"model": settings["type"], **notes}
