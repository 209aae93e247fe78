"""Opens a model for our own engine: an export, or a model in memory.

The notes name the kind of model and the type of each part; a table below has the class of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from transduce import config
from transduce.compute.library import library
from transduce.engines.manifest import Manifest
from transduce.engines.native.conversion.converting import convert
from transduce.engines.native.convolution import NativeConvolutionDecoder, NativeConvolutionEncoder
from transduce.engines.native.edits import NativeEditDecoder
from transduce.engines.native.models import (
    NativeClassifier,
    NativeConditionalRandomField,
    NativeCTC,
    NativeEncoderDecoder,
    NativeFrames,
    NativeInstant,
    NativeJointCTC,
    NativeLanguageModel,
    NativeLengths,
    NativeTagger,
)
from transduce.engines.native.parts import Parts
from transduce.engines.native.recurrent import NativeRecurrentDecoder, NativeRecurrentEncoder
from transduce.engines.native.transformer import (
    NativeInstantTransformer,
    NativeTransformerDecoder,
    NativeTransformerEncoder,
)
from transduce.errors import UserError
from transduce.models.chain_fusion import ChainFusion
from transduce.models.mixtures import Ensemble, Fusion
from transduce.models.weights import set_weights
from transduce.protocols import Model

WEIGHTS = "weights.safetensors"

Reader = Callable[[Parts, Mapping[str, Any]], Any]
ENCODERS: dict[str, Reader] = {
    "convs2s": NativeConvolutionEncoder,
    "recurrent": NativeRecurrentEncoder,
    "transformer": NativeTransformerEncoder,
}
DECODERS: dict[str, Reader] = {
    "convs2s": NativeConvolutionDecoder,
    "edits": NativeEditDecoder,
    "recurrent": NativeRecurrentDecoder,
    "transformer": NativeTransformerDecoder,
}
INSTANT_DECODERS: dict[str, Reader] = {"transformer": NativeInstantTransformer}


def _encoder(parts: Parts, notes: Mapping[str, Any]) -> Any:
    return ENCODERS[notes["encoder"]["type"]](parts, notes["encoder"])


def _decoder(parts: Parts, notes: Mapping[str, Any], decoders: Mapping[str, Reader] = DECODERS) -> Any:
    return decoders[notes["decoder"]["type"]](parts, notes["decoder"])


def _members(parts: Parts, notes: Mapping[str, Any]) -> list[Any]:
    """The models of a mixture."""
    return [MODELS[own["model"]](parts.within(str(number)), own) for number, own in enumerate(notes["members"])]


def _with_counts(parts: Parts, notes: Mapping[str, Any]) -> Any:
    """A trained model beside a counted one, which is the package's own; the trained one alone if it has no counts."""
    (trained,) = _members(parts, notes)
    if "counted" not in notes:
        return trained
    counted: Any = config.build(notes["counted"], Model, path="model.counted")
    set_weights(counted, parts.under("counted"), WEIGHTS, mapped=True)
    return Fusion([trained, counted], [1 - notes["weight"], notes["weight"]])


MODELS: dict[str, Reader] = {
    "encoder-decoder": lambda parts, notes: NativeEncoderDecoder(_encoder(parts, notes), _decoder(parts, notes)),
    "language-model": lambda parts, notes: NativeLanguageModel(_decoder(parts, notes)),
    "ctc": lambda parts, notes: NativeCTC(_encoder(parts, notes), NativeFrames(parts, notes["stretch"])),
    "joint-ctc": lambda parts, notes: NativeJointCTC(
        _encoder(parts, notes), _decoder(parts, notes), NativeFrames(parts, notes["stretch"]), notes["weight"]
    ),
    "instant": lambda parts, notes: NativeInstant(
        _encoder(parts, notes), _decoder(parts, notes, INSTANT_DECODERS), NativeLengths(parts, notes["length_width"])
    ),
    "tagger": lambda parts, notes: NativeTagger(_encoder(parts, notes), parts.readout("labels")),
    "classifier": lambda parts, notes: NativeClassifier(parts, _encoder(parts, notes), notes["pooling"]),
    "crf": lambda parts, notes: NativeConditionalRandomField(parts, _encoder(parts, notes)),
    "chain-fusion": lambda parts, notes: ChainFusion(_members(parts, notes), notes["weights"]),
    "ensemble": lambda parts, notes: Ensemble(_members(parts, notes)),
    "fusion": lambda parts, notes: Fusion(_members(parts, notes), notes["weights"], notes["renormalise"]),
    "seeds": lambda parts, notes: Ensemble(_members(parts, notes)),
    "with-counts": _with_counts,
}


def open_native(folder: Path, manifest: Manifest) -> Any:
    """The model of the export in ``folder``. Its products of matrices have as many threads as PyTorch now. Raises
    MissingPackageError if the library was not built, and UserError for an export of another version.
    """
    return read_model(_library_with_threads(), folder, manifest.graphs)


def native_model(model: Any, settings: Mapping[str, Any], precision: str = "float32") -> Any:
    """A model of ours for our own engine, without an export. ``convert`` describes the arguments and the errors. It
    keeps nothing of ``model``. Its products have as many threads as PyTorch now.
    """
    return assemble(_library_with_threads(), *convert(model, settings, precision))


def _library_with_threads() -> Any:
    functions = library()
    functions.transduce_set_threads(torch.get_num_threads())
    return functions


def read_model(functions: Any, folder: Path, notes: Mapping[str, Any]) -> Any:
    """The model of the export in ``folder``, packed for a variant of the library, with the ``notes`` of export.json."""
    if notes["model"] not in MODELS:
        raise UserError(
            f"{folder} is an export of a {notes['model']!r}, and this version of the native engine opens "
            f"{', '.join(MODELS)}: export the run again"
        )
    try:
        return assemble(functions, load_file(folder / WEIGHTS), notes)
    except KeyError as error:  # a note or a tensor that exports did not have then, or do not have any more
        raise UserError(
            f"{folder} has no {error}: another version of transduce made the export; export the run again"
        ) from error


def assemble(functions: Any, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> Any:
    """The model that ``convert`` described by ``tensors`` and ``notes``."""
    return MODELS[notes["model"]](Parts(functions, tensors), notes).eval()
